//! Finds secrets in memory: keys, tokens, passwords, card numbers. The secret itself is never stored. A hit has an
//! address, a kind, and a hash under a key of this run.
//!
//! ```text
//! Target -> Spans -> windows -> texts (ASCII; UTF-16LE decoded) -> candidates (one automaton) -> checked -> hits
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `text` | text among bytes, in both encodings |
//! | `find` | the keywords of secrets, each with its check |
//! | `matches` | a secret in a text, and the choice between overlapping ones |
//! | `keys`, `tokens`, `names`, `numbers`, `mail` | the checks |
//! | `scan` | the parallel pass over memory |

mod find;
mod keys;
mod mail;
mod matches;
mod names;
mod numbers;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

pub use scan::Distinct;
pub use scan::{SecretHit, SecretScan};
