//! Objects that exist once per value: small integers, and one-letter str and bytes (static in `_PyRuntime` since 3.11).
//!
//! Their position in the table reveals the value, so a list of references to them is readable text. No answer about
//! memory depends on which of them is referenced, so one of them can replace all.

use std::collections::BTreeSet;

use super::kind_of;
use super::names::KeptNames;
use crate::addr::{Addr, WORD};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::TypeForm;

/// Maximum number of objects of a table in one direction from a known one.
const MAX_STEPS: usize = 512;

/// Form of such an object, and the distance in bytes to the next one. `None` if the object is not of this kind.
fn shape(heap: &Heap<'_>, at: Addr) -> Option<(TypeForm, u64)> {
    let kind = kind_of(heap, at)?;
    let objects = heap.objects();
    let letter = |end: u64| end.saturating_add(2).next_multiple_of(WORD);
    match kind.form {
        TypeForm::Integer if kind.name == "int" => {
            let digits = objects.integer_form(at)?.digits;
            (digits <= 1).then_some((TypeForm::Integer, (objects.shape.long_digits + 4).next_multiple_of(WORD)))
        }
        TypeForm::Text => {
            let content = objects.text_content(at).filter(|content| content.compact && content.kind == 1)?;
            (content.length == 1).then(|| (TypeForm::Text, letter(content.start.since(at))))
        }
        TypeForm::Bytes => (objects.ob_size(at)? == 1).then(|| (TypeForm::Bytes, letter(objects.shape.bytes))),
        _ => None,
    }
}

/// Finds all objects in the tables that contain objects of `fixed`. Each is returned with the object that can replace
/// it.
pub(super) fn all(heap: &Heap<'_>, fixed: &[Addr], names: &KeptNames) -> Vec<(Addr, Addr)> {
    let mut out = Vec::new();
    for form in [TypeForm::Integer, TypeForm::Text, TypeForm::Bytes] {
        let mut all: BTreeSet<Addr> = BTreeSet::new();
        for &at in fixed {
            if all.contains(&at) {
                continue;
            }
            let Some((_, step)) = shape(heap, at).filter(|(of, _)| *of == form) else { continue };
            all.insert(at);
            for down in [true, false] {
                let beside = |at: &Addr| if down { at.checked_sub(step) } else { at.checked_add(step) };
                let more = std::iter::successors(beside(&at), beside).take(MAX_STEPS);
                all.extend(more.take_while(|at| shape(heap, *at) == Some((form, step))));
            }
        }
        let Some(&first) = all.first() else { continue };
        let others = all.into_iter().filter(|at| !names.is_shown(heap.objects(), *at));
        out.extend(others.map(|at| (at, first)));
    }
    out
}
