//! Dicts that are namespaces of types written in C.

use super::containers::each_item;
use crate::addr::Addr;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::TypeForm;

/// Whether the dict at `dict` is the namespace (`tp_dict`) of a type written in C.
///
/// Such a type is static data, so no object of the heap refers to its dict. But the descriptors in the dict, one for
/// each method and field, refer to the type (`PyDescrObject.d_type`).
pub(super) fn is_namespace_of_c_type(heap: &Heap<'_>, dict: Addr) -> bool {
    let Some(kind) = heap.type_of(dict).filter(|kind| kind.form == TypeForm::Dict) else { return false };
    let objects = heap.objects();
    let mut found = false;
    each_item(heap, dict, &kind, |item| {
        if let Some(kind) = heap.type_of(item) {
            heap.each_target(item, &kind, |_, to| {
                found = objects.ptr_at(to, objects.shape.types.dict) == Some(dict) && objects.is_type(to);
                !found
            });
        }
        !found
    });
    found
}
