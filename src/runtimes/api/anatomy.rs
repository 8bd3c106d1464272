//! What the bytes of objects mean, so that `shrink --scrub` can tell a runtime's structures from the program's values.
//!
//! Scrubbing is an allow list: it overwrites every byte that no rule names. A runtime supplies its rules as an
//! [`Anatomy`]. Without one, the values and sizes of its objects are overwritten, and a warning says so.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{Object, TypeIndex};

/// What bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The runtime's: counts, lengths, types, flags, references.
    Structure,
    /// A name that answers print, in units of so many bytes, and whether it comes from the runtime's own library.
    Name(u8, bool),
    /// The program's, whatever it looks like.
    Value,
    /// Characters of the program's, in units of so many bytes.
    Text(u8),
    /// An object whose address shows its value, as a small integer's does: any reference to it may lead to the object
    /// at this address instead.
    Alike(Addr),
}

/// Which bytes of a type's objects are structure. All others are values.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Bytes before an object that are part of it: at most 8.
    pub prefix: u64,
    /// Bytes of its head. An array's head ends with its length, which has 32 bits.
    pub head: u64,
    /// From this offset on, all of it is references.
    pub references: Option<u64>,
    /// Fields: offset and bytes.
    pub fields: Vec<(u64, u64)>,
    /// Whether it has no elements: then its fields may stay where answers read them as fields of threads, locks and
    /// tasks.
    pub is_plain: bool,
    /// Whether it is a string.
    pub is_string: bool,
    /// Whether [`Anatomy::special`] must be asked about each object.
    pub is_special: bool,
}

/// Forms by type. Objects of types that are missing are overwritten as a whole.
pub type Forms = HashMap<TypeIndex, Form>;

/// Bytes of an array's length, at the end of its head.
pub(crate) const LENGTH: u64 = 4;

/// What the bytes of a runtime's objects mean.
///
/// There are two ways to answer. If the walk over the heap finds each object by its start, [`Anatomy::forms`] says by
/// type what stays. If objects lie anywhere, in arenas, malloc blocks and program files, [`Anatomy::scattered`] does.
pub trait Anatomy: Sync {
    /// What stays of the objects of each type; `None` if [`Anatomy::scattered`] answers.
    fn forms(&self) -> Option<Forms> {
        None
    }

    /// Texts that stay beside `shown`, the names of threads that answers print.
    fn names(&self, shown: &HashSet<String>) -> HashSet<String> {
        shown.clone()
    }

    /// Keep bytes of an object whose form [is special](Form::is_special). `is_object`: whether an object begins at an
    /// address; `keep` takes a start and a number of bytes.
    fn special(&self, _object: &Object, _is_object: &dyn Fn(Addr) -> bool, _keep: &mut dyn FnMut(Addr, u64)) {}

    /// Whether a word that leads into the heap is an address only if an object begins there. References of 32 bits
    /// need this: any number of their size leads into such a heap.
    fn only_starts_are_addresses(&self) -> bool {
        false
    }

    /// What objects mean that lie anywhere. `visit` gets all names, and all bytes outside the block of the object that
    /// describes them; the answer describes the others. Bytes that neither visits are unknown. `shown`: as in
    /// [`Anatomy::names`].
    fn scattered<'a>(
        &'a self,
        _shown: &HashSet<String>,
        _visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
    ) -> Option<Box<dyn Scattered + 'a>> {
        None
    }

    /// Names of the runtime's own library, which `--scrub=names` leaves as they are.
    fn public_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// What to call the runtime if `--scrub=names` can't replace its names yet; `None` if it can.
    fn names_stay(&self) -> Option<&'static str> {
        None
    }
}

/// Objects that lie anywhere. Bytes are described on demand: a set of all of them would take a quarter of the heap.
pub trait Scattered: Send + Sync {
    /// Visit what is known of `range`, and of some bytes around it.
    fn each_in(&self, range: AddrRange, visit: &mut dyn FnMut(AddrRange, Meaning));
}
