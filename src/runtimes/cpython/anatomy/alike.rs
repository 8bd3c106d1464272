//! Small integers and letters of Latin-1, as str or bytes, are one object each (`_PyRuntime`, since 3.11): by its place in the
//! table it tells its value, and a list of such is a text that anybody can read. Nothing that is told of memory depends on
//! which of them somebody has, so that one may stand for all.

use std::collections::BTreeSet;

use super::kind_of;
use super::names::Names;
use crate::addr::{Addr, WORD};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::Form;

/// Small integers there are, and letters: as far as a table may go to one side.
const MOST: usize = 512;

/// The shape of an object that there is one of for each value, and how far it is to the next.
fn shape(heap: &Heap<'_>, at: Addr) -> Option<(Form, u64)> {
    let kind = kind_of(heap, at)?;
    let objects = heap.objects();
    let letter = |end: u64| end.saturating_add(2).next_multiple_of(WORD);
    match kind.form {
        Form::Integer if kind.name == "int" => {
            let digits = objects.integer_form(at)?.digits;
            (digits <= 1).then_some((Form::Integer, (objects.shape.long_digits + 4).next_multiple_of(WORD)))
        }
        Form::Text => {
            let content = objects.text_content(at).filter(|content| content.compact && content.kind == 1)?;
            (content.length == 1).then(|| (Form::Text, letter(content.start.since(at))))
        }
        Form::Bytes => (objects.ob_size(at)? == 1).then(|| (Form::Bytes, letter(objects.shape.bytes))),
        _ => None,
    }
}

/// Those that are in the tables which `fixed` objects are of, with the one that may stand for all of its form.
pub(super) fn all(heap: &Heap<'_>, fixed: &[Addr], names: &Names) -> Vec<(Addr, Addr)> {
    let mut out = Vec::new();
    for form in [Form::Integer, Form::Text, Form::Bytes] {
        let mut all: BTreeSet<Addr> = BTreeSet::new();
        for &at in fixed {
            if all.contains(&at) {
                continue;
            }
            let Some((_, step)) = shape(heap, at).filter(|(of, _)| *of == form) else { continue };
            all.insert(at);
            for down in [true, false] {
                let beside = |at: &Addr| if down { at.checked_sub(step) } else { at.checked_add(step) };
                let more = std::iter::successors(beside(&at), beside).take(MOST);
                all.extend(more.take_while(|at| shape(heap, *at) == Some((form, step))));
            }
        }
        let Some(&first) = all.first() else { continue };
        let others = all.into_iter().filter(|at| !names.is_shown(heap.objects(), *at));
        out.extend(others.map(|at| (at, first)));
    }
    out
}
