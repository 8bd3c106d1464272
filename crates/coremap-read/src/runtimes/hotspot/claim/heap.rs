//! Claims of the Java heap: regions, spaces and pages by generation, free and reserved memory, and ZGC's other views.

use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::memory::Memory;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::claim::{ClaimBasis, ClaimSink, is_committed};
use crate::runtimes::hotspot::classes::z_prefix;
use crate::runtimes::hotspot::heap::{Collector, Generation, Spaces};
use crate::runtimes::hotspot::vm::{Vm, VmError};

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut ClaimSink<'_>) {
    let Some(spaces) = hotspot.spaces() else { return };
    let gc = spaces.collector.name();
    let basis = ClaimBasis::exact(spaces.source);
    let reserve = (Kind::GCHeapReserve, "reserved for the Java heap");
    for (generation, range) in runs(spaces) {
        let kind = if generation == Generation::Free { Kind::GCHeapToBeFreed } else { Kind::GCHeap };
        out.add_by_access(range, (kind, &format!("{gc} {}", generation.name())), reserve, basis);
    }
    let between = (Kind::GCHeapToBeFreed, "committed for the Java heap, in none of its spaces");
    out.add_by_access(spaces.reserved, between, reserve, ClaimBasis::exact("CollectedHeap::_reserved"));
    if spaces.collector == Collector::Z {
        views(hotspot, spaces, out);
    }
}

/// Joins adjacent spaces of one generation. The result is by address.
fn runs(spaces: &Spaces) -> Vec<(Generation, AddrRange)> {
    let mut out: Vec<(Generation, AddrRange)> = Vec::new();
    for space in &spaces.all {
        let range = AddrRange::new(space.used.start, space.end);
        match out.last_mut() {
            Some((generation, last)) if *generation == space.generation && last.end == range.start => {
                last.end = range.end;
            }
            _ => out.push((space.generation, range)),
        }
    }
    out
}

/// Claims ZGC's memory outside its heap pages: cached memory, reservations, and multi-mapped views. Non-generational
/// ZGC maps its memory at three addresses and uses one of them at a time.
fn views(hotspot: &HotSpot<'_>, spaces: &Spaces, out: &mut ClaimSink<'_>) {
    let encoding = &hotspot.classes().encoding;
    let Some(len) = encoding.heap_offsets() else { return };
    let good = encoding.at_heap_offset(0);
    let bases = view_addresses(hotspot.vm(), good).unwrap_or_default();
    let base = out.base;
    for view in [good].into_iter().chain(bases.iter().copied()) {
        for entry in base.entries.overlapping(AddrRange::sized(view, len)) {
            let basis = ClaimBasis::derived("in the address space of ZGC's heap, by its address masks");
            let memory_of_it = base.path(entry).is_none_or(|path| path.contains("java_heap"));
            match (is_committed(entry), view == good) {
                _ if !memory_of_it => {}
                (false, _) => out.add(entry.range, Kind::GCHeapReserve, "reserved for the Java heap", basis),
                (true, true) => {
                    for rest in without(entry.range, spaces) {
                        out.add(rest, Kind::GCHeapToBeFreed, "ZGC: in no heap page", basis);
                    }
                }
                (true, false) => {
                    let detail = format!("ZGC: second view of the memory at {good}");
                    out.add(entry.range, Kind::DoubleMapped, &detail, basis);
                }
            }
        }
    }
    tracing::debug!(pages = spaces.all.len(), views = bases.len() + 1, "ZGC");
}

/// Returns the parts of `range` that are in no page. Pages are ordered by address.
fn without(range: AddrRange, spaces: &Spaces) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let mut at = range.start;
    for space in spaces.all.iter().filter(|s| s.end > range.start && s.used.start < range.end) {
        if space.used.start > at {
            out.push(AddrRange::new(at, space.used.start));
        }
        at = at.max(space.end);
    }
    if at < range.end {
        out.push(AddrRange::new(at, range.end));
    }
    out
}

/// Returns the addresses of the other views. Each bit of the metadata mask is one, except the bit of finalizable
/// objects (zGlobals.hpp up to JDK 20, xGlobals.hpp in 21 to 23).
fn view_addresses(vm: &Vm<'_>, good: Addr) -> Result<Vec<Addr>, VmError> {
    let prefix = z_prefix(vm);
    let kind = format!("{prefix}GlobalsForVMStructs");
    let at = vm.static_addr(&kind, "_instance_p")?;
    let instance = vm.memory.ptr(at).map_err(VmError::fault(&kind, "_instance_p"))?;
    let globals = vm.at(&kind, instance);
    let mask = |name: &str| {
        let field = format!("_{prefix}AddressMetadata{name}");
        vm.memory.u64(globals.ptr(&field)?).map_err(VmError::fault(&kind, "metadata mask"))
    };
    let views = mask("Mask")? & !mask("Finalizable")?;
    let bits = (0..u64::BITS).map(|bit| 1 << bit).filter(|bit| views & bit != 0);
    Ok(bits.map(Addr::new).filter(|view| *view != good).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::hotspot::heap::Space;

    #[test]
    fn neighbours_of_one_generation_are_one_range() {
        let space = |generation, start: u64, end: u64| Space {
            generation,
            used: AddrRange::new(Addr::new(start), Addr::new(start)),
            end: Addr::new(end),
            one_object: false,
            continues: false,
        };
        let all = vec![
            space(Generation::Old, 0x1000, 0x2000),
            space(Generation::Old, 0x2000, 0x3000),
            space(Generation::Eden, 0x3000, 0x4000),
            space(Generation::Eden, 0x5000, 0x6000),
        ];
        let spaces =
            Spaces { collector: Collector::G1, all, reserved: AddrRange::default(), source: "", notes: Vec::new() };
        let found: Vec<(Generation, u64, u64)> =
            runs(&spaces).iter().map(|(g, r)| (*g, r.start.get(), r.end.get())).collect();
        assert_eq!(
            found,
            [(Generation::Old, 0x1000, 0x3000), (Generation::Eden, 0x3000, 0x4000), (Generation::Eden, 0x5000, 0x6000)]
        );
    }
}
