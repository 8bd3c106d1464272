//! Collectors with spaces: Serial, Parallel, and Epsilon with its single space (src/hotspot/share/gc:
//! serial/defNewGeneration.hpp, parallel/psYoungGen.hpp, shared/space.hpp, epsilon/epsilonHeap.hpp).

use crate::addr::Addr;
use crate::runtimes::hotspot::heap::spaces::{Generation, Space};
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// Reads the space that `field` of `holder` points to. `holder` has type `kind`, and the space has type `of`.
fn space(
    vm: &Vm<'_>,
    (kind, holder): (&str, Addr),
    field: &str,
    (of, generation): (&str, Generation),
) -> Result<Space, VmError> {
    let space = vm.at(of, vm.at(kind, holder).ptr(field)?);
    Ok(Space::new(generation, space.ptr("_bottom")?, space.ptr("_top")?, space.ptr("_end")?))
}

/// Spaces of the young generation, by field.
const YOUNG: [(&str, Generation); 3] =
    [("_eden_space", Generation::Eden), ("_from_space", Generation::Survivor), ("_to_space", Generation::Survivor)];

pub(super) fn serial(vm: &Vm<'_>, heap: Addr) -> Result<Vec<Space>, VmError> {
    let kind = if vm.tables.has("SerialHeap", "_young_gen") { "SerialHeap" } else { "GenCollectedHeap" };
    let heap = vm.at(kind, heap);
    let (young, old) = (heap.ptr("_young_gen")?, heap.ptr("_old_gen")?);
    let of = "ContiguousSpace";
    let mut out = Vec::new();
    for (field, generation) in YOUNG {
        out.push(space(vm, ("DefNewGeneration", young), field, (of, generation))?);
    }
    out.push(space(vm, ("TenuredGeneration", old), "_the_space", (of, Generation::Old))?);
    Ok(out)
}

pub(super) fn parallel(vm: &Vm<'_>) -> Result<Vec<Space>, VmError> {
    let kind = "ParallelScavengeHeap";
    let (young, old) = (vm.static_ptr(kind, "_young_gen")?, vm.static_ptr(kind, "_old_gen")?);
    let of = "MutableSpace";
    let mut out = Vec::new();
    for (field, generation) in YOUNG {
        out.push(space(vm, ("PSYoungGen", young), field, (of, generation))?);
    }
    out.push(space(vm, ("PSOldGen", old), "_object_space", (of, Generation::Old))?);
    Ok(out)
}

pub(super) fn epsilon(vm: &Vm<'_>, heap: Addr) -> Result<Vec<Space>, VmError> {
    Ok(vec![space(vm, ("EpsilonHeap", heap), "_space", ("ContiguousSpace", Generation::Regular))?])
}
