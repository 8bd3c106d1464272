//! Fields of the heaps of a server GC.
//!
//! From 6 on, the GC exports the offset of each field (`gc_heap_field_offsets`, in the order of dac_gcheap_fields.h).
//! Before that, a heap begins with the fields of dac_gc_heap (gcinterface.dac.h of 3.1), whose layout is fixed.

use crate::addr::Addr;
use crate::layout::StructView;
use crate::runtimes::clr_gc::Gc;

/// The structure that a heap begins with, up to the version that exports no offsets.
const FIXED: &str = "dac_gc_heap";

/// Offset of a field in a heap. `None` if this GC does not have the field.
pub(super) fn offset(gc: Gc<'_>, field: &str) -> Option<u64> {
    let Gc { memory, layout, .. } = gc;
    let vars = StructView::new(memory, layout, "GcDacVars", gc.vars?);
    if !vars.has("gc_heap_field_offsets") {
        return layout.positive(FIXED, field).ok();
    }
    let index = layout.constant("gc_heap_fields", field).ok()?;
    let at = vars.ptr("gc_heap_field_offsets").ok()?.checked_add(index.checked_mul(4)?)?;
    // -1 means that the field does not exist.
    u64::try_from(memory.u32(at).ok()? as i32).ok()
}

/// Address of a field in one heap. `None` if the layout lacks the field, or the heap is not in the core.
pub(super) fn field(gc: Gc<'_>, heap: u32, field: &str) -> Option<Addr> {
    let at = |addr: Addr| gc.memory.ptr(addr).ok().filter(|a| !a.is_null());
    let vars = StructView::new(gc.memory, gc.layout, "GcDacVars", gc.vars?);
    let array = vars.ptr("g_heaps").ok().and_then(at)?;
    at(array.checked_add(8 * u64::from(heap))?)?.checked_add(offset(gc, field)?)
}
