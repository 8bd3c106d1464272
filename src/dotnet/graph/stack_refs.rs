//! What threads' stacks hold, as those tell who walk them.

use crate::addr::{Addr, AddrRange};
use crate::dotnet::methods::SlotPlace;

/// The frame that holds a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefFrame {
    /// Where its code is: a return address, unless `exact`.
    pub ip: Addr,
    /// Its stack pointer.
    pub sp: Addr,
    /// Whether `ip` is where it was interrupted.
    pub exact: bool,
}

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

/// Where a reference of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefPlace {
    /// A slot of a managed frame.
    Slot(SlotPlace),
    /// Named in a list of the runtime's: address, and which list.
    Listed(Addr, &'static str),
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
