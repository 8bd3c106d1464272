//! The names of the header's entries by their position: where a core lacks the strings (a kernel's has no read-only
//! pages), the order is what is left.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::layout::NATIVEAOT_ENTRIES;

/// The entries of one major version of the header.
#[derive(Deserialize)]
pub(super) struct Entries {
    /// That version.
    pub(super) major: u16,
    /// The release of .NET that has it.
    pub(super) release: String,
    /// Types with their fields, in order; a type may come again.
    types: Vec<(String, Vec<String>)>,
    /// Globals, in order.
    pub(super) globals: Vec<String>,
}

#[derive(Deserialize)]
struct Lists {
    lists: Vec<Entries>,
}

impl Entries {
    /// Type and field of each entry.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.types.iter().flat_map(|(kind, fields)| fields.iter().map(move |field| (&**kind, &**field)))
    }
}

/// The entries of that version, if they are known.
pub(super) fn of(major: u16) -> Option<&'static Entries> {
    static LISTS: OnceLock<Option<Lists>> = OnceLock::new();
    let lists = LISTS.get_or_init(|| serde_json::from_str(NATIVEAOT_ENTRIES).ok()).as_ref()?;
    lists.lists.iter().find(|list| list.major == major)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_have_what_is_asked_for() {
        for (major, release) in [(3, "8.0"), (4, "9.0"), (5, "10.0")] {
            let Some(list) = of(major) else { panic!("no list of version {major}") };
            assert_eq!(list.release, release);
            assert_eq!(list.fields().next(), Some(("GcDacVars", "SIZEOF")));
            assert!(list.fields().any(|entry| entry == ("dac_heap_segment", "mem")));
            assert!(list.globals.iter().any(|name| name == "g_gcDacGlobals"));
        }
        assert!(of(2).is_none());
    }
}
