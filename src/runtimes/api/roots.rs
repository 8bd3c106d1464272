//! GC roots: references that keep objects alive from outside the heap.

use std::fmt;

use crate::addr::Addr;
use crate::units::count;

/// Kind of a root. The order is that of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// A kind that only one runtime has: its index and name, such as `StrongHandle`.
    Of(u8, &'static str),
    /// A reference in heap memory that is never collected ([`Generation::frozen`]). The walk finds these; they are not
    /// among the roots that a runtime returns.
    ///
    /// [`Generation::frozen`]: crate::runtimes::api::Generation::frozen
    Frozen,
    /// A slot of a managed frame found through the runtime's GC maps, or an entry in a thread's list.
    Stack,
    /// A word on a thread's stack or in a register that may be a reference.
    StackWord,
}

/// Objects whose finalizers are due, in .NET.
pub(crate) const FINALIZER_QUEUE: RootKind = RootKind::Of(u8::MAX, "FinalizerQueue");

impl RootKind {
    /// Name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            RootKind::Of(_, name) => name,
            RootKind::Frozen => "FrozenSegment",
            RootKind::Stack => "Stack",
            RootKind::StackWord => "Stack (conservative)",
        }
    }
}

/// A frame that contains a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefFrame {
    /// Code address: a return address, unless `exact`.
    pub ip: Addr,
    /// Stack pointer of the frame.
    pub sp: Addr,
    /// Whether `ip` is where execution was interrupted.
    pub exact: bool,
}

/// Position of a reference in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSlotLocation {
    /// In this register.
    Register(&'static str),
    /// On the stack: the slot's address, and the base register and offset by which the method addresses it.
    Stack(Addr, &'static str, i64),
}

/// The format of SOS: `rbx`, `rbp-28`. The offset is hexadecimal.
impl fmt::Display for FrameSlotLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameSlotLocation::Register(name) => f.write_str(name),
            FrameSlotLocation::Stack(_, base, distance) => {
                let sign = if distance < 0 { '-' } else { '+' };
                write!(f, "{base}{sign}{:x}", distance.unsigned_abs())
            }
        }
    }
}

/// Position of a reference that belongs to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefLocation {
    /// A slot of a managed frame.
    Slot(FrameSlotLocation),
    /// An entry in one of the runtime's lists: its address, and the list.
    Listed(Addr, &'static str),
}

/// A reference from outside the heap that keeps an object alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Kind of the root.
    pub kind: RootKind,
    /// Address of the reference. For a register, the stack pointer of its frame or thread.
    pub address: Addr,
    /// The referenced object.
    pub object: Addr,
    /// System thread ID. `None` if the root belongs to no thread.
    pub thread: Option<u32>,
    /// The register that contains the reference. `None` if it is in memory.
    pub register: Option<&'static str>,
    /// The frame that contains the reference. Only for stack roots.
    pub frame: Option<RefFrame>,
    /// Position within the frame or list. Only for stack roots.
    pub location: Option<RefLocation>,
    /// Whether the reference may point into the object instead of to its start. Only for stack roots.
    pub interior: bool,
    /// Whether the object is pinned. Only for stack roots.
    pub pinned: bool,
    /// Number of static-variable arrays at the start of paths from this root. 1 if the object is such an array, 2 if
    /// that array contains further ones.
    pub static_arrays: u8,
}

impl Root {
    /// Creates a root with all optional fields empty.
    pub fn new(kind: RootKind, address: Addr, object: Addr) -> Root {
        Root {
            kind,
            address,
            object,
            thread: None,
            register: None,
            frame: None,
            location: None,
            interior: false,
            pinned: false,
            static_arrays: 0,
        }
    }
}

/// How thread stacks were searched for references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCoverage {
    /// Number of threads whose stacks were read.
    pub threads: u64,
    /// Number of managed frames whose references come from the runtime's GC maps.
    pub frames_precise: u64,
    /// Number of managed frames in which every word was treated as a reference.
    pub frames_conservative: u64,
    /// Reasons for treating stack words as references, each with its number of threads.
    pub conservative: Vec<(&'static str, u64)>,
}

/// All GC roots, and how the stacks were read.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// All roots of the runtime.
    pub all: Vec<Root>,
    /// Messages about roots that could not be read.
    pub notes: Vec<String>,
    /// Kinds of roots that could not be read, or only in part, such as `GC handles`. What only these roots retain
    /// looks unreachable.
    pub missing: Vec<String>,
    /// Number of slots in managed frames whose reference points to no object.
    pub stray: u64,
    /// How the stacks were read.
    pub stacks: StackCoverage,
}

impl Roots {
    /// Records that these roots could not be read.
    pub fn lacks(&mut self, roots: impl Into<String>) {
        self.missing.push(roots.into());
    }

    /// Records the number of managed threads whose stacks could not be read.
    pub fn lacks_stacks(&mut self, threads: u64) {
        if threads > 0 {
            self.lacks(format!("stacks of {}", count(threads, "thread")));
        }
    }
}
