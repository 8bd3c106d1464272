//! Roots, and paths from a root to an object.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;
use crate::sums::SaturatingAdd;

/// How thread stacks were searched for roots.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackRootsRow {
    /// Number of managed threads whose stacks were unwound.
    pub threads: u64,
    /// Managed frames whose references come from GC info.
    pub frames_precise: u64,
    /// Managed frames in which every word may be a reference.
    pub frames_conservative: u64,
    /// Roots from GC info and from the runtime's lists.
    pub roots_precise: u64,
    /// Words and registers that point into objects, without further evidence. Some are not roots.
    pub roots_conservative: u64,
    /// Slots named by GC info that do not contain the address of an object.
    pub stray: u64,
    /// Why parts of stacks were searched word by word.
    pub conservative: Vec<StretchRow>,
}

impl StackRootsRow {
    /// Adds the figures of another runtime.
    pub fn merge(&mut self, other: &StackRootsRow) {
        self.threads.add_saturating(other.threads);
        self.frames_precise.add_saturating(other.frames_precise);
        self.frames_conservative.add_saturating(other.frames_conservative);
        self.roots_precise.add_saturating(other.roots_precise);
        self.roots_conservative.add_saturating(other.roots_conservative);
        self.stray.add_saturating(other.stray);
        self.conservative.extend(other.conservative.iter().cloned());
    }
}

/// Why parts of stacks were searched word by word.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StretchRow {
    /// The reason, in a sentence.
    pub why: &'static str,
    /// Number of threads.
    pub threads: u64,
}

/// A path from a root.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootPathRow {
    /// Kind of root, as the runtime names it: StrongHandle, PinnedHandle, ThreadStatics, FinalizerQueue, Stack, Stack
    /// (conservative), …
    pub root_kind: String,
    /// Address of the root; for a register, the stack pointer of its frame or thread.
    pub root_address: Addr,
    /// What the object of the root represents: a thread, with its name. `null` for an ordinary object.
    pub root_name: Option<String>,
    /// Thread of the root.
    pub thread: Option<u32>,
    /// Register that contains the root, by its name in the architecture.
    pub register: Option<&'static str>,
    /// For a stack root: whether GC info identifies it as a reference. `false`: the word is the address of an object,
    /// which may be chance. `null` for other roots.
    pub precise: Option<bool>,
    /// For a precise stack root: its slot in the frame, as SOS writes it: `rbx`, `rbp-28` (hexadecimal).
    pub slot: Option<String>,
    /// For a precise stack root: its frame.
    pub frame: Option<RootFrameRow>,
    /// For a stack root: whether it may point into the object instead of to its start.
    pub interior: bool,
    /// For a stack root: whether it pins the object.
    pub pinned: bool,
    /// Objects from the root's object to the requested one.
    pub chain: Vec<ChainRow>,
}

/// The frame that contains a root.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootFrameRow {
    /// Stack pointer.
    pub sp: Addr,
    /// Instruction pointer.
    pub ip: Addr,
    /// Method. `null` if it has no name.
    pub method: Option<String>,
}

/// An object on a path.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ChainRow {
    /// Address.
    pub object: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field or element that leads to the next object.
    pub field: Option<Name>,
}
