//! Memory outside of the arenas that objects own: bytearray buffers, items of `array.array`, numpy data, and the tables
//! of large lists, dicts and sets.

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{OwnedBuffer, buffer_at};
use crate::runtimes::cpython::heap::Heap;
use crate::words::BufferMemory;

/// All such memory, sorted by address, and the number of entries over the limit.
pub(super) fn buffers(heap: &Heap<'_>) -> (Vec<OwnedBuffer>, u64) {
    let mut out = Vec::new();
    let mut more = 0;
    heap.each_owned_outside(|range, kind, object| {
        if out.len() < limits::MAX_OWNED_BUFFERS {
            out.push(OwnedBuffer { range, object, field: kind.field(), how: BufferMemory::Allocated });
        } else {
            more += 1;
        }
    });
    (out, more)
}

/// The owned memory that contains `at`, in the arenas or outside.
pub(super) fn buffer_of(heap: &Heap<'_>, all: &[OwnedBuffer], at: Addr) -> Option<OwnedBuffer> {
    if let Some(found) = buffer_at(all, at) {
        return Some(found.clone());
    }
    let (range, kind, object) = heap.owned_in_arenas(at)?;
    Some(OwnedBuffer { range, object, field: kind.field(), how: BufferMemory::Allocated })
}
