//! Replaces the program's own names by others of the same length: `Acme.Billing.Invoice` becomes
//! `Qzvk.Trwpmqa.Xjbqzrt`. Names of the system and of runtimes stay, because people and tools know them.
//!
//! | file | contents |
//! |---|---|
//! | `collect` | the tokens in names, and which are the program's own |
//! | `known` | words that belong to no program |
//! | `map` | the replacement of each token |
//! | `parts` | tokens that consist of several |
//! | `script` | tokens in the encodings of memory |
//! | `apply` | replaces names in a run of memory |

mod apply;
mod collect;
mod known;
mod map;
mod parts;
mod script;

pub(super) use apply::Pass;

use crate::core::scrubbed_notes;
use crate::scrub::plan::anatomies;
use crate::session::Session;
use crate::targets::reads::{NameAt, Script};
use map::Map;

/// All names of a process.
pub struct Names {
    /// Locations of names, by address.
    places: Vec<NameAt>,
    /// Length of the longest name in bytes.
    longest: u64,
    map: Map,
}

impl Names {
    /// Collects the names. `places` are locations where answers found names, `public` are names that stay, and `notes`
    /// are the core's notes.
    pub(super) fn new(session: &Session<'_>, places: Vec<NameAt>, public: &[String], notes: &[u8]) -> Names {
        let (places, tokens) = collect::all(session, places, public, notes);
        let longest = places.iter().map(|name| name.len).max().unwrap_or(0);
        Names { places, longest, map: Map::new(tokens) }
    }

    /// Returns the replacements as sorted lines `NEW<TAB>OLD`.
    pub fn table(&self) -> String {
        self.map.rows().into_iter().map(|(new, old)| format!("{new}\t{old}\n")).collect()
    }

    /// Replaces the names in notes.
    pub(super) fn notes(&self, notes: &mut [u8]) {
        for range in scrubbed_notes::names(notes) {
            let Some(text) = notes.get_mut(range) else { continue };
            for span in script::tokens(text, Script::Utf8) {
                let new = self.map.get(&span.token);
                let Some(rest) = text.get_mut(span.from..) else { continue };
                let Some(bytes) = new.and_then(|new| script::encode(new, rest, Script::Utf8)) else { continue };
                rest.iter_mut().zip(bytes).for_each(|(to, new)| *to = new);
            }
        }
    }
}

/// Returns the process's runtimes whose names can't be mapped yet, in words.
pub fn unmapped(session: &Session<'_>) -> Vec<&'static str> {
    let mut out: Vec<_> = anatomies(session).filter_map(|anatomy| anatomy.names_stay()).collect();
    out.dedup();
    out
}
