//! Meaning of the bytes of owned memory, by its kind.

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::cpython::heap::{Heap, OwnedKind};

/// Maximum size in bytes of a table outside the arenas that is described on demand, like blocks in arenas.
const SMALL: u64 = 64 << 10;

pub(super) type Visit<'v> = &'v mut dyn FnMut(AddrRange, Meaning);

/// Whether the block at the start of `range` determines its own description. It is then described again on demand, and
/// need not be stored.
pub(super) fn is_self_describing(heap: &Heap<'_>, range: AddrRange, kind: OwnedKind) -> bool {
    let Some((_, bytes)) = heap.owned_block(range.start).filter(|&(of, bytes)| of == kind && bytes <= SMALL) else {
        return false;
    };
    let end = range.start.saturating_add(bytes);
    match kind {
        OwnedKind::DictKeys => heap.objects().dict_keys(range.start).is_none_or(|keys| {
            let all = keys.count.checked_mul(keys.size).and_then(|len| keys.entries.checked_add(len));
            keys.key <= keys.size && all.is_some_and(|all| all <= end)
        }),
        OwnedKind::DictValues => heap.objects().shape.dict.first_value <= bytes,
        OwnedKind::SetTable => range.len() == bytes,
        _ => false,
    }
}

/// Describes owned memory of this kind.
pub(super) fn describe(heap: &Heap<'_>, range: AddrRange, kind: OwnedKind, visit: Visit<'_>) {
    match kind {
        OwnedKind::DictKeys => dict_keys(heap, range.start, visit),
        OwnedKind::DictValues => {
            visit(AddrRange::sized(range.start, values_head(heap)), Meaning::Structure);
        }
        OwnedKind::SetTable => set_table(heap, range, visit),
        // A name stored in such memory is shown by its characters, not by this buffer.
        OwnedKind::ByteArrayBuffer | OwnedKind::ArrayItems | OwnedKind::ArrayData | OwnedKind::TextBuffer => {
            value(range.start, range.end, visit);
        }
        OwnedKind::ListItems | OwnedKind::DequeBlock => {}
    }
}

/// Length in bytes of the header of a PyDictValues: `capacity`, `size`, `embedded` and `valid`, a byte each (since
/// 3.13). Padding follows, which nobody writes.
pub(super) fn values_head(heap: &Heap<'_>) -> u64 {
    heap.objects().shape.dict.first_value.min(4)
}

/// Marks a range as a value, unless it is empty or too large.
pub(super) fn value(from: Addr, to: Addr, visit: Visit<'_>) {
    if from < to && to.since(from) <= limits::MAX_RUNTIME_RANGE {
        visit(AddrRange::new(from, to), Meaning::Value);
    }
}

/// Describes the entries of a set: their hashes are values.
pub(super) fn set_table(heap: &Heap<'_>, range: AddrRange, visit: Visit<'_>) {
    let objects = heap.objects();
    let entry = objects.shape.set.entry.max(1);
    let Ok(hash) = heap.runtime().layout.positive("setentry", "hash") else { return };
    for i in 0..objects.memory.readable(range.start, range.len()) / entry {
        let at = range.start.saturating_add(i * entry).saturating_add(hash);
        value(at, at.saturating_add(WORD), visit);
    }
}

/// Describes a dict's key table: hashes are values, and so are the indices that follow from them.
fn dict_keys(heap: &Heap<'_>, at: Addr, visit: Visit<'_>) {
    let objects = heap.objects();
    let Some(keys) = objects.dict_keys(at) else { return };
    let indices = objects.shape.dict.indices;
    visit(AddrRange::sized(at, indices), Meaning::Structure);
    value(at.saturating_add(indices), keys.entries, visit);
    // Entries with a hash store it before the key.
    if keys.key >= WORD {
        let have = objects.memory.readable(keys.entries, keys.bytes) / keys.size.max(1);
        for index in 0..keys.count.min(have) {
            let key = keys.key_at(index);
            value(key.saturating_sub(WORD), key, visit);
        }
    }
}
