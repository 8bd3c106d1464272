//! Objects outside of heaps, in arenas, malloc blocks or program files: which of their bytes stay, and which never do.

use std::collections::HashSet;

use crate::addr::AddrRange;
use crate::runtimes::api::anatomy::{Anatomy, Meaning, Scattered};
use crate::scrub::heaps::RunMasks;
use crate::scrub::objects::Objects;
use crate::targets::reads::{NameAt, Script};

/// Minimum length in bytes of a value that is stored as a range instead of byte by byte.
const MIN_LARGE_VALUE: u64 = 64 << 10;

/// Adds the objects of one runtime. Returns whether its objects are outside of heaps. `shown` are texts that answers
/// print as names of threads.
pub(super) fn all<'s>(anatomy: &'s dyn Anatomy, shown: &HashSet<String>, out: &mut Objects<'s>) -> bool {
    let scattered = anatomy.scattered(shown, &mut |range, meaning| match meaning {
        Meaning::Structure => out.own.add(range.start, range.len()),
        Meaning::Name(width, is_public) => {
            out.own.add(range.start, range.len());
            let script = if is_public && width == 1 { Script::Public } else { Script::Units(width) };
            out.named.push(NameAt { at: range.start, len: range.len(), script });
        }
        Meaning::Interchangeable(other) => {
            out.substitutes.insert(range.start.get(), other.get());
        }
        Meaning::Value => value(range, out),
        // It is a value too, in case it is not overwritten as a text.
        Meaning::Text(width) => {
            value(range, out);
            out.texts.push((range, width));
        }
    });
    let found = scattered.is_some();
    out.scattered.extend(scattered);
    found
}

fn value(range: AddrRange, out: &mut Objects<'_>) {
    match range.len() {
        0..MIN_LARGE_VALUE => out.values.add(range.start, range.len()),
        _ => out.large_values.push(range),
    }
}

/// Adds the masks and texts of a run of memory.
pub(super) fn add_masks(objects: &dyn Scattered, range: AddrRange, out: &mut RunMasks) {
    objects.each_in(range, &mut |bytes, meaning| match meaning {
        Meaning::Structure | Meaning::Name(..) => out.add_own(bytes),
        Meaning::Value => out.add_value(bytes),
        Meaning::Text(width) => {
            out.add_value(bytes);
            if bytes.intersect(&range).is_some() {
                out.texts.push((bytes, width));
            }
        }
        Meaning::Interchangeable(_) => {}
    });
}
