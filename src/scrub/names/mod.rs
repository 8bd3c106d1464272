//! Names of the program's own, overwritten by others of the same length: `Acme.Billing.Invoice` becomes `Qzvk.Trwpmqa.Xjbqzrt`.
//! Names of the system and of runtimes stay, as people and readers know them.
//!
//! | file | holds |
//! |---|---|
//! | `collect` | which tokens there are, and whose they are |
//! | `known` | words that are nobody's own |
//! | `map` | what stands for a token |
//! | `parts` | tokens that are made of several |
//! | `script` | tokens in the scripts that memory has them in |
//! | `apply` | a run of memory, overwritten |

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
    /// Where they are, by address.
    places: Vec<NameAt>,
    /// Bytes of the longest of them.
    longest: u64,
    map: Map,
}

impl Names {
    /// Collect them. `places`: where answers found names; `public`: names that stay; `notes`: those of the core.
    pub(super) fn new(session: &Session<'_>, places: Vec<NameAt>, public: &[String], notes: &[u8]) -> Names {
        let (places, tokens) = collect::all(session, places, public, notes);
        let longest = places.iter().map(|name| name.len).max().unwrap_or(0);
        Names { places, longest, map: Map::new(tokens) }
    }

    /// What stands in the core for each token that was overwritten, and the token: lines `NEW<TAB>OLD`, sorted.
    pub fn table(&self) -> String {
        self.map.rows().into_iter().map(|(new, old)| format!("{new}\t{old}\n")).collect()
    }

    /// Overwrite the names in notes.
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

/// Runtimes of the process whose names can't be mapped yet, in words.
pub fn unmapped(session: &Session<'_>) -> Vec<&'static str> {
    let mut out: Vec<_> = anatomies(session).filter_map(|anatomy| anatomy.names_stay()).collect();
    out.dedup();
    out
}
