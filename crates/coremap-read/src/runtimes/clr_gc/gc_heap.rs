//! Fields of the heaps of a server GC.
//!
//! Newer versions export the offset of each field (`gc_heap_field_offsets`, in the order of dac_gcheap_fields.h). In
//! 3.1, a heap begins with the fields of dac_gc_heap (gcinterface.dac.h), whose layout is fixed.

use crate::addr::Addr;
use crate::layout::StructView;
use crate::runtimes::clr_gc::Gc;

/// The structure that a heap begins with, in versions that export no offsets.
const FIXED: &str = "dac_gc_heap";

/// The array of offsets, and the names of its indices.
const OFFSETS: &str = "gc_heap_field_offsets";
const INDICES: &str = "gc_heap_fields";

fn vars(gc: Gc<'_>) -> Option<StructView<'_>> {
    Some(StructView::new(gc.memory, gc.layout, "GcDacVars", gc.vars?))
}

/// An entry of one of the arrays of field offsets that GcDacVars points to. `None` if it is -1, which means that the
/// field does not exist.
pub(super) fn exported_offset(gc: Gc<'_>, array: &str, indices: &str, field: &str) -> Option<u64> {
    let index = gc.layout.constant(indices, field).ok()?;
    let at = vars(gc)?.ptr(array).ok()?.checked_add(index.checked_mul(4)?)?;
    u64::try_from(gc.memory.u32(at).ok()? as i32).ok()
}

/// Offset of a field in a heap. `None` if this GC does not have the field.
pub(super) fn offset(gc: Gc<'_>, field: &str) -> Option<u64> {
    match vars(gc)?.has(OFFSETS) {
        true => exported_offset(gc, OFFSETS, INDICES, field),
        false => gc.layout.positive(FIXED, field).ok(),
    }
}

/// Address of a field in one heap. `None` if the layout lacks the field, or the heap is not in the core.
pub(super) fn field(gc: Gc<'_>, heap: u32, field: &str) -> Option<Addr> {
    let at = |addr: Addr| gc.memory.ptr(addr).ok().filter(|a| !a.is_null());
    let array = vars(gc)?.ptr("g_heaps").ok().and_then(at)?;
    at(array.checked_add(8 * u64::from(heap))?)?.checked_add(offset(gc, field)?)
}
