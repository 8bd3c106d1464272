use crate::addr::AddrRange;
use crate::commands::dotnet::heap::report::{
    ArrayBuffersRow, GcRow, HeapReport, IsolateRow, LoaderBlockRow, LoaderHeapRow, SegmentRow, SpaceRow,
};
use crate::commands::dotnet::{clr_gcs, coreclr, unread};
use crate::map::Base;
use crate::progress::Progress;
use crate::runtimes::api::{FREE, IsolateSizes, ManagedRuntime, Segment, Selection, stat};
use crate::runtimes::coreclr::HeapBlock;
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Reports the managed heap. With `loader`, also the loader heaps.
pub fn heap(session: &Session<'_>, loader: bool) -> HeapReport {
    let mut gc = None;
    let mut all: Vec<&Segment> = Vec::new();
    let mut free = 0_u64;
    let mut read = Vec::new();
    for (id, runtime, heaps) in clr_gcs(session).map(|(id, runtime, gc)| (id, runtime, gc.heaps())) {
        if !heaps.segments.is_empty() {
            read.push(id);
        }
        all.extend(heaps.segments);
        free = free.saturating_add(heaps.free);
        let version = runtime.row().version.unwrap_or_default();
        gc = gc.or_else(|| gc_row(&version, heaps.server, heaps.regions, heaps.in_gc, heaps.segments));
    }
    let mut stats = None;
    for (id, runtime) in session.runtimes_by_id() {
        let figures = runtime.collector_figures();
        if !figures.is_empty() {
            read.push(id);
            stats = stats.or_else(|| Some(figures.into_iter().collect()));
        }
    }
    let mut segments: Vec<SegmentRow> = all
        .into_iter()
        .map(|s| SegmentRow {
            heap: s.heap,
            generation: s.generation,
            address: s.address,
            start: s.start,
            end: s.end,
            committed_end: s.committed.end,
            reserved_end: s.reserved_end,
            allocated: s.end.since(s.start),
            committed: s.committed.len(),
        })
        .collect();
    let mut isolates = Vec::new();
    for (id, runtime) in session.runtimes_by_id() {
        let rows = isolate_rows(runtime);
        if !rows.is_empty() {
            read.push(id);
        }
        isolates.extend(rows);
    }
    segments.sort_by_key(|s| (s.heap, s.generation.name(), s.start));
    let sum = |f: fn(&SegmentRow) -> u64| segments.iter().map(f).fold(0, u64::saturating_add);
    HeapReport {
        committed: gc.as_ref().map(|_| sum(|s| s.committed)),
        free_committed: gc.as_ref().map(|_| free),
        allocated: gc.as_ref().map(|_| sum(|s| s.allocated)),
        gc,
        stats,
        loader: loader.then(|| loader_rows(session)),
        unread: unread(session, &read),
        isolates,
        segments,
    }
}

/// Lists the isolated heaps of a runtime, with the bytes of their objects by space.
fn isolate_rows(runtime: &dyn ManagedRuntime) -> Vec<IsolateRow> {
    let isolates = runtime.isolates();
    let Some(heap) = runtime.heap().filter(|_| !isolates.is_empty()) else { return Vec::new() };
    let row = |isolate: IsolateSizes| {
        let selection = Selection { heap: Some(isolate.heap), ..Selection::default() };
        let stat = stat(heap, &selection, &Progress::silent());
        let used = |name: &str| {
            let number = heap.generations().iter().position(|generation| generation.name == name);
            let objects = stat.types.iter().filter(|row| row.kind != FREE);
            objects.filter_map(|row| row.by_generation.get(number?)).map(|tally| tally.size).saturating_sum()
        };
        let spaces = isolate.spaces.iter().map(|s| SpaceRow { name: s.name, size: s.size, used: used(s.name) });
        IsolateRow {
            spaces: spaces.collect(),
            name: isolate.name,
            address: isolate.address,
            tid: isolate.tid,
            array_buffers: ArrayBuffersRow { count: isolate.buffers, bytes: isolate.buffer_bytes },
            code_reserve: isolate.code_reserve,
        }
    };
    isolates.into_iter().map(row).collect()
}

/// Describes a GC. `None` if it has no segments.
fn gc_row(version: &str, server: bool, regions: bool, in_progress: bool, segments: &[Segment]) -> Option<GcRow> {
    let heaps = segments.iter().map(|s| u64::from(s.heap) + 1).max()?;
    Some(GcRow { version: version.to_owned(), server, heaps, regions, in_progress })
}

/// Lists the loader heaps, by allocator.
pub(in crate::commands::dotnet) fn loader_rows(session: &Session<'_>) -> Vec<LoaderHeapRow> {
    let base = session.process.base();
    let mut out: Vec<LoaderHeapRow> = Vec::new();
    for allocator in coreclr(session).flat_map(|runtime| &runtime.heaps().loader) {
        for block in &allocator.blocks {
            let committed = committed(base, block.range);
            let row = LoaderBlockRow { start: block.range.start, size: block.range.len(), committed };
            let wasted = wasted(block, committed);
            match out.last_mut() {
                Some(last) if last.allocator_address == allocator.address && last.kind == block.kind => {
                    last.size.add_saturating(committed);
                    last.wasted.add_saturating(wasted);
                    last.blocks.push(row);
                }
                _ => out.push(LoaderHeapRow {
                    allocator: allocator.name.clone(),
                    allocator_address: allocator.address,
                    kind: block.kind,
                    size: committed,
                    wasted,
                    blocks: vec![row],
                }),
            }
        }
    }
    out
}

/// Bytes of a block that are mapped with any access permission.
fn committed(base: &Base, block: AddrRange) -> u64 {
    base.entries
        .overlapping(block)
        .filter(|e| e.perms.is_some_and(|p| p.read || p.write || p.exec))
        .filter_map(|e| e.range.intersect(&block))
        .map(|r| r.len())
        .saturating_sum()
}

/// Bytes that a heap reserved in a block and will never use, because it
/// allocates only from its current block.
fn wasted(block: &HeapBlock, committed: u64) -> u64 {
    if block.current { 0 } else { block.range.len().saturating_sub(committed) }
}
