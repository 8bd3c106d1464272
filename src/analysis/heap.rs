use crate::addr::AddrRange;
use crate::dotnet::HeapBlock;
use crate::introspect::Findings;
use crate::map::Base;
use crate::report::{GcRow, HeapReport, LoaderBlockRow, LoaderHeapRow, SegmentRow};

/// Tell of the managed heap; with `loader`, of the loader heaps too.
pub fn heap(found: &Findings, loader: bool) -> HeapReport {
    let mut segments: Vec<SegmentRow> = found
        .runtimes
        .iter()
        .flat_map(|(_, heaps)| &heaps.segments)
        .map(|s| SegmentRow {
            heap: s.heap,
            generation: s.generation.name(),
            address: s.address,
            start: s.start,
            end: s.end,
            committed_end: s.committed.end,
            reserved_end: s.reserved_end,
            allocated: s.end.since(s.start),
            committed: s.committed.len(),
        })
        .collect();
    segments.sort_by_key(|s| (s.heap, s.generation, s.start));
    let gc = found.runtimes.iter().find(|(_, h)| !h.segments.is_empty()).map(|(runtime, heaps)| GcRow {
        version: runtime.version.clone(),
        server: heaps.server,
        heaps: heaps.segments.iter().map(|s| u64::from(s.heap) + 1).max().unwrap_or(0),
        regions: heaps.regions,
        in_progress: heaps.in_gc,
    });
    let sum = |f: fn(&SegmentRow) -> u64| segments.iter().map(f).fold(0, u64::saturating_add);
    HeapReport {
        committed: gc.as_ref().map(|_| sum(|s| s.committed)),
        allocated: gc.as_ref().map(|_| sum(|s| s.allocated)),
        gc,
        loader: loader.then(|| loader_rows(found)),
        segments,
    }
}

fn loader_rows(found: &Findings) -> Vec<LoaderHeapRow> {
    let base = &found.map.base;
    let mut out: Vec<LoaderHeapRow> = Vec::new();
    for allocator in found.runtimes.iter().flat_map(|(_, heaps)| &heaps.loader) {
        for block in &allocator.blocks {
            let committed = committed(base, block.range);
            let row = LoaderBlockRow { start: block.range.start, size: block.range.len(), committed };
            let wasted = wasted(block, committed);
            match out.last_mut() {
                Some(last) if last.allocator_address == allocator.address && last.kind == block.kind.name() => {
                    last.size += committed;
                    last.wasted += wasted;
                    last.blocks.push(row);
                }
                _ => out.push(LoaderHeapRow {
                    allocator: allocator.name.clone(),
                    allocator_address: allocator.address,
                    kind: block.kind.name(),
                    size: committed,
                    wasted,
                    blocks: vec![row],
                }),
            }
        }
    }
    out
}

/// Bytes of a block that are mapped with some access.
fn committed(base: &Base, block: AddrRange) -> u64 {
    base.entries
        .overlapping(block)
        .filter(|e| e.perms.is_some_and(|p| p.read || p.write || p.exec))
        .filter_map(|e| e.range.intersect(&block))
        .map(|r| r.len())
        .sum()
}

/// What a heap reserved in a block and will never use: it allocates from its
/// current block only.
fn wasted(block: &HeapBlock, committed: u64) -> u64 {
    if block.current { 0 } else { block.range.len().saturating_sub(committed) }
}
