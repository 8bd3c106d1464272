//! What threads' stacks hold, as those tell who walk them.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{RefFrame, RefPlace};

/// A reference that GC info tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRef {
    /// The frame that holds it; none where it is the runtime's own.
    pub frame: Option<RefFrame>,
    /// Where.
    pub place: RefPlace,
    /// What is there.
    pub value: u64,
    /// Whether that may lead into an object, or out of the heap.
    pub interior: bool,
    /// Whether the object must not be moved.
    pub pinned: bool,
}

/// Part of a stack whose words may all be references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub range: AddrRange,
    /// Why no more is known of it.
    pub why: &'static str,
}

/// The references of one thread.
#[derive(Clone, Debug, Default)]
pub struct StackRefs {
    /// Its number.
    pub thread: u32,
    /// Where its stack begins.
    pub sp: Addr,
    /// What is known.
    pub known: Vec<StackRef>,
    /// Where all words may be references.
    pub stretches: Vec<Stretch>,
    /// Registers that may hold one.
    pub registers: Vec<(&'static str, u64)>,
    /// Managed frames read by GC info, and those that were not.
    pub frames: (u64, u64),
}
