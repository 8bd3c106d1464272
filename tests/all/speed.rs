//! Work that must not grow with what it does not depend on.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crate::support::builder::{CoreBuilder, Load, file_with};
use crate::support::malloc_builder::{Fake, VERSIONS};
use crate::support::notes;
use crate::support::run::run;
use crate::watch;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;

const STACK: u64 = 0x7000_0000_0000;
const BLOCKS: u64 = 0x2000_0000_0000;
/// Of one anonymous block. Those between which one is left out are mappings of their own.
const BLOCK: u64 = 1 << 20;

/// A core with `count` blocks of anonymous memory, which are holes of the file.
fn with_blocks(count: u64) -> tempfile::NamedTempFile {
    let core = |data: u64| {
        let blocks =
            (0..count).map(|i| Load::at(BLOCKS + 2 * i * BLOCK).offset(data + i * BLOCK).filesz(BLOCK).memsz(BLOCK));
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(77, 0, STACK, 0x40_0100, 0))
            .load(Load::at(STACK).bytes(vec![1; 4096]))
            .loads(blocks)
    };
    let data = (core(0).build().len() as u64).next_multiple_of(4096);
    let file = file_with(&core(data).build());
    file.as_file().set_len(data + count * BLOCK).unwrap();
    file
}

/// Bytes that this thread has read from files (proc(5), rchar).
fn read_from_files() -> u64 {
    let mut text = String::new();
    std::fs::File::open("/proc/thread-self/io").unwrap().read_to_string(&mut text).unwrap();
    text.lines().find_map(|l| l.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Bytes of the mappings of `path` that this process has touched.
fn touched(path: &Path) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let path = path.to_str().unwrap();
    let mut ours = false;
    let mut sum = 0;
    for line in text.lines() {
        if let Some(rss) = line.strip_prefix("Rss:").filter(|_| ours) {
            sum += rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        }
        // A line that begins with a range of addresses begins a mapping.
        if line.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
            ours = line.ends_with(path);
        }
    }
    sum
}

/// The finding of `summary`, and the bytes of the core that it took.
fn sum_up(path: &Path) -> (String, u64) {
    let silent = Progress::silent();
    let process = Process::open(path, &Options::default(), &silent).unwrap();
    let session = Session::new(&process);
    let (mapped, read) = (touched(path), read_from_files());
    let report = coremap::commands::summary(&session, false, &silent);
    let bytes = read_from_files() - read + touched(path).saturating_sub(mapped);
    let blocks = report.findings.iter().find(|f| f.id == "anonymous-blocks");
    (blocks.map_or_else(String::new, |f| format!("{} ({})", f.text, f.evidence)), bytes)
}

#[test]
fn summary_looks_at_as_much_of_4_gb_of_anonymous_memory_as_of_less() {
    // Or other threads would read a part of it.
    watch::alone();
    let (few, many) = (with_blocks(256), with_blocks(4096));
    let ((some, small), (all, large)) = (sum_up(few.path()), sum_up(many.path()));
    assert!(
        some.starts_with("256 equal blocks of 1 MiB (256 MiB in all), byte 0x00 in the 4 sampled pages of each"),
        "{some}"
    );
    let told = "4,096 equal blocks of 1 MiB (4 GiB in all), byte 0x00 in the 2 sampled pages of 512 of them: ";
    assert!(all.starts_with(told), "{all}");
    assert!(all.contains("content from samples of up to 2 pages of 512 of 4,096 blocks of this size"), "{all}");
    // 1,024 pages and what is read of /proc to measure it.
    assert!(small < 6 << 20 && large < 6 << 20, "{small} and {large} bytes");
}

#[test]
fn leaks_takes_no_more_than_some_walks_through_the_heap() {
    let mut fake = Fake::new(VERSIONS[3]);
    fake.grow(96 << 20);
    fake.tangle();
    let core = fake.core().write();
    drop(fake);
    let path = core.path().to_str().unwrap();
    // A walk reads all blocks once, and little else is done in a moment.
    let least = |command: &str| (0..2).map(|_| run([command, "--json", path])).min_by_key(|out| out.took).unwrap();
    let (walk, leaks) = (least("malloc"), least("leaks"));
    let answer = leaks.json();
    let (walk, leaks) = (walk.took, leaks.took);
    assert!(answer["reachable"]["count"].as_u64().unwrap() > 100_000, "{answer}");
    // Some 3 times; with a search of all parts for each word it was 10.
    assert!(leaks < 8 * walk.max(Duration::from_millis(20)), "{leaks:?}, and {walk:?} for a walk");
}
