//! Why a command on managed memory has no answer for a process.

use std::collections::BTreeSet;

use crate::map::Kind;
use crate::runtimes::mapped_libraries;
use crate::session::Session;

/// Separator of a runtime's name and the part of its heap, in the labels of recognised heaps: `Go: heap arenas`.
const PART: char = ':';

/// A sentence for a process without a readable managed runtime. It names what was found instead.
pub fn no_runtime(session: &Session<'_>) -> String {
    if let Some((file, name)) = mapped_libraries(session.process).first() {
        return format!(
            "{file} is mapped, but coremap cannot read its {name} runtime from this core (`coremap info` says why)"
        );
    }
    let none = "no managed runtime (.NET, Java, Python) was found in this core";
    let heaps = session.map().regions.iter().filter(|region| region.kind == Kind::RuntimeHeap);
    let names: BTreeSet<&str> = heaps.filter_map(|region| region.detail.split(PART).next()).collect();
    if names.is_empty() {
        return none.to_owned();
    }
    let names: Vec<&str> = names.into_iter().collect();
    format!("{none}; it has a heap of {}, whose objects coremap does not read", names.join(" and "))
}
