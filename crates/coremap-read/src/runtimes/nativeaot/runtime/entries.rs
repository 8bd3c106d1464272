//! Names of the header's entries by position. Used if a core lacks the strings (a kernel's core has no read-only
//! pages).

use std::sync::OnceLock;

use serde::Deserialize;

use crate::layout::NATIVEAOT_ENTRIES;

/// Entries of one major version of the header.
#[derive(Deserialize)]
pub(super) struct Entries {
    pub(super) major: u16,
    /// Release of .NET with this version.
    pub(super) release: String,
    /// Types with their fields, in order. A type may occur several times.
    types: Vec<(String, Vec<String>)>,
    /// Names of globals, in order.
    pub(super) globals: Vec<String>,
}

#[derive(Deserialize)]
struct Lists {
    lists: Vec<Entries>,
}

impl Entries {
    /// Type and field name of each entry.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.types.iter().flat_map(|(kind, fields)| fields.iter().map(move |field| (&**kind, &**field)))
    }
}

/// Returns the entries of a major version, if they are known.
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
