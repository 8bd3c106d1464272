//! Where in memory some text or bytes are: one pass over what the core holds.
//!
//! ```text
//! text, --hex or --regex -> Pattern (needles: UTF-8, UTF-16LE or bytes)
//! Core -> Spans (contiguous memory, holes known) -> tasks -> windows -> hits
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `pattern` | what a person asks for, checked and compiled |
//! | `error` | why a pattern can't be searched for |
//! | `hex` | bytes with wildcards, as text |
//! | `utf16` | a regular expression turned into one over UTF-16LE bytes |
//! | `needle` | one thing to look for, and how to find it in a block |
//! | `gate` | a quick look at a chunk that rules most of them out |
//! | `window` | what is searched in one go, and how far around a match it reaches |
//! | `spans` | dumped memory as contiguous spans, cut into windows |
//! | `scan` | the parallel pass, and which hits are kept |
//! | `secrets` | keys, tokens, passwords and the like, by their forms |

mod error;
mod gate;
mod hex;
mod needle;
mod pattern;
#[cfg(test)]
mod random;
mod scan;
pub mod secrets;
mod spans;
#[cfg(test)]
mod testcore;
#[cfg(test)]
mod tests;
mod utf16;
mod window;

pub use error::PatternError;
pub use needle::HitEncoding;
pub use pattern::{Encoding, Pattern, PatternOptions};
pub use scan::{Hit, search};
