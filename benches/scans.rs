//! How fast all memory of a core is read: by a plain parallel sum, which is
//! what the machine can do, by the scan for zero pages, and by a search for
//! text in both encodings.
//!
//! `COREMAP_BENCH_CORE` names another core than those of 1 GiB of real bytes
//! that are made here; it must be plain ELF, or each round unpacks it again.

mod common;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{ALL, Fallible, Fill, Scratch};
use coremap::memory::scan;
use coremap::progress::Progress;
use coremap::search::{self, Pattern, PatternOptions};
use coremap::targets::Target;
use divan::Bencher;
use divan::counter::BytesCount;
use rayon::prelude::*;

/// Bytes of memory in the core that is made.
const SIZE: u64 = 1 << 30;

/// Text that is seldom in memory, as an engineer would look for.
const TEXT: &str = "centos.7-x64";

/// Rounds of which the best counts.
const ROUNDS: usize = 9;

/// What the requirement asks for, of a plain read.
const WANTED: f64 = 0.8;

/// A core to read, by what is in it.
struct Subject {
    name: &'static str,
    path: PathBuf,
    /// Keeps a core alive that was made here.
    _made: Option<Scratch>,
}

static SUBJECTS: OnceLock<Vec<Subject>> = OnceLock::new();

/// Every byte, once, in parallel.
fn plain_read(core: &dyn Target) -> u64 {
    core.expect_scan();
    let runs = core.dumped_runs(ALL);
    let sum = |bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks::<8>();
        let whole = words.iter().fold(0u64, |s, w| s.wrapping_add(u64::from_le_bytes(*w)));
        rest.iter().fold(whole, |s, &b| s.wrapping_add(u64::from(b)))
    };
    runs.par_iter().flat_map(|r| r.bytes.par_chunks(4 << 20)).map(sum).reduce(|| 0, u64::wrapping_add)
}

fn zero_pages(core: &dyn Target) -> u64 {
    let ranges: Vec<_> = core.facts().space.pieces.iter().map(|p| p.range).collect();
    scan::zero_pages(core, &ranges, &Progress::silent()).iter().map(|s| s.zero).sum()
}

fn search_both(core: &dyn Target) -> u64 {
    match Pattern::new(TEXT, PatternOptions::default()) {
        Ok(pattern) => search::search(core, &pattern, None, Some(100), &Progress::silent()).total,
        Err(_) => 0,
    }
}

/// A way of reading all memory: its name, and what it counts.
type Way = (&'static str, fn(&dyn Target) -> u64);

const WAYS: [Way; 3] =
    [("plain parallel read", plain_read), ("zero pages", zero_pages), ("search, UTF-8 and UTF-16", search_both)];

fn subjects() -> &'static [Subject] {
    SUBJECTS.get().map_or(&[], Vec::as_slice)
}

/// One after the other in each round, so that a noisy machine is unfair to
/// none; each on a fresh mapping, as in a run of the program.
fn compare(subject: &Subject) -> Fallible {
    let mut best = [Duration::MAX; WAYS.len()];
    let mut results = [0; WAYS.len()];
    for _ in 0..ROUNDS {
        for (i, (_, way)) in WAYS.iter().enumerate() {
            let core = common::open(&subject.path)?;
            let begun = Instant::now();
            results[i] = way(&core);
            best[i] = best[i].min(begun.elapsed());
        }
    }
    let core = common::open(&subject.path)?;
    let bytes = core.facts().space.dumped_total();
    println!(
        "{}: {bytes} bytes of memory in the core, {} % in zero pages; {} threads; best of {ROUNDS}",
        subject.name,
        results[1] * 100 / bytes.max(1),
        rayon::current_num_threads()
    );
    let holes = core.facts().size.saturating_sub(core.extents().data_bytes());
    if holes > 0 {
        println!("holes of the file: {holes} bytes, which only the plain read reads");
    }
    for ((name, _), time) in WAYS.iter().zip(best) {
        let share = best[0].as_secs_f64() / time.as_secs_f64();
        println!(
            "  {name:<26} {:>8.1} ms {:>7.2} GB/s {:>6.0} % of plain read{}",
            time.as_secs_f64() * 1e3,
            bytes as f64 / time.as_secs_f64() / 1e9,
            share * 100.0,
            if share < WANTED { "  SHORT" } else { "" }
        );
    }
    println!("  {} hits of {TEXT:?}\n", results[2]);
    Ok(())
}

#[divan::bench(args = WAYS.map(|w| w.0), sample_count = 10, sample_size = 1)]
fn scan_all(bencher: Bencher<'_, '_>, name: &str) {
    let (Some((_, way)), Some(subject)) = (WAYS.iter().find(|w| w.0 == name), subjects().first()) else { return };
    let opened = || common::open(&subject.path).ok();
    bencher
        .counter(BytesCount::new(opened().map_or(0, |c| c.facts.space.dumped_total())))
        .with_inputs(opened)
        .bench_refs(|core| core.as_ref().map(|core| way(core)));
}

fn prepare() -> Fallible {
    let mut list = Vec::new();
    if let Some(path) = std::env::var_os("COREMAP_BENCH_CORE") {
        list.push(Subject { name: "COREMAP_BENCH_CORE", path: path.into(), _made: None });
    } else {
        // A mere test run needs no gigabytes.
        let size = if common::measuring() { SIZE } else { 1 << 20 };
        for (name, fill) in [("real memory", Fill::Real), ("real memory without its zero pages", Fill::Written)] {
            let made = common::grown("native-glibc-kernel/core.gz", size, fill)?;
            list.push(Subject { name, path: made.path(), _made: Some(made) });
        }
    }
    SUBJECTS.get_or_init(|| list);
    if common::measuring() { subjects().iter().try_for_each(compare) } else { Ok(()) }
}

fn main() {
    if let Err(e) = prepare() {
        eprintln!("scans: {e}");
        std::process::exit(1);
    }
    divan::main();
}
