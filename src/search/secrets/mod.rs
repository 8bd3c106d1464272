//! Secrets in memory: keys, tokens, passwords, numbers of cards. What is found is never kept: of each there is a place, a
//! kind, and a hash under a key of this run.
//!
//! ```text
//! Target -> Spans -> windows -> texts (ASCII; UTF-16LE decoded) -> candidates (one automaton) -> checked -> hits
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `text` | text among bytes, in both encodings |
//! | `find` | what a text may hold: the words that secrets are known by, each with its check |
//! | `found` | one of them, and which of several that overlap is told |
//! | `keys`, `tokens`, `names`, `numbers`, `mail` | the checks |
//! | `scan` | the parallel pass over memory |

mod find;
mod found;
mod keys;
mod mail;
mod names;
mod numbers;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

pub(crate) use scan::Distinct;
pub use scan::{SecretHit, SecretScan};
