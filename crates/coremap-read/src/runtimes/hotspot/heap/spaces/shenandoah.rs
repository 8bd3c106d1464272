//! Shenandoah: an array of equal regions (src/hotspot/share/gc/shenandoah/shenandoahHeapRegion.hpp).

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::heap::spaces::{Generation, Space};
use crate::runtimes::hotspot::vm::{Vm, VmError};

const REGION: &str = "ShenandoahHeapRegion";

pub(super) fn read(vm: &Vm<'_>, heap: Addr, notes: &mut Vec<String>) -> Result<Vec<Space>, VmError> {
    let view = vm.at("ShenandoahHeap", heap);
    let (count, regions) = (view.number("_num_regions")?, view.ptr("_regions")?);
    if count > limits::MAX_HEAP_REGIONS {
        notes.push(format!("{count} regions, more than the limit; the others are ignored"));
    }
    let state = |name: &str| vm.constant(&format!("{REGION}::{name}"));
    let starts = [state("_humongous_start"), state("_pinned_humongous_start")];
    let continues = state("_humongous_cont");
    let empty = [state("_empty_committed"), state("_empty_uncommitted"), state("_trash")];
    let mut out = Vec::new();
    for i in 0..count.min(limits::MAX_HEAP_REGIONS) {
        let slot = regions.wrapping_add(i * WORD);
        let at = vm.memory.ptr(slot).map_err(VmError::fault("ShenandoahHeap", "_regions"))?;
        if at.is_null() {
            continue;
        }
        let region = vm.at(REGION, at);
        let state = Some(region.number("_state")? as i64);
        let (bottom, top, end) = (region.ptr("_bottom")?, region.ptr("_top")?, region.ptr("_end")?);
        let (starts, continues) = (starts.contains(&state), continues == state);
        // A trash region is about to be reclaimed. None of its objects are used, and their classes may be gone.
        let (generation, top) = if empty.contains(&state) {
            (Generation::Free, bottom)
        } else if starts || continues {
            (Generation::Humongous, top)
        } else {
            (Generation::Regular, top)
        };
        let space = Space::new(generation, bottom, top, end);
        out.push(Space { one_object: starts, continues, ..space });
    }
    Ok(out)
}
