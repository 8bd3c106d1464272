//! What keeps objects alive from outside the heap, in words that any runtime can use.

use std::fmt;

use crate::addr::Addr;

/// What kind of root it is. In the order in which kinds are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// One of the runtime's own kinds: its place among them, and its name, as
    /// `StrongHandle`.
    Of(u8, &'static str),
    /// A place in memory of the heap that is never collected ([`Generation::frozen`]);
    /// found by the walk, and not among a runtime's roots.
    ///
    /// [`Generation::frozen`]: crate::managed::Generation::frozen
    Frozen,
    /// A slot of a managed frame that the runtime's maps tell of, or of a list of a thread's.
    Stack,
    /// A word of a thread's stack, or one of its registers, that may be a reference.
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

/// Where a frame holds a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSlotPlace {
    /// In a register.
    Register(&'static str),
    /// On the stack: where, and how its method finds it: a register and a distance.
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

/// Where a reference of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefPlace {
    /// A slot of a managed frame.
    Slot(FrameSlotPlace),
    /// Named in a list of the runtime's: address, and which list.
    Listed(Addr, &'static str),
}

/// Something that keeps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it is.
    pub kind: RootKind,
    /// Where it stands; for a register, the stack pointer of its frame, or of its thread.
    pub address: Addr,
    /// The object.
    pub object: Addr,
    /// The thread it is of, by the system's number.
    pub thread: Option<u32>,
    /// The register that it is.
    pub register: Option<&'static str>,
    /// Of a stack: the frame that holds it.
    pub frame: Option<RefFrame>,
    /// Of a stack: how it is known.
    pub place: Option<RefPlace>,
    /// Of a stack: whether it may lead into the object, and not to its start.
    pub interior: bool,
    /// Of a stack: whether the object must not be moved.
    pub pinned: bool,
    /// How many arrays of static variables stand first on a path from it: 1 where its
    /// object is one, 2 where that holds others.
    pub static_arrays: u8,
}

impl Root {
    /// A root of which no more is known.
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
    /// Threads looked at.
    pub threads: u64,
    /// Managed frames whose references the runtime's own maps tell.
    pub frames_precise: u64,
    /// Managed frames all of whose words were taken for references.
    pub frames_conservative: u64,
    /// Why parts of a stack were taken word by word, and on how many threads.
    pub conservative: Vec<(&'static str, u64)>,
}

/// All roots, and what was known of the stacks.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The roots.
    pub all: Vec<Root>,
    /// What could not be read, in words.
    pub notes: Vec<String>,
    /// Slots of managed frames that hold a reference, but no object is there.
    pub stray: u64,
    /// How stacks were read.
    pub stacks: StackCoverage,
}
