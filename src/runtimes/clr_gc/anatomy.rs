//! What the bytes of .NET's objects mean, by type: the same in CoreCLR and NativeAOT, but for fields by name.

use crate::addr::Addr;
use crate::runtimes::api::anatomy::{Form, Forms, LENGTH};
use crate::runtimes::api::{Heap, TypeIndex, kinds};

/// Bytes of the word before an object of .NET that tells of its lock (`ObjHeader::m_SyncBlockValue`).
const SYNC_BLOCK_VALUE: u64 = 4;

/// Heads of objects are no longer than this where they have no length: two words.
const LONGEST_HEAD: u64 = 16;

/// What stays of the objects of a heap; `fields`: numbers of instances of a type that stay too.
pub(crate) fn forms(heap: &dyn Heap, fields: impl Fn(Addr) -> Vec<(u64, u64)>) -> Forms {
    let head = head(heap);
    let form = |kind: TypeIndex| {
        let info = heap.type_info(kind)?;
        let form = Form {
            // Before free space stands what a compaction left there: the end of a text, as seen in 3.1.
            prefix: if info.free { 0 } else { SYNC_BLOCK_VALUE },
            head: info.elements.map_or(head, |elements| elements.start),
            is_plain: !info.string && info.elements.is_none(),
            is_string: info.string,
            fields: fields(info.address),
            ..Form::default()
        };
        Some((kind, form))
    };
    kinds(heap).filter_map(form).collect()
}

/// Bytes of a head without a length, told by the shortest that has one.
fn head(heap: &dyn Heap) -> u64 {
    let types = kinds(heap).filter_map(|kind| heap.type_info(kind));
    let shortest = types.filter_map(|info| info.elements).map(|elements| elements.start).min();
    shortest.unwrap_or(8 + LENGTH).saturating_sub(LENGTH).min(LONGEST_HEAD)
}
