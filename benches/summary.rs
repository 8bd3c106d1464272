//! What `summary` costs without `--zero-fill`: its time and its own memory must
//! not depend on the size of the core.
//!
//! Each core is read by a process of its own (this program again, as its own
//! child), so that the peak of its memory is its own.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use common::{Fallible, Fill, Scratch};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use divan::Bencher;

/// Set for a child: the core to sum up.
const CHILD: &str = "COREMAP_BENCH_CHILD";

/// A real process; the others are this one with more memory.
const SAMPLE: &str = "dotnet31-kernel/core.zst";

/// Rounds of which the best counts.
const ROUNDS: usize = 9;

/// Bytes of one added mapping.
const MAPPING: u64 = 64 << 20;

/// The same as node has them: its heap is pages of 256 KiB, each a mapping.
const SMALL: u64 = 256 << 10;

/// Name, bytes added, in mappings of which size, and of what.
const SIZES: [(&str, u64, u64, Fill); 7] = [
    ("as it is", 0, MAPPING, Fill::Real),
    ("+64 MiB", 64 << 20, MAPPING, Fill::Real),
    ("+512 MiB", 512 << 20, MAPPING, Fill::Real),
    ("+2 GiB", 2 << 30, MAPPING, Fill::Real),
    ("+2 GiB sparse", 2 << 30, MAPPING, Fill::Hole),
    ("+512 MiB small", 512 << 20, SMALL, Fill::Written),
    ("+2 GiB small", 2 << 30, SMALL, Fill::Written),
];

static CORES: OnceLock<Vec<(&'static str, Scratch)>> = OnceLock::new();

/// The size of the address space, and what it was found in.
fn sum_up(path: &Path) -> Fallible<(u64, Process)> {
    let silent = Progress::silent();
    let process = Process::open(path, &Options::default(), &silent)?;
    let size = coremap::commands::summary(&Session::new(&process), false, &silent).total.size;
    Ok((size, process))
}

/// Sum up, and tell: microseconds, peak of all resident memory and what of it
/// was of files at the end, in KiB.
fn child(path: &Path) -> Fallible {
    let begun = Instant::now();
    // The core must still be mapped when its pages are counted.
    let (size, _process) = sum_up(path)?;
    let micros = begun.elapsed().as_micros();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib = |name: &str| {
        status.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    println!("{size} {micros} {} {}", kib("VmHWM"), kib("RssFile"));
    Ok(())
}

fn compare() -> Fallible {
    println!("{:<15} {:>14} {:>10} {:>14} {:>16}", "core", "mapped bytes", "best", "peak of all", "peak of its own");
    for (name, core) in CORES.get().into_iter().flatten() {
        let mut best: Option<[u64; 4]> = None;
        for _ in 0..ROUNDS {
            let out = Command::new(std::env::current_exe()?).env(CHILD, core.path()).output()?;
            let text = String::from_utf8(out.stdout)?;
            let figures: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let figures: [u64; 4] = figures.try_into().map_err(|_| format!("child: {text:?}"))?;
            if best.is_none_or(|b| figures[1] < b[1]) {
                best = Some(figures);
            }
        }
        if let Some([size, micros, peak, files]) = best {
            println!(
                "{name:<15} {size:>14} {:>7.2} ms {:>10.1} MiB {:>12.1} MiB",
                micros as f64 / 1e3,
                peak as f64 / 1024.0,
                peak.saturating_sub(files) as f64 / 1024.0
            );
        }
    }
    println!("peak of its own: VmHWM less RssFile at the end (the core's pages that were read, the program)\n");
    Ok(())
}

#[divan::bench(args = SIZES.map(|s| s.0), sample_count = 20, sample_size = 1)]
fn summary(bencher: Bencher<'_, '_>, name: &str) {
    let Some((_, core)) = CORES.get().into_iter().flatten().find(|c| c.0 == name) else { return };
    let path = core.path();
    bencher.bench(|| sum_up(&path).ok().map(|(size, _)| size));
}

fn prepare() -> Fallible {
    let measuring = common::measuring();
    let mut cores = Vec::new();
    for (name, extra, mapping, fill) in SIZES {
        // A mere test run needs no gigabytes.
        let extra = if measuring { extra } else { extra.min(1 << 20) };
        cores.push((name, common::grown_by(SAMPLE, extra, mapping, fill)?));
    }
    CORES.get_or_init(|| cores);
    if measuring { compare() } else { Ok(()) }
}

fn main() {
    let done = match std::env::var_os(CHILD) {
        Some(path) => child(Path::new(&path)),
        None => prepare().map(|()| divan::main()),
    };
    if let Err(e) = done {
        eprintln!("summary: {e}");
        std::process::exit(1);
    }
}
