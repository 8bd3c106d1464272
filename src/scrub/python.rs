//! Objects of Python: which bytes stay wherever they lie, in arenas, blocks of malloc or program files, and which never do.

use std::collections::HashSet;

use crate::addr::AddrRange;
use crate::cpython::CPython;
use crate::cpython::anatomy::{Anatomy, Part};
use crate::scrub::heaps::Within;
use crate::scrub::objects::Objects;
use crate::targets::reads::{NameAt, Script};

/// Values of so many bytes are noted as a range, and not byte by byte.
const LARGE: u64 = 64 << 10;

/// Add the objects of one CPython. `names`: texts that answers print as names of threads.
pub(super) fn all<'s>(python: &'s CPython<'_>, names: &HashSet<String>, out: &mut Objects<'s>) {
    let anatomy = python.anatomy(names, &mut |range, part| match part {
        Part::Structure => out.own.add(range.start, range.len()),
        Part::Name(width, is_public) => {
            out.own.add(range.start, range.len());
            let script = if is_public && width == 1 { Script::Public } else { Script::Units(width) };
            out.named.push(NameAt { at: range.start, len: range.len(), script });
        }
        Part::Alike(other) => {
            out.alike.insert(range.start.get(), other.get());
        }
        Part::Value => value(range, out),
        // A value too, should it not be overwritten as a text.
        Part::Text(width) => {
            value(range, out);
            out.texts.push((range, width));
        }
    });
    out.pythons.extend(anatomy);
}

fn value(range: AddrRange, out: &mut Objects<'_>) {
    match range.len() {
        0..LARGE => out.values.add(range.start, range.len()),
        _ => out.large_values.push(range),
    }
}

/// What is known of a run of memory, `range`.
pub(super) fn within(python: &Anatomy<'_>, range: AddrRange, out: &mut Within) {
    python.each_in(range, &mut |bytes, part| match part {
        Part::Structure | Part::Name(..) => out.add_own(bytes),
        Part::Value => out.add_value(bytes),
        Part::Text(width) => {
            out.add_value(bytes);
            if bytes.intersect(&range).is_some() {
                out.texts.push((bytes, width));
            }
        }
        Part::Alike(_) => {}
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::layout::StructView;
    use crate::memory::Memory;
    use crate::scrub::tests::{are_found, open, plan};
    use crate::session::Session;

    #[test]
    fn what_counts_arenas_stays_wherever_an_interpreter_is() {
        let process = open("python313-tasks/core.zst");
        let session = Session::new(&process);
        let plan = plan(&session);
        let runtime = session.cpython().first().unwrap().runtime();
        let interpreter = *runtime.interpreters.first().unwrap();
        // A pointer, since 3.13.
        let place = runtime.view("PyInterpreterState", interpreter).addr_of("obmalloc").unwrap();
        let at = process.memory.ptr(place).unwrap();
        let state = StructView::new(&process.memory, &runtime.layout, "_obmalloc_state", at);
        assert!(state.u32("mgmt.maxarenas").unwrap() > 0);
        assert!(are_found(&plan, place, 8));
        assert!(are_found(&plan, state.addr_of("mgmt.arenas").unwrap(), 8));
        assert!(are_found(&plan, state.addr_of("mgmt.maxarenas").unwrap(), 4));
    }
}
