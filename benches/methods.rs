//! What naming code costs: addresses of a text after the core is open, one
//! address from nothing, the map of all methods.
//!
//! `COREMAP_BENCH_CORE=core` takes that plain core; else it is the small one of .NET 8.

mod common;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::Fallible;
use coremap::addr::Addr;
use coremap::commands;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use divan::Bencher;
use divan::counter::ItemsCount;

/// Frames of the text; what `perf record` of some hours has.
const FRAMES: usize = 200_000;

/// Frames of one stack.
const DEPTH: usize = 40;

/// Rounds of which the best, or the median, counts.
const ROUNDS: usize = 21;

struct Sample {
    path: PathBuf,
    process: Process,
    /// A text of perf, its addresses all different where there are enough methods.
    text: String,
    /// One address in it.
    ip: Addr,
}

static SAMPLE: OnceLock<Sample> = OnceLock::new();

fn open(path: &Path) -> Fallible<Process> {
    Ok(Process::open(path, &Options::default(), &Progress::silent())?)
}

/// Addresses all over the methods, not one after the other.
fn text(process: &Process) -> Fallible<(String, Addr)> {
    let methods: Vec<(u64, u64)> =
        commands::perfmap(&Session::new(process)).entries.iter().map(|e| (e.start.get(), e.size)).collect();
    let mut out = String::new();
    let mut first = None;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for i in 0..FRAMES {
        if i % DEPTH == 0 {
            writeln!(out, "\ndotnet {} [000] {i}.5: cycles:", 1000 + i % 7)?;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (start, size) = *methods.get(random as usize % methods.len().max(1)).ok_or("no methods")?;
        let ip = start + (random >> 32) % size.max(1);
        first.get_or_insert(ip);
        writeln!(out, "\t{ip:16x} [unknown] ([unknown])")?;
    }
    Ok((out, Addr::new(first.ok_or("no frames")?)))
}

/// As after opening: no name is known yet.
fn symbolicate(sample: &Sample, fold: bool) -> u64 {
    let options = coremap::symbolicate::Options::default();
    let mut input = sample.text.as_bytes();
    let report = commands::symbolicate(&Session::new(&sample.process), &mut input, &mut io::sink(), fold, &options);
    report.map_or(0, |r| r.named)
}

/// From nothing: open, find the runtime, answer.
fn ip2method(sample: &Sample) -> bool {
    let Ok(process) = open(&sample.path) else { return false };
    commands::ip2method(&Session::new(&process), &[sample.ip]).results.iter().all(|r| r.found)
}

fn perfmap(sample: &Sample) -> usize {
    commands::perfmap(&Session::new(&sample.process)).entries.len()
}

#[divan::bench(args = [false, true], sample_count = 10, sample_size = 1)]
fn text_fold(bencher: Bencher<'_, '_>, fold: bool) {
    let Some(sample) = SAMPLE.get() else { return };
    bencher.counter(ItemsCount::new(FRAMES)).bench(|| symbolicate(sample, fold));
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn one_address(bencher: Bencher<'_, '_>) {
    let Some(sample) = SAMPLE.get() else { return };
    bencher.bench(|| ip2method(sample));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn all_methods(bencher: Bencher<'_, '_>) {
    let Some(sample) = SAMPLE.get() else { return };
    bencher.bench(|| perfmap(sample));
}

/// Best and median of some rounds.
fn timed<T>(mut run: impl FnMut() -> T) -> (T, Duration, Duration) {
    let mut last = run();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        last = run();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    (last, times[0], times[ROUNDS / 2])
}

fn compare(sample: &Sample) {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let rate = |n: f64, d: Duration| n / d.as_secs_f64();
    println!("{:<28} {:>10} {:>10} {:>18}", "", "best", "median", "per second (best)");
    for (name, fold) in [("symbolicate", false), ("symbolicate --fold", true)] {
        let (named, best, median) = timed(|| symbolicate(sample, fold));
        println!(
            "{name:<28} {:>7.1} ms {:>7.1} ms {:>18.0}  {named} of {FRAMES} frames named",
            ms(best),
            ms(median),
            rate(FRAMES as f64, best)
        );
    }
    let (found, best, median) = timed(|| ip2method(sample));
    println!(
        "{:<28} {:>7.2} ms {:>7.2} ms {:>18.0}  found: {found}",
        "ip2method, open included",
        ms(best),
        ms(median),
        rate(1.0, best)
    );
    let (methods, best, median) = timed(|| perfmap(sample));
    println!(
        "{:<28} {:>7.1} ms {:>7.1} ms {:>18.0}  {methods} entries\n",
        "perfmap",
        ms(best),
        ms(median),
        rate(methods as f64, best)
    );
}

fn prepare() -> Fallible {
    // Unpacked before, so that opening is what opening a plain core is.
    let (path, _scratch) = match std::env::var_os("COREMAP_BENCH_CORE") {
        Some(path) => (PathBuf::from(path), None),
        None => {
            let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores/dotnet8-methods/core.zst");
            let scratch = common::plain(&packed)?;
            (scratch.path(), Some(scratch))
        }
    };
    let process = open(&path)?;
    let (text, ip) = text(&process)?;
    let sample = SAMPLE.get_or_init(|| Sample { path, process, text, ip });
    if common::measuring() {
        compare(sample);
    }
    divan::main();
    Ok(())
}

fn main() {
    if let Err(e) = prepare() {
        eprintln!("methods: {e}");
        std::process::exit(1);
    }
}
