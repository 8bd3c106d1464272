//! What a question took of the machine, and what the machine itself can do with the same bytes.

use std::fmt::{self, Display, Formatter};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::Fallible;

/// Clock ticks of /proc in a second (USER_HZ: 100 on every Linux that we know).
const TICKS: f64 = 100.0;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Words that are looked at in no order.
const LOOKED_AT: u64 = 20_000_000;

/// Bytes of one thread's share of a plain pass.
const SHARE: usize = 4 << 20;

/// What was taken.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// Seconds of all threads in the program, and in the kernel.
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Anonymous memory that came to what there was before, at most: no page of the core is in it.
    pub(crate) own: u64,
}

impl Display for Took {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Took { wall, user, system, own } = self;
        let (wall, own) = (wall.as_secs_f64(), *own as f64 / f64::from(1 << 20));
        write!(f, "{wall:>7.2} s, {user:>6.2} s user, {system:>5.2} s system, {own:>6.0} MiB of its own")
    }
}

/// Do it, and tell what it took.
pub(crate) fn watched<R>(work: impl FnOnce() -> Fallible<R>) -> Fallible<(Took, R)> {
    let done = AtomicBool::new(false);
    let before = anonymous();
    let (user, system) = times()?;
    let begun = Instant::now();
    let (answer, wall, most) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(anonymous());
                thread::sleep(LOOK);
            }
            most
        });
        let answer = work();
        let wall = begun.elapsed();
        done.store(true, Ordering::Relaxed);
        (answer, wall, watch.join().unwrap_or(0))
    });
    let (user_after, system_after) = times()?;
    let own = most.saturating_sub(before);
    Ok((Took { wall, user: user_after - user, system: system_after - system, own }, answer?))
}

/// Tell how long passes over some bytes take that do nothing with them: one after the other, and in no order,
/// where the next place is known at once or only by what stood at the last.
pub(crate) fn tell_limits(bytes: &[u8]) {
    let told = |what: &str, begun: Instant, count: f64, unit: &str| {
        let seconds = begun.elapsed().as_secs_f64();
        println!("  {what:<36} {seconds:>7.2} s, {:.1} {unit}", count / seconds);
    };
    let sum = |bytes: &[u8]| bytes.as_chunks().0.iter().fold(0, |sum: u64, word| sum ^ u64::from_le_bytes(*word));
    let gigabytes = bytes.len() as f64 / 1e9;
    // The first is not told: pages are mapped then.
    black_box(sum(bytes));
    let begun = Instant::now();
    black_box(sum(bytes));
    told("plain pass, 1 thread", begun, gigabytes, "GB/s");
    let begun = Instant::now();
    black_box(bytes.par_chunks(SHARE).map(sum).reduce(|| 0, |a, b| a ^ b));
    told("plain pass, all threads", begun, gigabytes, "GB/s");
    let words = bytes.as_chunks::<8>().0;
    let word = |number: u64| {
        let at = (u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * words.len() as u128) >> 64;
        words.get(at as usize).map_or(0, |word| u64::from_le_bytes(*word))
    };
    let million = LOOKED_AT as f64 / 1e6;
    let begun = Instant::now();
    black_box((0..LOOKED_AT).fold(0, |sum, number| sum ^ word(number)));
    told("words in no order, 1 thread", begun, million, "million/s");
    let begun = Instant::now();
    black_box(
        (0..LOOKED_AT as u32)
            .into_par_iter()
            .with_min_len(1 << 16)
            .map(|number| word(number.into()))
            .reduce(|| 0, |a, b| a ^ b),
    );
    told("words in no order, all threads", begun, million, "million/s");
    let begun = Instant::now();
    black_box((0..LOOKED_AT / 4).fold(1, |last: u64, number| number.wrapping_add(word(last ^ (number << 32)))));
    told("each found by the last, 1 thread", begun, million / 4.0, "million/s");
}

/// RssAnon, bytes; 0 where the kernel does not tell.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// Seconds of this process in user mode and in the kernel (proc(5): fields 14 and 15 of stat).
fn times() -> Fallible<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Fallible<f64> { Ok(fields.next().ok_or("a short stat")?.parse::<f64>()? / TICKS) };
    Ok((next()?, next()?))
}
