//! Claims of libjvm's own mappings that no table names: polling pages, caches of cards, Parallel's bitmaps.
//!
//! A word of libjvm's data, or of an object in the VM's heap, points to their start. It is a guess that they belong to
//! the VM, so other claims win.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::image::ModuleKind;
use crate::limits;
use crate::map::Kind;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::claim::{ClaimBasis, ClaimSink, words};

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut ClaimSink<'_>) {
    let vm = hotspot.vm();
    let ModuleKind::Elf(image) = (match vm.process.modules.get(vm.module) {
        Some(module) => &module.kind,
        None => return,
    }) else {
        return;
    };
    let base = out.base;
    // File mappings and executable mappings have better labels. The kernel joins a mapping with the .bss of the library
    // before it.
    let mut taken = out.taken();
    taken.extend(vm.process.modules.iter().flat_map(|m| match &m.kind {
        ModuleKind::Elf(image) => {
            image.segments.iter().map(|s| AddrRange::new(s.range.start, s.range.end.align_up(PAGE))).collect()
        }
        _ => vec![m.range],
    }));
    let taken = union(taken);
    let anonymous = base.entries.iter().filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.read && !p.exec));
    let mut open: BTreeMap<Addr, AddrRange> =
        anonymous.flat_map(|e| e.range.without(&taken)).map(|range| (range.start, range)).collect();
    let mut claim = |(at, word): (Addr, u64), kind, detail: &str, whose: &str| {
        if let Some(range) = open.remove(&Addr::new(word)) {
            let evidence = format!("{whose} at {at} points to its start");
            out.add(range, kind, detail, ClaimBasis::guess(&evidence));
        }
    };
    for segment in image.segments.iter().filter(|s| s.perms.write) {
        let len = segment.range.len().min(limits::MAX_VM_DATA);
        for word in words(vm, segment.range.start, len) {
            claim(word, Kind::VmData, "data of libjvm", "libjvm's data");
        }
    }
    let Ok(heap) = vm.static_ptr("Universe", "_collectedHeap") else { return };
    for (_, object) in words(vm, heap, limits::MAX_VM_OBJECT) {
        for word in words(vm, Addr::new(object), limits::MAX_VM_OBJECT) {
            claim(word, Kind::GCBookkeeping, "data of the collector", "an object of the VM's heap");
        }
    }
}
