//! Findings about memory by allocator: how full obmalloc's arenas are, and how much of malloc belongs to Python.

use crate::facts::{Finding, Severity};
use crate::map::{Confidence, Kind};
use crate::runtimes::api::{KindBytes, SmallArena, SmallBlockSums, SmallBlocks, SmallClass};
use crate::runtimes::cpython::CPython;
use crate::units::{count, exact, round};

/// An arena with less than this percentage in use counts as nearly empty.
const NEARLY_EMPTY: u64 = 25;

/// Whether little of an arena is in use.
pub(in crate::runtimes::cpython) fn is_nearly_empty(arena: &SmallArena) -> bool {
    arena.used.saturating_mul(100) < arena.range.len().saturating_mul(NEARLY_EMPTY)
}

/// Free memory in arenas is a warning from this percentage of all arenas, and this many bytes.
const WARNING_PERCENT: u64 = 30;
const WARNING_BYTES: u64 = 16 << 20;

/// Maximum number of block sizes listed.
const MAX_SIZES: usize = 3;

/// Kinds of memory listed besides the arenas.
const OTHER_KINDS: [(Kind, &str); 5] = [
    (Kind::Malloc, "malloc"),
    (Kind::Stack, "stacks"),
    (Kind::PyFrames, "frames"),
    (Kind::MappedFile, "mapped files"),
    (Kind::AnonRW, "memory with no known owner"),
];

pub(super) fn findings(python: &CPython<'_>, used: &KindBytes) -> Vec<Finding> {
    let blocks = SmallBlocks::sums(python);
    let mut out = vec![off_heap(python, used)];
    out.extend(blocks.map(small_blocks));
    out
}

/// Memory of the arenas compared to all other memory, and Python's share of malloc.
fn off_heap(python: &CPython<'_>, used: &KindBytes) -> Finding {
    let mut rest: Vec<(u64, &str)> = OTHER_KINDS.iter().map(|&(kind, name)| (used.of(kind), name)).collect();
    rest.sort_by_key(|&(bytes, name)| (std::cmp::Reverse(bytes), name));
    let listed: Vec<String> =
        rest.iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, name)| format!("{name} {}", round(*bytes))).collect();
    let (outside, owned) = python.objects().map(|heap| heap.outside_sums()).unwrap_or_default();
    let text = format!(
        "{} memory: Python arenas {}; other memory: {}. Outside of its arenas, Python has {} in {} and {} in {} \
         that objects own. The rest of malloc's memory belongs to extensions and libraries.",
        used.measure,
        round(used.of(Kind::PyMalloc)),
        if listed.is_empty() { "nothing".to_owned() } else { listed.join(", ") },
        round(outside.1),
        count(outside.0, "object"),
        round(owned.1),
        count(owned.0, "buffer"),
    );
    Finding::new("off-heap", Severity::Info, text, "kinds of regions; objects outside of the arenas")
        .known(Confidence::Derived)
        .more("malloc")
}

fn small_blocks(blocks: &SmallBlockSums) -> Finding {
    let (all, used, free) = (blocks.committed(), blocks.used_bytes(), blocks.free_bytes());
    let pools = blocks.free_pool_bytes();
    let empty = blocks.arenas.iter().filter(|arena| is_nearly_empty(arena));
    let (number, wasted) =
        empty.fold((0_u64, 0_u64), |(n, bytes), a| (n + 1, bytes.saturating_add(a.range.len().saturating_sub(a.used))));
    let mut text = format!(
        "{}: {} in {}; {} used, {} free in partly used pools{}, {} in free pools.",
        blocks.name,
        round(all),
        count(blocks.arenas.len() as u64, "arena"),
        round(used),
        round(free),
        by_size(&blocks.classes),
        round(pools)
    );
    if number > 0 {
        text.push_str(&format!(
            " {} less than {NEARLY_EMPTY} % used. Their {} of free memory returns to the system only when an arena's \
             last block is freed.",
            match number {
                1 => "One arena is".to_owned(),
                n => format!("{} arenas are", exact(n)),
            },
            round(wasted)
        ));
    }
    let waste = free.saturating_add(pools);
    let much = waste >= WARNING_BYTES && waste.saturating_mul(100) >= all.saturating_mul(WARNING_PERCENT);
    let severity = if much { Severity::Warning } else { Severity::Info };
    Finding::new("small-blocks", severity, text, "each arena_object and pool_header, lists of free blocks")
        .about(waste)
        .known(Confidence::Exact)
        .more("malloc")
        .within("managed-heap")
}

/// The block sizes with most free memory: ` (48-byte blocks 1.2 MiB, 64-byte blocks 1 MiB)`.
fn by_size(classes: &[SmallClass]) -> String {
    let mut free: Vec<&SmallClass> = classes.iter().filter(|class| class.free > 0).collect();
    free.sort_by_key(|class| (std::cmp::Reverse(class.free_bytes()), class.size));
    let listed: Vec<String> = free
        .iter()
        .take(MAX_SIZES)
        .map(|c| format!("{}-byte blocks {}", exact(c.size), round(c.free_bytes())))
        .collect();
    if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Addr, AddrRange};
    use crate::runtimes::api::SmallArena;

    #[test]
    fn arenas_that_one_block_keeps_are_a_warning() {
        let arena = |i: u64, used| SmallArena {
            range: AddrRange::sized(Addr::new(0x10_0000 * i), 1 << 20),
            used,
            free_pools: 63,
        };
        let mut blocks = SmallBlockSums {
            name: "obmalloc",
            arenas: (1..=40).map(|i| arena(i, 64)).collect(),
            arena_size: 1 << 20,
            pool_size: 16 << 10,
            pools: 40,
            free_pools: 40 * 63,
            classes: vec![SmallClass { size: 64, pools: 40, used: 40, free: 40 * 254 }],
            ..SmallBlockSums::default()
        };
        let finding = small_blocks(&blocks);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.text.contains("40 arenas are less than 25 % used"), "{}", finding.text);
        assert!(finding.text.contains("64-byte blocks"), "{}", finding.text);
        blocks.arenas = vec![arena(1, 1 << 20)];
        (blocks.free_pools, blocks.classes) = (0, vec![]);
        let finding = small_blocks(&blocks);
        assert_eq!((finding.severity, finding.bytes), (Severity::Info, Some(0)));
        assert!(!finding.text.contains("less than"), "{}", finding.text);
    }
}
