//! Finds text or bytes in memory, in one pass over the memory in the core.
//!
//! ```text
//! text, --hex or --regex -> Pattern (needles: UTF-8, UTF-16LE or bytes)
//! Core -> Spans (contiguous memory, holes known) -> tasks -> windows -> hits
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `pattern` | checks and compiles a pattern |
//! | `error` | the reasons why a pattern can't be searched for |
//! | `hex` | bytes with wildcards, as text |
//! | `utf16` | turns a regular expression into one over UTF-16LE bytes |
//! | `needle` | one encoded form of a pattern, and the search for it in a block |
//! | `prefilter` | a prefilter that excludes most chunks |
//! | `window` | the bytes searched at once, with the context that a match needs |
//! | `spans` | dumped memory as contiguous spans, divided into windows |
//! | `scan` | the parallel pass, and the selection of hits |
//! | `secrets` | keys, tokens, passwords and other secrets, by their forms |

mod error;
mod hex;
mod needle;
mod pattern;
mod prefilter;
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
