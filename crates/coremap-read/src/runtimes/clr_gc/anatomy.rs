//! Which bytes of .NET objects are structure and which are values, by type. Shared by CoreCLR and NativeAOT, which
//! supply the fields.

use crate::addr::Addr;
use crate::runtimes::api::anatomy::{ARRAY_LENGTH_SIZE, ScrubRule, ScrubRules};
use crate::runtimes::api::{Heap, TypeIndex, all_types};

/// Bytes of the word before a .NET object that describes its lock (`ObjHeader::m_SyncBlockValue`).
const SYNC_BLOCK_VALUE: u64 = 4;

/// Maximum size of the head of an object without a length: two words.
const LONGEST_HEAD: u64 = 16;

/// Returns which bytes of the heap's objects a scrubbed core keeps, by type. `fields` returns further bytes of a type,
/// as offset and length.
pub(crate) fn forms(heap: &dyn Heap, fields: impl Fn(Addr) -> Vec<(u64, u64)>) -> ScrubRules {
    let head = head(heap);
    let form = |kind: TypeIndex| {
        let info = heap.type_info(kind)?;
        let form = ScrubRule {
            // A compaction leaves other data before free space: the end of a text, as seen in 3.1.
            prefix: if info.free { 0 } else { SYNC_BLOCK_VALUE },
            head: info.elements.map_or(head, |elements| elements.start),
            is_plain: !info.string && info.elements.is_none(),
            is_string: info.string,
            fields: fields(info.address),
            ..ScrubRule::default()
        };
        Some((kind, form))
    };
    all_types(heap).filter_map(form).collect()
}

/// Bytes of the head of an object without a length, derived from the smallest array head.
fn head(heap: &dyn Heap) -> u64 {
    let types = all_types(heap).filter_map(|kind| heap.type_info(kind));
    let shortest = types.filter_map(|info| info.elements).map(|elements| elements.start).min();
    shortest.unwrap_or(8 + ARRAY_LENGTH_SIZE).saturating_sub(ARRAY_LENGTH_SIZE).min(LONGEST_HEAD)
}
