//! A core without what was in the process's variables: an allow list of bytes that stay as they are, and a filling for all
//! others ([docs/sharing.md](https://docs.rs/coremap)).
//!
//! | file | holds |
//! |---|---|
//! | `plan` | which bytes stay: what was read as structure, by what the memory is for |
//! | `objects` | what is known of managed objects |
//! | `heaps` | heads of objects, and where strings have their characters |
//! | `starts` | where objects begin |
//! | `scattered` | the same for objects that lie anywhere |
//! | `blocks` | heads of malloc's blocks, and its lists |
//! | `stacks` | heads of signal frames, control blocks of threads |
//! | `debuggers` | what debuggers need of the vdso and of glibc |
//! | `fill` | what stands for a word, and for the characters of a string |
//! | `left` | texts that are left |
//! | `apply` | a run of memory, overwritten |
//! | `words` | the same word by word, but for the characters of strings |
//! | `addresses` | whether a word is taken for an address |
//! | `page` | what is known of the words of a page |
//! | `letters` | whether a word reads as a text |
//! | `counts` | which rule each byte went by |
//! | `names` | the program's own names, mapped to others |
//! | `rule` | what is overwritten, rule by rule |
//! | `notes` | the same for ELF notes |
//!
//! It fails closed: what no rule names is overwritten, whatever it is.

mod addresses;
mod apply;
mod blocks;
mod counts;
mod debuggers;
mod fill;
mod heaps;
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
pub use left::{Encoding, LeftTexts, Places, Runs};
pub use names::{Names, unmapped};
pub use notes::notes;
pub use plan::{Level, Plan};
pub use rule::Rule;
