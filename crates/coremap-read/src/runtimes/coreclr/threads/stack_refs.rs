//! References on thread stacks.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{RefFrame, RefLocation};

/// A reference on a stack, from GC info or a list of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRef {
    /// Frame with the reference. `None` for references of the runtime itself.
    pub frame: Option<RefFrame>,
    /// Register, stack slot or list entry.
    pub place: RefLocation,
    /// Value of the reference.
    pub value: u64,
    /// Whether it may be an interior pointer, or point outside the heap.
    pub interior: bool,
    /// Whether the object must not be moved.
    pub pinned: bool,
}

/// Part of a stack in which any word may be a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConservativeRange {
    /// Addresses of the words.
    pub range: AddrRange,
    /// Reason why there is no better information.
    pub why: &'static str,
}

/// References of one thread.
#[derive(Clone, Debug, Default)]
pub struct StackRefs {
    /// System thread id.
    pub thread: u32,
    /// Stack pointer of the innermost frame.
    pub sp: Addr,
    /// Precise references.
    pub precise: Vec<StackRef>,
    /// Parts in which any word may be a reference.
    pub conservative: Vec<ConservativeRange>,
    /// Registers that may have a reference.
    pub registers: Vec<(&'static str, u64)>,
    /// Number of managed frames read with GC info, and of those read without.
    pub frames: (u64, u64),
}
