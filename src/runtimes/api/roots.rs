//! GC roots: references that keep objects alive from outside the heap.

use std::fmt;

use crate::addr::Addr;

/// Kind of a root, in output order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// A kind of one runtime: its index and name, such as `StrongHandle`.
    Of(u8, &'static str),
    /// A place in memory of the heap that is never collected ([`Generation::frozen`]);
    /// found by the walk, and not among a runtime's roots.
    ///
    /// [`Generation::frozen`]: crate::runtimes::api::Generation::frozen
    Frozen,
    /// A slot of a managed frame found through the runtime's maps, or in a list of a thread.
    Stack,
    /// A word on a thread's stack or in a register that may be a reference.
    StackWord,
}

impl RootKind {
    /// Its name.
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
    /// Its stack pointer.
    pub sp: Addr,
    /// Whether `ip` is where it was interrupted.
    pub exact: bool,
}

/// Position of a reference in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSlotPlace {
    /// In a register.
    Register(&'static str),
    /// On the stack: its address, and the base register and offset by which its method finds it.
    Stack(Addr, &'static str, i64),
}

/// As SOS writes it: `rbx`, `rbp-28` (the distance is hexadecimal).
impl fmt::Display for FrameSlotPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameSlotPlace::Register(name) => f.write_str(name),
            FrameSlotPlace::Stack(_, base, distance) => {
                let sign = if distance < 0 { '-' } else { '+' };
                write!(f, "{base}{sign}{:x}", distance.unsigned_abs())
            }
        }
    }
}

/// Position of a thread's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefPlace {
    /// A slot of a managed frame.
    Slot(FrameSlotPlace),
    /// Named in a runtime list: address, and which list.
    Listed(Addr, &'static str),
}

/// A reference that keeps an object alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it is.
    pub kind: RootKind,
    /// Address of the reference. For a register, the stack pointer of its frame or thread.
    pub address: Addr,
    /// The object.
    pub object: Addr,
    /// ID of its thread, in the system's numbering.
    pub thread: Option<u32>,
    /// The register that contains it.
    pub register: Option<&'static str>,
    /// On a stack: the frame that contains it.
    pub frame: Option<RefFrame>,
    /// On a stack: how it was found.
    pub place: Option<RefPlace>,
    /// On a stack: whether it may point into the object instead of to its start.
    pub interior: bool,
    /// On a stack: whether the object is pinned.
    pub pinned: bool,
    /// Number of arrays of static variables at the start of its paths: 1 if its object is such an array, 2 if
    /// that array contains others.
    pub static_arrays: u8,
}

impl Root {
    /// Creates a root without further details.
    pub fn new(kind: RootKind, address: Addr, object: Addr) -> Root {
        Root {
            kind,
            address,
            object,
            thread: None,
            register: None,
            frame: None,
            place: None,
            interior: false,
            pinned: false,
            static_arrays: 0,
        }
    }
}

/// How threads' stacks were read for references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCoverage {
    /// Threads whose stacks were read.
    pub threads: u64,
    /// Managed frames whose references come from the runtime's own maps.
    pub frames_precise: u64,
    /// Managed frames in which every word was treated as a reference.
    pub frames_conservative: u64,
    /// Reasons for treating stack words as references, with the number of threads.
    pub conservative: Vec<(&'static str, u64)>,
}

/// All roots, and how the stacks were read.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The roots.
    pub all: Vec<Root>,
    /// What could not be read, in words.
    pub notes: Vec<String>,
    /// Slots of managed frames whose references point to no object.
    pub stray: u64,
    /// How stacks were read.
    pub stacks: StackCoverage,
}
