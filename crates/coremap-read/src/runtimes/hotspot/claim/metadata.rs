//! Claims of class metadata: the CDS archive, the class space and metaspace.
//!
//! The VM's tables have the archive's address. The size of the class space is a flag, and its start follows from the
//! addresses of classes. Metaspace has no root: it is found by the constant pools, methods and fields of classes
//! (src/hotspot/share/memory: metaspace.hpp, metaspace/virtualSpaceNode.hpp, metaspaceShared.hpp).

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::map::{Base, BaseEntry, Kind};
use crate::memory::Memory;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::claim::{ClaimBasis, ClaimSink, is_committed, is_taken};
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::vm::Vm;

/// Address space of a metaspace node (VirtualSpaceNode) since JDK 16, and the minimum alignment of its start, a root
/// chunk (metaspaceSettings.hpp, chunklevel.hpp). In bytes.
const NODE: u64 = 64 << 20;
const ROOT_CHUNK: u64 = 4 << 20;

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut ClaimSink<'_>) {
    let (vm, classes) = (hotspot.vm(), hotspot.classes());
    let heap = hotspot.spaces().map(|spaces| spaces.reserved).unwrap_or_default();
    let archive = archive(vm, out, heap);
    let klasses: Vec<Addr> =
        classes.loaders().iter().flat_map(|l| l.classes.iter().copied()).filter(|k| !archive.contains(*k)).collect();
    let space = class_space(vm, out, archive, &klasses);
    if klasses.is_empty() {
        return;
    }
    let mut metadata = MetadataMappings { base: out.base, mappings: BTreeMap::new(), excluded: [archive, space] };
    klasses.iter().for_each(|&klass| metadata.of_class(classes, klass));
    nodes(metadata, out);
}

/// Claims the CDS archive: classes of the JDK, laid out in advance. Returns its range, empty if there is none.
fn archive(vm: &Vm<'_>, out: &mut ClaimSink<'_>, heap: AddrRange) -> AddrRange {
    let bound = |field| vm.static_ptr("MetaspaceObj", field).ok();
    if let (Some(base), Some(top)) = (bound("_shared_metaspace_base"), bound("_shared_metaspace_top")) {
        let range = AddrRange::new(base, top.max(base));
        out.add(range, Kind::CdsArchive, "classes", ClaimBasis::exact("MetaspaceObj::_shared_metaspace_base, _top"));
        return range;
    }
    // JDK 11 has no bounds in its tables. The part of the file that is mapped into the Java heap contains objects.
    let base = out.base;
    let mut all = AddrRange::default();
    for entry in base.entries.iter() {
        let is_archive = base.path(entry).is_some_and(|path| path.ends_with(".jsa"));
        if is_archive && !heap.contains(entry.range.start) {
            out.add(
                entry.range,
                Kind::CdsArchive,
                "classes",
                ClaimBasis::derived(
                    "NT_FILE: mappings of a CDS archive \
                (.jsa)",
                ),
            );
            all = if all.is_empty() { entry.range } else { AddrRange::new(all.start, entry.range.end) };
        }
    }
    all
}

/// Claims the class space, if class pointers are compressed: class structures within 32 bits of one base.
fn class_space(vm: &Vm<'_>, out: &mut ClaimSink<'_>, archive: AddrRange, klasses: &[Addr]) -> AddrRange {
    let compressed = vm.is_set("UseCompressedClassPointers") || vm.is_set("UseCompactObjectHeaders");
    let Some(size) = vm.flag("CompressedClassSpaceSize").filter(|&size| compressed && size != 0) else {
        return AddrRange::default();
    };
    let base = out.base;
    let is_open = |e: &BaseEntry| e.file.is_none() && e.perms.is_some_and(|p| p.write && !p.exec);
    let after = |at: Addr| {
        let above = base.entries.overlapping(AddrRange::new(at, at.saturating_add(size)));
        above.filter(|e| e.range.start >= at && is_open(e)).map(|e| e.range.start).next()
    };
    let lowest = klasses.iter().min().and_then(|&k| base.at(k)).filter(|e| is_open(e)).map(|e| e.range.start);
    let candidates = [after(archive.end).filter(|_| !archive.is_empty()), lowest];
    let holds = |start: Addr| {
        let range = AddrRange::sized(start, size);
        klasses.iter().filter(|k| range.contains(**k)).count()
    };
    // The first of equal candidates wins: the class space begins where the archive ends, whichever of its pages have a
    // class.
    let best = candidates.into_iter().flatten().rev().max_by_key(|&start| holds(start));
    let Some(start) = best.filter(|&start| holds(start) > 0) else { return AddrRange::default() };
    let range = AddrRange::sized(start, size);
    let evidence = format!(
        "CompressedClassSpaceSize from the first writable mapping {}; {} classes are in it",
        if Some(start) == candidates[0] { "after the CDS archive" } else { "with a class" },
        holds(start)
    );
    let (kind, reserve) = (
        (Kind::ClassSpace, "classes"),
        (Kind::NoAccess, "reserved for the class space, or between it and the archive"),
    );
    out.add_by_access(range, kind, reserve, ClaimBasis::derived(&evidence));
    let gap = AddrRange::new(archive.end, start);
    if !archive.is_empty() && start > archive.end && gap.len() < size {
        let between = base.split(gap, is_committed).into_iter().filter(|(_, committed)| !committed);
        for (piece, _) in between.collect::<Vec<_>>() {
            out.add(piece, Kind::NoAccess, "reserved for the CDS archive", ClaimBasis::derived(&evidence));
        }
    }
    range
}

/// Mappings in which metadata was found.
struct MetadataMappings<'a> {
    base: &'a Base,
    /// By their starts.
    mappings: BTreeMap<Addr, AddrRange>,
    /// Ranges that contain metadata but are not metaspace.
    excluded: [AddrRange; 2],
}

impl MetadataMappings<'_> {
    /// Adds the mapping of an address with metadata.
    fn at(&mut self, at: Addr) {
        if at.is_null() || self.excluded.iter().any(|r| r.contains(at)) {
            return;
        }
        let open = |e: &&BaseEntry| e.file.is_none() && e.perms.is_some_and(|p| p.write && !p.exec);
        if let Some(entry) = self.base.at(at).filter(open) {
            self.mappings.insert(entry.range.start, entry.range);
        }
    }

    /// Adds the mappings of the metadata that the class at `klass` points to. Arrays of methods and fields, constant
    /// pools and methods are all in metaspace. One method per class is enough, since a class's methods are close
    /// together.
    fn of_class(&mut self, classes: &Classes<'_>, klass: Addr) {
        let vm = &classes.vm;
        self.at(klass);
        if vm.at("Klass", klass).signed("_layout_helper").is_ok_and(|helper| helper < 0) {
            return;
        }
        let class = vm.at("InstanceKlass", klass);
        let mut follow = |field: &str| {
            let at = class.ptr(field).ok().filter(|at| !at.is_null())?;
            self.at(at);
            Some(at)
        };
        let pool = follow("_constants");
        follow("_fields");
        follow("_fieldinfo_stream");
        let methods = follow("_methods");
        if let Some(cache) = pool.and_then(|pool| vm.at("ConstantPool", pool).ptr("_cache").ok()) {
            self.at(cache);
        }
        let data = vm.tables.offset("Array<Method*>", "_data").unwrap_or(8);
        let first = methods.filter(|&at| vm.memory.u32(at).is_ok_and(|len| len > 0));
        if let Some(method) = first.and_then(|at| vm.memory.ptr(at.wrapping_add(data)).ok()) {
            self.at(method);
            for field in ["_constMethod", "_method_data", "_method_counters"] {
                if let Ok(at) = vm.at("Method", method).ptr(field) {
                    self.at(at);
                }
            }
        }
    }
}

/// Claims the mappings that contain metadata, and the rest of their nodes.
fn nodes(metadata: MetadataMappings<'_>, out: &mut ClaimSink<'_>) {
    let base = out.base;
    let mappings = metadata.mappings;
    let taken = out.taken();
    let by_content = ClaimBasis::derived("it contains methods, constant pools or fields of classes");
    let mut end_of_last = Addr::NULL;
    for range in mappings.values() {
        out.add(*range, Kind::Metaspace, "class metadata", by_content);
        // A node is one reservation, so adjacent memory belongs to it, up to the size of a node.
        let limit = range.start.align_down(ROOT_CHUNK).saturating_add(NODE);
        let mut at = range.end.max(end_of_last);
        while let Some(entry) = base.at(at).filter(|e| e.file.is_none() && e.range.end <= limit && e.range.end > at) {
            let executable = entry.perms.is_some_and(|p| p.exec);
            if executable || mappings.contains_key(&entry.range.start) || is_taken(&taken, entry.range) {
                break;
            }
            let why = ClaimBasis::guess("directly after class metadata, within 64 MiB");
            match is_committed(entry) {
                true => out.add(entry.range, Kind::Metaspace, "class metadata", why),
                false => out.add(entry.range, Kind::NoAccess, "reserved for metaspace", why),
            }
            at = entry.range.end;
        }
        end_of_last = at;
    }
}
