//! Claims of memory: spans by their use, free pages of arenas, and the runtime's own structures.

use std::collections::BTreeSet;

use crate::addr::{Addr, AddrRange, union};
use crate::map::{Claims, Confidence, Kind};
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::go::goroutines::List;
use crate::runtimes::go::heap::{Liveness, Span, SpanUse, arena_of};
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;

/// Smallest address that a pointer can have.
const LOWEST: Addr = Addr::new(4096);

/// Evidence for the runtime's own structures.
const DESCRIBED: &str = "the mapping contains descriptions of arenas or spans";
const ALONE: &str = "the program has no C library, and a variable of it leads to this mapping";

pub(super) fn claim(runtime: &Runtime<'_>, list: &List, claims: &mut Claims) {
    let proof = &runtime.proof;
    let mut out = Sink::new(runtime.process, runtime.module, proof.own);
    let spans = &proof.spans.all;
    let of = |usage: SpanUse| union(spans.iter().filter(|s| s.usage == usage).map(|s| s.range).collect());
    let (objects, stacks, buffers) = (of(SpanUse::Objects), of(SpanUse::Stacks), of(SpanUse::WorkBuffers));
    // A stack that a thread runs on now is claimed for that thread.
    let on_thread = union(list.stacks_of_threads(runtime));
    let parked: Vec<AddrRange> = stacks.iter().flat_map(|range| range.without(&on_thread)).collect();
    let uses = [
        (&objects, Kind::GCHeap, "Go: objects"),
        (&parked, Kind::GoStack, "stacks of goroutines"),
        (&buffers, Kind::GCBookkeeping, "Go: work buffers of the collector"),
    ];
    for (ranges, kind, detail) in uses {
        ranges.iter().for_each(|range| out.exact(*range, kind, detail, "mspans of mheap_.allspans"));
    }
    for range in stacks.iter().flat_map(|range| on_thread.iter().filter_map(|on| on.intersect(range))) {
        out.add(range, Kind::GoStack, Confidence::Heuristic, "stacks of goroutines", "mspans of mheap_.allspans");
    }
    let arenas: BTreeSet<AddrRange> = spans.iter().map(|span| arena_of(span.range.start)).collect();
    let used = union([objects, stacks, buffers].concat());
    for free in arenas.iter().flat_map(|arena| arena.without(&used)) {
        for (range, writable) in out.by_access(free) {
            let (kind, detail) = match writable {
                true => (Kind::GCHeapToBeFreed, "Go: free pages"),
                false => (Kind::GCHeapReserve, "Go: reserved for the heap"),
            };
            out.exact(range, kind, detail, "pages of an arena that are in no mspan");
        }
    }
    for (range, evidence) in own_structures(runtime, &arenas, spans) {
        out.add(range, Kind::GCBookkeeping, Confidence::Derived, "Go: the runtime's own structures", evidence);
    }
    out.into_claims().iter().for_each(|claim| claims.add(claim.clone()));
}

/// Finds the mappings outside of the arenas that contain the runtime's structures: descriptions of arenas and spans,
/// their bits, summaries of pages, and allocations that the runtime never frees.
fn own_structures(
    runtime: &Runtime<'_>,
    arenas: &BTreeSet<AddrRange>,
    spans: &[Span],
) -> BTreeSet<(AddrRange, &'static str)> {
    let liveness = Liveness::new(runtime);
    let of_arenas = arenas.iter().filter_map(|arena| liveness.arena(arena.start));
    let of_spans = spans.iter().flat_map(|span| [span.at, span.alloc_bits, span.mark_bits, span.specials]);
    let of_heap = heap_pointers(runtime);
    let structures: BTreeSet<Addr> = of_arenas.chain(of_spans).chain(of_heap).filter(|at| *at > LOWEST).collect();
    let main_stack = runtime.process.initial_sp();
    let mapping = |at: Addr| {
        let found = runtime.process.mapping_at(at)?;
        let outside = !runtime.range.contains(at) && !arenas.contains(&arena_of(at));
        let is_stack = main_stack.is_some_and(|sp| found.range.contains(sp));
        (found.perms.write && outside && !is_stack).then_some(found.range)
    };
    let mut out = BTreeSet::new();
    let mut last = AddrRange::default();
    for at in structures {
        if !last.contains(at) {
            last = mapping(at).unwrap_or_default();
            out.extend((!last.is_empty()).then_some((last, DESCRIBED)));
        }
    }
    // In a program without a C library, nothing else maps memory.
    if !runtime.has_libc() {
        let known: BTreeSet<AddrRange> = out.iter().map(|(range, _)| *range).collect();
        let more = runtime.proof.globals.pointers.iter().filter_map(|at| mapping(*at));
        out.extend(more.filter(|range| !known.contains(range)).map(|range| (range, ALONE)));
    }
    out
}

/// Returns pointers in `mheap_`: to the table of arenas, and to the summaries and bitmaps of pages.
fn heap_pointers(runtime: &Runtime<'_>) -> Vec<Addr> {
    let (heap, shape) = (runtime.proof.globals.heap, &runtime.shape().heap);
    let Some(words) = Record::look(runtime.memory(), heap, shape.central) else { return Vec::new() };
    let pointers = words.bytes().as_chunks::<8>().0.iter().map(|word| Addr::new(u64::from_le_bytes(*word)));
    let mut pointers: Vec<Addr> = pointers.filter(|at| at.is_aligned(8)).collect();
    pointers.sort_unstable();
    pointers.dedup();
    pointers
}
