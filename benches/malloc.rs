//! How fast glibc's heaps are walked: a heap of 1 GiB with chunks of 32 to 1,040
//! bytes, one in eight of them free, made by hand; chunks a second.
//!
//! `COREMAP_BENCH_HEAP` is the heap's size in MiB; 64 where it is a mere test run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "shares its builder with the tests")]

#[path = "../tests/all/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "it uses one builder")]
mod support;

use std::time::{Duration, Instant};

use coremap::commands::{self, MallocOptions};
use coremap::internals;
use coremap::native::malloc::FreeLists;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use support::malloc_builder::{Fake, VERSIONS};

/// Rounds of which the best counts.
const ROUNDS: usize = 7;

fn best(mut run: impl FnMut() -> u64) -> (Duration, u64) {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        let n = run();
        (start.elapsed(), n)
    });
    rounds.min().unwrap()
}

fn main() {
    let test = std::env::args().any(|a| a == "--test");
    let given = std::env::var("COREMAP_BENCH_HEAP").ok().and_then(|n| n.parse().ok());
    let size: u64 = given.unwrap_or(if test { 64 } else { 1024 }) << 20;
    let mut fake = Fake::new(VERSIONS[3]);
    let chunks = fake.grow(size);
    let file = fake.core().write();
    drop(fake);
    let silent = Progress::silent();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let session = Session::new(&process);
    let tell = |what: &str, (time, n): (Duration, u64)| {
        let rate = n as f64 / time.as_secs_f64() / 1e6;
        println!("{what:<28} {:>9.1} ms  {n:>10} chunks  {rate:>7.1} million a second", time.as_secs_f64() * 1e3);
    };
    println!("heap of {size} bytes, {chunks} chunks");
    let lists = FreeLists::read(&process, internals::malloc(&session), &[]);
    let walk = || {
        let counts = internals::malloc(&session).walk(&process, &lists, |_| 0u64, |n, _| *n += 1);
        counts.iter().map(|(_, _, n, _)| n).sum()
    };
    tell("walk alone", best(walk));
    tell("free lists (summary)", best(|| FreeLists::read(&process, internals::malloc(&session), &[]).count() as u64));
    let whole = || {
        let report = commands::malloc(&session, &MallocOptions::default(), &silent);
        assert!(report.lost.count == 0 && report.total.used + report.total.free > chunks);
        report.total.used + report.total.free
    };
    tell("malloc, the whole report", best(whole));
}
