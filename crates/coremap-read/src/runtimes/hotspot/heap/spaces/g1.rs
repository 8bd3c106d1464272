//! G1: a table of equal regions (src/hotspot/share/gc/g1: g1HeapRegion.hpp, g1HeapRegionType.hpp,
//! g1HeapRegionManager.hpp).

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::heap::spaces::{Generation, Space};
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// Numbers of the region types. They changed between releases, and are constants of the VM's tables.
struct Tags {
    free: Option<i64>,
    eden: Option<i64>,
    survivor: Option<i64>,
    humongous: Option<i64>,
    continues: Option<i64>,
    old: Option<i64>,
    archive: Option<i64>,
}

impl Tags {
    fn read(vm: &Vm<'_>, kind: &str) -> Tags {
        let constant = |name: &str| vm.constant(&format!("{kind}::{name}"));
        Tags {
            free: constant("FreeTag"),
            eden: constant("EdenTag"),
            survivor: constant("SurvTag"),
            humongous: constant("StartsHumongousTag"),
            continues: constant("ContinuesHumongousTag"),
            old: constant("OldMask"),
            archive: constant("ArchiveMask"),
        }
    }

    fn generation(&self, tag: i64) -> Generation {
        let is = |known: Option<i64>| known == Some(tag);
        let has = |mask: Option<i64>| mask.is_some_and(|mask| mask != 0 && tag & mask == mask);
        if is(self.free) {
            Generation::Free
        } else if is(self.eden) {
            Generation::Eden
        } else if is(self.survivor) {
            Generation::Survivor
        } else if is(self.humongous) || is(self.continues) {
            Generation::Humongous
        } else if has(self.archive) {
            // Tags of open and closed archive regions are bit masks, like those of old regions.
            Generation::Archive
        } else if has(self.old) {
            Generation::Old
        } else {
            Generation::Other
        }
    }
}

pub(super) fn read(vm: &Vm<'_>, heap: Addr, notes: &mut Vec<String>) -> Result<Vec<Space>, VmError> {
    let missing = || VmError::MissingType("G1HeapRegion".to_owned());
    let region_type = vm.first_type(&["G1HeapRegion", "HeapRegion"]).ok_or_else(missing)?;
    let manager = vm.first_type(&["G1HeapRegionManager", "HeapRegionManager"]).ok_or_else(missing)?;
    let type_of = vm.first_type(&["G1HeapRegionType", "HeapRegionType"]).ok_or_else(missing)?;
    let manager = vm.at(manager, vm.at("G1CollectedHeap", heap).addr_of("_hrm")?);
    let table = vm.at("G1HeapRegionTable", manager.addr_of("_regions")?);
    let (base, count) = (table.ptr("_base")?, table.number("_length")?);
    if count > limits::MAX_HEAP_REGIONS {
        notes.push(format!("{count} regions, more than the limit; the others are ignored"));
    }
    let tags = Tags::read(vm, type_of);
    let mut out = Vec::new();
    for i in 0..count.min(limits::MAX_HEAP_REGIONS) {
        let at = vm.memory.ptr(base.wrapping_add(i * WORD)).map_err(VmError::fault("G1HeapRegionTable", "_base"))?;
        // The region was never committed.
        if at.is_null() {
            continue;
        }
        let region = vm.at(region_type, at);
        let tag = vm.at(type_of, region.addr_of("_type")?).number("_tag")? as i64;
        let generation = tags.generation(tag);
        let (bottom, top, end) = (region.ptr("_bottom")?, region.ptr("_top")?, region.ptr("_end")?);
        // A freed region still has its last `_top`.
        let top = if generation == Generation::Free { bottom } else { top };
        let mut space = Space::new(generation, bottom, top, end);
        space.one_object = Some(tag) == tags.humongous;
        space.continues = Some(tag) == tags.continues;
        out.push(space);
    }
    Ok(out)
}
