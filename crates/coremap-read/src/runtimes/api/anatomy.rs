//! Meaning of the bytes of objects, so that `shrink --scrub` can separate a runtime's structures from the program's
//! values.
//!
//! Scrubbing is an allow list: it overwrites every byte that no rule names. A runtime supplies its rules as an
//! [`Anatomy`]. Without one, the values and sizes of its objects are overwritten, and a warning says so.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{Object, TypeIndex};

/// Meaning of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The runtime's own data: counts, lengths, types, flags, references.
    Structure,
    /// A name that reports print: bytes per unit of text, and whether the name comes from the runtime's own library.
    Name(u8, bool),
    /// The program's data, whatever it looks like.
    Value,
    /// Text of the program: bytes per unit of text.
    Text(u8),
    /// An object whose address reveals its value, such as a small integer. References to it may be redirected to the
    /// object at this address.
    Interchangeable(Addr),
}

/// The bytes of a type's objects that are structure. All other bytes are values.
#[derive(Clone, Debug, Default)]
pub struct ScrubRule {
    /// Bytes before an object that belong to it, at most 8.
    pub prefix: u64,
    /// Length of the header in bytes. An array's header ends with its 32-bit length.
    pub head: u64,
    /// Offset from which the object consists of references only. `None` if there is no such offset.
    pub references: Option<u64>,
    /// Fields that are structure: offset and size in bytes.
    pub fields: Vec<(u64, u64)>,
    /// Whether objects of the type have no elements. Their fields may then stay if reports read them (threads, locks,
    /// tasks).
    pub is_plain: bool,
    /// Whether this is a string type.
    pub is_string: bool,
    /// Whether [`Anatomy::special`] must be called for each object.
    pub is_special: bool,
}

/// Rules by type. Objects of other types are overwritten entirely.
pub type ScrubRules = HashMap<TypeIndex, ScrubRule>;

/// Size in bytes of an array's length, which ends the header.
#[doc(hidden)]
pub const ARRAY_LENGTH_SIZE: u64 = 4;

/// Rules for scrubbing the objects of a runtime.
///
/// A runtime supplies them in one of two ways. If a heap walk finds each object by its start, [`Anatomy::rules`]
/// returns rules by type. If objects are anywhere in arenas, malloc blocks and program files, [`Anatomy::scattered`]
/// describes them.
pub trait Anatomy: Sync {
    /// What stays of the objects of each type. `None` if the runtime implements [`Anatomy::scattered`].
    fn rules(&self) -> Option<ScrubRules> {
        None
    }

    /// Texts that stay. They include `shown`, the thread names that reports print.
    fn names(&self, shown: &HashSet<String>) -> HashSet<String> {
        shown.clone()
    }

    /// Calls `keep` with the start and length of each range that stays, for an object whose rule [is
    /// special](ScrubRule::is_special). `is_object` returns whether an object begins at an address.
    fn special(&self, _object: &Object, _is_object: &dyn Fn(Addr) -> bool, _keep: &mut dyn FnMut(Addr, u64)) {}

    /// Whether a word that points into the heap is an address only if an object begins there. 32-bit references need
    /// this, because any 32-bit number points into such a heap.
    fn only_starts_are_addresses(&self) -> bool {
        false
    }

    /// Describes objects that may be anywhere. `visit` receives all names, and all bytes that are outside the block of
    /// the object that describes them. The returned value describes the other bytes. Bytes that neither describes are
    /// unknown. `shown` is as in [`Anatomy::names`].
    fn scattered<'a>(
        &'a self,
        _shown: &HashSet<String>,
        _visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
    ) -> Option<Box<dyn Scattered + 'a>> {
        None
    }

    /// Names from the runtime's own library, which `--scrub=names` does not replace.
    fn public_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Name of the runtime for a warning, if `--scrub=names` cannot replace its names yet. `None` if it can.
    fn names_stay(&self) -> Option<&'static str> {
        None
    }
}

/// Objects that may be anywhere. Bytes are described on demand, because a set of all of them would need a quarter of
/// the heap's size.
pub trait Scattered: Send + Sync {
    /// Visits the described bytes of `range`, and some bytes around it.
    fn each_in(&self, range: AddrRange, visit: &mut dyn FnMut(AddrRange, Meaning));
}
