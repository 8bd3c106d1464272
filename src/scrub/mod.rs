//! Overwrites the process's values in a core: an allow list of bytes that stay, and replacements for all others
//! ([docs/sharing.md](https://docs.rs/coremap)).
//!
//! | file | contents |
//! |---|---|
//! | `plan` | which bytes stay: those that were read as structure, by the use of their memory |
//! | `objects` | managed objects |
//! | `heaps` | object headers, and the characters of strings |
//! | `starts` | start addresses of objects |
//! | `scattered` | objects outside of heaps |
//! | `blocks` | headers of malloc blocks, and malloc's lists |
//! | `stacks` | headers of signal frames, and control blocks of threads |
//! | `debuggers` | bytes of the vdso and of glibc that debuggers need |
//! | `fill` | replacements of words and of strings' characters |
//! | `left` | remaining texts |
//! | `apply` | overwrites a run of memory |
//! | `words` | overwrites words, except strings' characters |
//! | `addresses` | decides whether a word is an address |
//! | `page` | masks of a page's bytes |
//! | `letters` | decides whether a word is text |
//! | `counts` | bytes by rule |
//! | `names` | the program's own names, mapped to others |
//! | `rule` | the rules |
//! | `notes` | overwrites ELF notes |
//!
//! It fails closed: bytes that no rule preserves are overwritten.

mod addresses;
mod apply;
mod blocks;
mod counts;
mod debuggers;
mod fill;
mod heaps;
#[cfg(test)]
mod invalid_parts;
mod left;
mod letters;
mod names;
mod notes;
mod objects;
mod page;
mod plan;
mod rule;
mod scattered;
mod stacks;
mod starts;
#[cfg(test)]
mod tests;
mod words;

pub use counts::{Became, By, Counts, Kept};
pub use fill::Fill;
pub use left::{Encoding, LeftTexts, Occurrences, Runs};
pub use names::{Names, unmapped};
pub use notes::notes;
pub use plan::{Level, Plan};
pub use rule::Rule;
