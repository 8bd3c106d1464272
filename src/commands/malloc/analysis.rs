//! Reports malloc's arenas, block sizes and groups of similar blocks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::block_graph::with_block_owners;
use crate::analysis::blocks::{BlockReader, BySize, Labelled, Tally, clusters, merge_labels, size_classes, warn_lists};
use crate::analysis::resident::{is_known, written};
use crate::commands::malloc::report::{
    AllocatorRow, ArenaRow, CategoriesRow, CategoryRow, FreeRow, MallocParamsRow, MallocReport, MallocTotal,
    MmappedRow, SmallBlocksRow, SmallClassRow, TcacheRow,
};
use crate::commands::malloc::{findings, slots};
use crate::diag::WarningCode;
use crate::limits;
use crate::native::malloc::{
    Arena, ChunkRange, Damage, FreeLists, Malloc, State, UnwalkedRange, WalkSummary, warn_cache_limit,
};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{ChunkSum, LossRow, LostRow};
use crate::runtimes::api::{BlockLabels, SmallBlockSums, SmallClass};
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::units::{count, exact};

/// Options of `malloc`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MallocOptions {
    /// Also list every chunk.
    pub chunks: bool,
    /// Also find type, container and holder of clusters. Without effect if there is a managed runtime, whose objects
    /// `holders` lists.
    pub holders: bool,
    /// Maximum number of clusters, or of chunks.
    pub limit: Option<usize>,
}

/// Walks all heaps of the C library's malloc.
pub fn malloc(session: &Session<'_>, options: &MallocOptions, progress: &Progress) -> MallocReport {
    session.process.target().expect_scan();
    let malloc = session.malloc();
    let mut report = MallocReport { allocators: allocators(session.process, malloc), ..MallocReport::default() };
    progress.start(malloc.arenas.iter().map(Arena::committed).saturating_sum().saturating_add(malloc.musl.committed()));
    let mut lists = FreeLists::read(session.process, malloc, &[]);
    let most = options.limit.unwrap_or(limits::MAX_LISTED_CHUNKS).min(limits::MAX_LISTED_CHUNKS);
    let reader = BlockReader::new(session, if options.chunks { most } else { 0 });
    let name = |i: usize| malloc.arenas.get(i).map(Arena::address).unwrap_or_default();
    let walk = |lists: &FreeLists| {
        let make = |i| Tally { arena: name(i), ..Tally::default() };
        malloc.walk(session.process, lists, make, |tally, chunk| tally.add(chunk, &reader))
    };
    let mut walked = walk(&lists);
    let mut seen: Vec<_> = walked.iter().flat_map(|(_, _, tally, _)| tally.caches.iter().copied()).collect();
    if seen.len() > limits::MAX_TCACHES || walked.iter().any(|(_, _, tally, _)| tally.more_caches) {
        warn_cache_limit(session.process);
    }
    seen.truncate(limits::MAX_TCACHES);
    if let Some(with_others) = lists.with_caches(session.process, malloc, &seen) {
        lists = with_others;
        walked = walk(&lists);
    }
    warn_lists(session.process, &lists);
    let mut sizes = BySize::default();
    let mut chunks = Vec::new();
    let mut listable = 0;
    let mut labels = BTreeMap::new();
    let pages = walked.iter().flat_map(|(of, _, _, walk)| walk.trimmable.iter().map(|range| (*range, *of)));
    let pages = pages.filter(|(range, _)| is_known(session, *range));
    let trimmable = written(session, &pages.collect::<Vec<_>>(), malloc.arenas.len());
    for (i, arena) in malloc.arenas.iter().enumerate() {
        let parts: Vec<_> = walked.iter().filter(|(of, ..)| *of == i).collect();
        let trimmable = trimmable.get(i).copied().flatten().unwrap_or(0);
        let walks = parts.iter().map(|(_, part, tally, walked)| (part, tally, walked));
        let row = arena_row(i, arena, &lists, trimmable, walks);
        report.total.committed.add_saturating(row.committed);
        add_to_total(&mut report.total, &row);
        report.arenas.push(row);
        for (_, _, tally, walked) in parts {
            sizes.merge(&tally.sizes);
            merge_labels(&mut labels, &tally.labels);
            listable.add_saturating(tally.listable);
            chunks.extend(tally.chunks.iter().take(most - chunks.len().min(most)).cloned());
            add_losses(&mut report.lost, walked);
        }
    }
    let mut mapped = Tally::default();
    for c in &malloc.mapped {
        mapped.add_mapped(c, lists.state_of(c.chunk).is_some(), &reader);
    }
    report.mmapped = mmapped_row(malloc, &mapped, &mut report.total);
    chunks.extend(mapped.chunks.iter().take(most - chunks.len().min(most)).cloned());
    listable.add_saturating(mapped.listable);
    merge_labels(&mut labels, &mapped.labels);
    let shares = slots::walk(session.process, &malloc.musl, &reader);
    report.mallocng = slots::row(session.process, &malloc.musl, &shares, &mut report.total, &mut report.mmapped);
    report.libc = report.total;
    let mut add = |shares: &[slots::SlotTally], sizes: &mut BySize, mapped: &mut BySize| {
        for share in shares {
            sizes.merge(&share.inside.sizes);
            mapped.merge(&share.mapped.sizes);
            for tally in [&share.inside, &share.mapped] {
                merge_labels(&mut labels, &tally.labels);
                listable.add_saturating(tally.listable);
                chunks.extend(tally.chunks.iter().take(most - chunks.len().min(most)).cloned());
            }
        }
    };
    add(&shares, &mut sizes, &mut mapped.sizes);
    report.clusters = clusters(session, &reader, &sizes, &mapped.sizes, None);
    for heap in malloc.others(session.process) {
        let (row, shares) = slots::other(session.process, heap, &reader, &mut report.total);
        report.others.push(row);
        let (mut own, mut none) = (BySize::default(), BySize::default());
        add(&shares, &mut own, &mut none);
        report.clusters.extend(clusters(session, &reader, &own, &none, Some(heap.name)));
        sizes.merge(&own);
    }
    report.clusters.sort_by_key(|c| (Reverse(c.bytes), Reverse(c.size), c.example));
    let mut runtimes = session.runtimes().into_iter();
    report.pymalloc = runtimes.find_map(|runtime| runtime.small_blocks()?.sums().map(small_blocks));
    report.categories = session.block_labels().map(|whose| categories(whose, &labels, &report.total));
    report.params = malloc.params.map(|p| MallocParamsRow {
        address: p.address,
        n_mmaps: p.n_mmaps,
        max_n_mmaps: p.max_n_mmaps,
        mmapped_mem: p.mmapped_mem,
        max_mmapped_mem: p.max_mmapped_mem,
        mmap_threshold: p.mmap_threshold,
        trim_threshold: p.trim_threshold,
    });
    report.sizes = size_classes(&sizes, &mapped.sizes);
    report.findings = findings::equal_blocks(&report, owns_native(session));
    report.findings.extend(findings::arenas(session.process, &report));
    report.clusters_total = report.clusters.len() as u64;
    report.clusters.truncate(options.limit.unwrap_or(usize::MAX));
    if options.holders && session.runtimes().is_empty() {
        with_block_owners(session, |owners| owners.describe(&mut report.clusters, false));
    }
    report.tcaches = lists
        .tcaches
        .iter()
        .map(|t| TcacheRow {
            address: t.address,
            tid: t.tid,
            since: t.since,
            count: t.count() as u64,
            broken: t.broken,
        })
        .collect();
    if options.chunks {
        report.chunks = Some(chunks);
        report.chunks_total = Some(listable);
    }
    warn_missing(
        session.process,
        malloc,
        &report,
        walked.iter().map(|(_, _, _, w)| w.misplaced_entries).saturating_sum(),
    );
    if sizes.capped || mapped.sizes.capped {
        session.process.diag.partial(WarningCode::Limit, "too many different chunk sizes: some are rounded up");
    }
    report
}

fn allocators(process: &Process, malloc: &Malloc) -> Vec<AllocatorRow> {
    let found = malloc.allocators(process);
    for other in found.iter().filter(|a| !a.walked) {
        process.diag.note(
            WarningCode::Allocator,
            format!(
                "the blocks of {} are not read ({}, {}): no sum includes them, and the map shows them as anonymous memory",
                other.name, other.module, other.evidence
            ),
        );
    }
    if found.is_empty() {
        process.diag.note(
            WarningCode::Allocator,
            "no known allocator found: neither glibc's main arena, nor musl's context, nor another allocator's library",
        );
    }
    let row = |a: crate::native::malloc::Allocator| AllocatorRow {
        name: a.name,
        module: crate::bytes::printable(&a.module).into_owned(),
        evidence: a.evidence,
        walked: a.walked,
    };
    found.into_iter().map(row).collect()
}

/// Adds a warning for everything that is missing from the sums.
fn warn_missing(process: &Process, malloc: &Malloc, report: &MallocReport, misplaced_entries: u64) {
    let lost = &report.lost;
    if let Some(first) = lost.places.first() {
        process.diag.partial(
            WarningCode::MallocWalk,
            format!(
                "malloc heaps: {} bytes could not be walked (ranges: {}); the first is {}-{}: {}",
                exact(lost.bytes),
                exact(lost.count),
                first.range.start,
                first.range.end,
                first.reason
            ),
        );
    }
    if misplaced_entries > 0 {
        let what =
            format!("{} entries of malloc's free lists do not point at the start of a chunk", exact(misplaced_entries));
        process.diag.partial(WarningCode::MallocWalk, what);
    }
    if let Some((number, bytes)) = malloc.counted_mappings().filter(|_| report.mmapped.complete == Some(false)) {
        process.diag.note(
            WarningCode::MallocMmapped,
            format!(
                "found {} ({} bytes), but malloc counts {} ({} bytes)",
                count(report.mmapped.count, "mmapped chunk"),
                exact(report.mmapped.bytes),
                exact(number),
                exact(bytes)
            ),
        );
    }
}

fn arena_row<'a>(
    index: usize,
    arena: &Arena,
    lists: &FreeLists,
    trimmable: u64,
    parts: impl Iterator<Item = (&'a ChunkRange, &'a Tally, &'a WalkSummary)>,
) -> ArenaRow {
    let mut states = [ChunkSum::default(); State::COUNT];
    let (mut trimmed, mut overhead, mut foreign, mut lost, mut largest) = (0, 0, 0, 0, 0);
    for (part, tally, walked) in parts {
        for (sum, of) in states.iter_mut().zip(tally.states) {
            sum.merge(of);
        }
        trimmed.add_saturating(part.committed.end.since(part.chunks.end));
        overhead.add_saturating(part.chunks.start.since(part.committed.start).saturating_add(walked.fences));
        foreign.add_saturating(walked.foreign);
        lost.add_saturating(walked.lost_bytes);
        largest = largest.max(walked.largest_free);
    }
    let of = |state: State| states.get(state as usize).copied().unwrap_or_default();
    let free_by = FreeRow {
        tcache: of(State::Tcache),
        fastbin: of(State::Fastbin),
        unsorted: of(State::Unsorted),
        smallbin: of(State::Small),
        largebin: of(State::Large),
        unlisted: of(State::Unlisted),
    };
    let mut free = ChunkSum::default();
    let all = [free_by.tcache, free_by.fastbin, free_by.unsorted, free_by.smallbin, free_by.largebin, free_by.unlisted];
    all.into_iter().for_each(|sum| free.merge(sum));
    let used = of(State::Used);
    let inside = used.bytes.saturating_add(free.bytes);
    ArenaRow {
        address: arena.address(),
        main: arena.main,
        confidence: arena.confidence,
        heaps: arena.parts.len() as u64,
        committed: arena.committed(),
        system_mem: arena.system_mem,
        max_system_mem: arena.max_system_mem,
        attached_threads: arena.attached_threads,
        tids: lists.threads.iter().filter(|(i, _)| *i == index).map(|(_, tid)| *tid).collect(),
        used: used.count,
        used_bytes: used.bytes,
        free: free.count,
        free_bytes: free.bytes,
        free_by,
        top: of(State::Top).bytes,
        trimmed,
        overhead,
        foreign,
        unknown: lost.saturating_add(of(State::Unknown).bytes),
        lost,
        fragmentation: (inside > 0).then(|| (free.bytes as f64 / inside as f64 * 1e4).round() / 1e4),
        largest_free: largest,
        trimmable,
        last_remainder: arena.last_remainder,
    }
}

fn add_to_total(total: &mut MallocTotal, row: &ArenaRow) {
    total.used.add_saturating(row.used);
    total.used_bytes.add_saturating(row.used_bytes);
    total.free.add_saturating(row.free);
    total.free_bytes.add_saturating(row.free_bytes);
    total.top.add_saturating(row.top);
    total.trimmed.add_saturating(row.trimmed);
    total.overhead.add_saturating(row.overhead);
    total.foreign.add_saturating(row.foreign);
    total.unknown.add_saturating(row.unknown);
    total.trimmable.add_saturating(row.trimmable);
}

fn mmapped_row(malloc: &Malloc, tally: &Tally, total: &mut MallocTotal) -> MmappedRow {
    let bytes: u64 = malloc.mapped.iter().map(|c| c.range.len()).saturating_sum();
    let of = |state: State| tally.states.get(state as usize).copied().unwrap_or_default();
    let (used, free) = (of(State::Used), of(State::Tcache));
    total.committed.add_saturating(bytes);
    total.used.add_saturating(used.count);
    total.used_bytes.add_saturating(used.bytes);
    total.free.add_saturating(free.count);
    total.free_bytes.add_saturating(free.bytes);
    total.overhead.add_saturating(bytes.saturating_sub(used.bytes).saturating_sub(free.bytes));
    let count = malloc.mapped.len() as u64;
    let complete = malloc.counted_mappings().map(|counted| counted == (count, bytes));
    MmappedRow { count, bytes, free: free.count, complete }
}

/// Sums of a runtime's small-block allocator.
fn small_blocks(blocks: &SmallBlockSums) -> SmallBlocksRow {
    let class = |class: &SmallClass| SmallClassRow {
        size: class.size,
        pools: class.pools,
        blocks_used: class.used,
        blocks_free: class.free,
    };
    let (committed, bytes_used, bytes_free) = (blocks.committed(), blocks.used_bytes(), blocks.free_bytes());
    let bytes_free_pools = blocks.free_pool_bytes();
    let accounted = [bytes_used, bytes_free, bytes_free_pools, blocks.headers];
    SmallBlocksRow {
        name: blocks.name,
        arenas: blocks.arenas.len() as u64,
        arena_size: blocks.arena_size,
        committed,
        pool_size: blocks.pool_size,
        pools: blocks.pools,
        free_pools: blocks.free_pools,
        lost_pools: blocks.lost_pools,
        bytes_used,
        bytes_free,
        bytes_free_pools,
        bytes_headers: blocks.headers,
        bytes_lost: committed.saturating_sub(accounted.into_iter().fold(0, u64::saturating_add)),
        classes: blocks.classes.iter().map(class).collect(),
    }
}

/// Used blocks by the category that a runtime recorded in them.
fn categories(whose: &dyn BlockLabels, labels: &BTreeMap<u8, Labelled>, total: &MallocTotal) -> CategoriesRow {
    let row = |(&label, sum): (&u8, &Labelled)| CategoryRow {
        number: label,
        name: whose.name(label),
        blocks: sum.chunks,
        asked: sum.requested,
    };
    let mut rows: Vec<CategoryRow> = labels.iter().map(row).collect();
    rows.sort_by_key(|r| std::cmp::Reverse((r.asked, r.number)));
    let mut others = ChunkSum { count: total.used, bytes: total.used_bytes };
    for row in &rows {
        others.count = others.count.saturating_sub(row.blocks.count);
        others.bytes = others.bytes.saturating_sub(row.blocks.bytes);
    }
    CategoriesRow { whose: whose.whose(), categories: rows, others }
}

fn add_losses(row: &mut LostRow, walked: &WalkSummary) {
    row.bytes.add_saturating(walked.lost_bytes);
    row.count.add_saturating(walked.losses);
    let lost = walked.lost.iter().filter(|l| l.damage != Damage::Foreign);
    let room = limits::MAX_LOSSES.saturating_sub(row.places.len());
    row.places.extend(lost.take(room).map(|l| LossRow { range: l.range.into(), reason: reason(l) }));
}

fn reason(lost: &UnwalkedRange) -> String {
    match lost.damage {
        Damage::NotDumped => "not in the core".into(),
        Damage::BadSize(word) => format!("invalid chunk size {word:#x}; the walk resumes at the next run of chunks"),
        Damage::Foreign => "allocated by another user of sbrk".into(),
    }
}

/// Whether objects of a managed heap may own blocks of malloc. Objects that are blocks themselves do not count.
fn owns_native(session: &Session<'_>) -> bool {
    session.runtimes().iter().any(|runtime| !runtime.frees_at_once() && runtime.heap().is_some())
}
