//! Claims of the code cache: its heaps, their segment maps, the interpreter and the stubs.

use crate::addr::AddrRange;
use crate::limits;
use crate::map::Kind;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::claim::{ClaimBasis, ClaimSink};
use crate::runtimes::hotspot::code::CodeHeap;

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut ClaimSink<'_>) {
    let basis = ClaimBasis::exact("CodeCache::_heaps, CodeHeap::_memory");
    for heap in hotspot.all_code().heaps() {
        let name = if heap.name.is_empty() { "an unnamed code heap" } else { &heap.name };
        out.add(heap.committed, Kind::CodeCache, name, basis);
        let reserved = format!("reserved for the code cache: {name}");
        for rest in [
            AddrRange::new(heap.reserved.start, heap.committed.start),
            AddrRange::new(heap.committed.end, heap.reserved.end),
        ] {
            out.add(rest, Kind::NoAccess, &reserved, basis);
        }
        if let Some((reserved, committed)) = heap.segment_map {
            let basis = ClaimBasis::exact("CodeHeap::_segmap");
            out.add(committed, Kind::CodeCache, &format!("segment map of {name}"), basis);
            let rest = AddrRange::new(committed.end, reserved.end);
            out.add(rest, Kind::NoAccess, &format!("reserved for the segment map of {name}"), basis);
        }
        stubs(hotspot, heap, out);
    }
    if let Some(interpreter) = hotspot.all_code().interpreter() {
        out.add(interpreter.range, Kind::CodeCache, "interpreter", ClaimBasis::exact("AbstractInterpreter::_code"));
    }
}

/// Claims the VM's own code in a heap, which StubRoutines generated.
fn stubs(hotspot: &HotSpot<'_>, heap: &CodeHeap, out: &mut ClaimSink<'_>) {
    // Skip heaps of methods: the largest has a block for each of 100,000 methods.
    if heap.name.ends_with("nmethods") && !heap.name.starts_with("non-nmethods") {
        return;
    }
    let basis = ClaimBasis::exact("CodeBlob::_name in the blocks of the code heap");
    let blobs = hotspot.all_code().blobs(heap).iter();
    for blob in blobs.filter(|blob| blob.name.starts_with("StubRoutines")).take(limits::MAX_STUB_BLOBS) {
        out.add(blob.range, Kind::CodeCache, "stub routines", basis);
    }
}
