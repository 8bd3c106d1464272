//! Claims of the collector's bookkeeping: card tables, mark bitmaps, block offset tables, and G1's mark stack.
//!
//! The VM's tables have only the card table and Serial's block offset table. G1 commits its bookkeeping with the heap,
//! by one mapper for each structure (g1RegionToSpaceMapper.hpp). No table has a mapper's fields. But one mapper is the
//! heap's, so its known bounds show the offset of the bounds in every mapper.

use std::collections::BTreeSet;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory as _;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::claim::{ClaimBasis, ClaimSink, is_taken, words};
use crate::runtimes::hotspot::heap::Collector;
use crate::runtimes::hotspot::vm::{Vm, VmError};
use crate::units::exact;

const RESERVE: (Kind, &str) = (Kind::GCHeapReserve, "reserved for GC bookkeeping");

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut ClaimSink<'_>) {
    let (vm, Some(spaces)) = (hotspot.vm(), hotspot.spaces()) else { return };
    // ZGC and Shenandoah have no cards, so their absence is no error.
    let cards = card_table(vm, out).unwrap_or_default();
    let claimed = match spaces.collector {
        Collector::G1 => g1(vm, out, spaces.reserved, cards),
        Collector::Serial => serial(vm, out),
        _ => Ok(()),
    };
    if let Err(e) = claimed {
        hotspot.warn_partial("GC bookkeeping", &e.to_string());
    }
}

/// Claims `CardTable::_byte_map`: one byte per 512 bytes of heap.
fn card_table(vm: &Vm<'_>, out: &mut ClaimSink<'_>) -> Result<AddrRange, VmError> {
    let barrier = vm.static_ptr("BarrierSet", "_barrier_set")?;
    let table = vm.at("CardTable", vm.at("CardTableBarrierSet", barrier).ptr("_card_table")?);
    let (start, len) = (table.ptr("_byte_map")?, table.number("_byte_map_size")?);
    let range = AddrRange::new(start.align_down(PAGE), start.saturating_add(len).align_up(PAGE));
    let basis = ClaimBasis::exact("CardTable::_byte_map, _byte_map_size");
    out.add_by_access(range, (Kind::GCBookkeeping, "card table"), RESERVE, basis);
    Ok(range)
}

/// Claims Serial's block offset table. `_bts` of the old generation leads to it, and it contains a VirtualSpace.
fn serial(vm: &Vm<'_>, out: &mut ClaimSink<'_>) -> Result<(), VmError> {
    let kind = if vm.tables.has("SerialHeap", "_old_gen") { "SerialHeap" } else { "GenCollectedHeap" };
    let old = vm.at(kind, vm.static_ptr("Universe", "_collectedHeap")?).ptr("_old_gen")?;
    let table = vm.at("TenuredGeneration", old).ptr("_bts")?;
    let base = out.base;
    let is_one =
        |(all, _): &(AddrRange, AddrRange)| base.at(all.start).is_some() && all.len() <= limits::MAX_RUNTIME_RANGE;
    let space = |at: Addr| vm.process.reads().attempt(|| vm.virtual_space(at).ok().filter(is_one));
    let found = words(vm, table, limits::MAX_VM_OBJECT).into_iter().find_map(|(at, _)| space(at));
    let (reserved, committed) =
        found.ok_or(VmError::Invalid { what: "no range in the block offset table", at: table })?;
    let basis = ClaimBasis::derived("a VirtualSpace in TenuredGeneration::_bts");
    out.add(committed, Kind::GCBookkeeping, "block offset table", basis);
    let rest = AddrRange::new(committed.end, reserved.end);
    out.add_by_access(rest, (Kind::GCBookkeeping, "block offset table"), RESERVE, basis);
    Ok(())
}

/// Claims G1's bookkeeping, by the mappers that its region manager points to, and its mark stack.
fn g1(vm: &Vm<'_>, out: &mut ClaimSink<'_>, heap: AddrRange, cards: AddrRange) -> Result<(), VmError> {
    let kind = vm.first_type(&["G1HeapRegionManager", "HeapRegionManager"]);
    let kind = kind.ok_or_else(|| VmError::MissingType("G1HeapRegionManager".to_owned()))?;
    let collected = vm.static_ptr("Universe", "_collectedHeap")?;
    let manager = vm.at("G1CollectedHeap", collected).addr_of("_hrm")?;
    let size = vm.size_of(kind)?.min(limits::MAX_VM_OBJECT);
    let leads: BTreeSet<Addr> = words(vm, manager, size).into_iter().map(|(_, word)| Addr::new(word)).collect();
    for (range, evidence) in mapped(vm, &leads, heap) {
        let detail = match heap.len().checked_div(range.len()).unwrap_or(0) {
            _ if range.intersect(&cards).is_some() => continue,
            48..=64 => "mark bitmap, by its size".to_owned(),
            400..=512 => "block offset table or card counts, by its size".to_owned(),
            _ => "G1 bookkeeping".to_owned(),
        };
        out.add_by_access(range, (Kind::GCBookkeeping, &detail), RESERVE, ClaimBasis::derived(&evidence));
    }
    mark_stack(vm, out, collected);
    Ok(())
}

/// Returns the ranges of the mappers among the objects at `leads`. A range is two consecutive words, at the offset
/// where the heap's mapper has the heap's bounds.
fn mapped(vm: &Vm<'_>, leads: &BTreeSet<Addr>, heap: AddrRange) -> Vec<(AddrRange, String)> {
    let objects: Vec<(Addr, Vec<u64>)> = leads
        .iter()
        .filter(|at| !at.is_null())
        .map(|&at| (at, words(vm, at, limits::MAX_VM_OBJECT).into_iter().map(|(_, word)| word).collect()))
        .collect();
    let bounds = [heap.start.get(), heap.end.get()];
    let index = objects.iter().find_map(|(_, words)| words.windows(2).position(|pair| pair == bounds));
    let Some(index) = index else { return Vec::new() };
    let range = |(at, words): &(Addr, Vec<u64>)| {
        let (start, end) = (Addr::new(*words.get(index)?), Addr::new(*words.get(index + 1)?));
        let fits = start < end && start.is_aligned(PAGE) && end.is_aligned(PAGE) && !heap.contains(start);
        if fits || [start, end] == [heap.start, heap.end] {
            // The end of a range need not be mapped.
            vm.memory.keep(at.saturating_add(8 * index as u64), 16);
        }
        let evidence = || format!("G1RegionToSpaceMapper at {at}, with the same shape as the heap's mapper");
        fits.then(|| (AddrRange::new(start, end), evidence()))
    };
    // Another object may have two such words. Bookkeeping is much smaller than the heap itself.
    objects.iter().filter_map(range).filter(|(range, _)| range.len() <= heap.len() / 8).collect()
}

/// Claims the stack of concurrent marking. It is a mapping of the size in the flag, and an object of the heap points to
/// it.
fn mark_stack(vm: &Vm<'_>, out: &mut ClaimSink<'_>, collected: Addr) {
    let Some(size) = vm.flag("MarkStackSize").and_then(|entries| entries.checked_mul(8)).filter(|&s| s > 0) else {
        return;
    };
    let heap = words(vm, collected, vm.size_of("G1CollectedHeap").unwrap_or(0).min(limits::MAX_VM_OBJECT));
    let taken = out.taken();
    for (_, object) in heap {
        for (at, word) in words(vm, Addr::new(object), limits::MAX_VM_OBJECT) {
            let start = Addr::new(word);
            let entry = out.base.at(start).filter(|e| e.file.is_none() && e.range.start == start);
            if entry.is_some_and(|e| e.range.len() == size) && !is_taken(&taken, AddrRange::sized(start, size)) {
                let evidence = format!("the word at {at} points to it, and MarkStackSize is {}", exact(size / 8));
                let range = AddrRange::sized(start, size);
                out.add(range, Kind::GCBookkeeping, "G1's marking stack", ClaimBasis::derived(&evidence));
                return;
            }
        }
    }
}
