//! Explains why a command on managed memory has no answer for a process.

use std::collections::BTreeSet;

use crate::map::Kind;
use crate::report::UnreadRow;
use crate::runtimes::{self, mapped_libraries};
use crate::session::Session;

/// Separator between the runtime's name and the part of its heap, in labels such as `Go: heap arenas`.
const PART: char = ':';

/// Returns a sentence for a process without a readable managed runtime. It names what was found instead.
pub fn no_runtime(session: &Session<'_>) -> String {
    if let Some((file, name)) = mapped_libraries(session.process).first() {
        return format!(
            "{file} is mapped, but coremap cannot read its {name} runtime from this core (`coremap info` says why)"
        );
    }
    let none = "no managed runtime (.NET, Java, Python) was found in this core";
    let names = unread_heaps(session);
    if names.is_empty() {
        return none.to_owned();
    }
    format!("{none}; it has a heap of {}, whose objects coremap does not read", names.join(" and "))
}

/// Returns names of runtimes whose heap is recognised but whose objects are not read.
pub fn unread_heaps<'s>(session: &'s Session<'_>) -> Vec<&'s str> {
    let heaps = session.map().regions.iter().filter(|region| region.kind == Kind::RuntimeHeap);
    let names: BTreeSet<&str> = heaps.filter_map(|region| region.detail.split(PART).next()).collect();
    names.into_iter().collect()
}

/// Returns runtimes that were found but could not be read.
pub fn unread_runtimes(session: &Session<'_>) -> Vec<UnreadRow> {
    // The search for runtimes adds the diagnostics about them.
    let _ = session.runtimes();
    runtimes::unusable(session.process)
}
