//! Objects of Python: which bytes stay wherever they lie, in arenas, blocks of malloc or program files, and which never do.

use std::collections::HashSet;

use crate::cpython::CPython;
use crate::cpython::anatomy::Part;
use crate::scrub::objects::Objects;
use crate::targets::reads::{NameAt, Script};

/// Add the objects of one CPython. `names`: texts that answers print as names of threads.
pub(super) fn all(python: &CPython<'_>, names: &HashSet<String>, out: &mut Objects<'_>) {
    python.anatomy(names, &mut |range, part| match part {
        Part::Structure => out.own.add(range.start, range.len()),
        Part::Name(width, is_public) => {
            out.own.add(range.start, range.len());
            let script = if is_public && width == 1 { Script::Public } else { Script::Units(width) };
            out.named.push(NameAt { at: range.start, len: range.len(), script });
        }
        Part::Alike(other) => {
            out.alike.insert(range.start.get(), other.get());
        }
        Part::Value => out.values.add(range.start, range.len()),
        // A value too, should it not be overwritten as a text.
        Part::Text(width) => {
            out.values.add(range.start, range.len());
            out.texts.push((range, width));
        }
    });
}
