//! Roots, and the way from one to an object.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// How threads' stacks were read for roots.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackRootsRow {
    /// Managed threads whose stacks were followed.
    pub threads: u64,
    /// Managed frames whose references are known by their GC info.
    pub frames_precise: u64,
    /// Managed frames of which all words may be references.
    pub frames_conservative: u64,
    /// Roots by GC info, and from lists of the runtime's.
    pub roots_precise: u64,
    /// Words and registers that lead into objects, in parts of which no more is
    /// known: some are no roots.
    pub roots_conservative: u64,
    /// Slots that GC info names and that hold no object's address.
    pub stray: u64,
    /// Why parts of stacks were taken word by word.
    pub conservative: Vec<StretchRow>,
}

impl StackRootsRow {
    /// With those of another runtime.
    pub fn merge(&mut self, other: &StackRootsRow) {
        self.threads += other.threads;
        self.frames_precise += other.frames_precise;
        self.frames_conservative += other.frames_conservative;
        self.roots_precise += other.roots_precise;
        self.roots_conservative += other.roots_conservative;
        self.stray += other.stray;
        self.conservative.extend(other.conservative.iter().cloned());
    }
}

/// Why parts of stacks were taken word by word.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StretchRow {
    /// In a sentence.
    pub why: &'static str,
    /// On how many threads' stacks.
    pub threads: u64,
}

/// A path from a root.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootPathRow {
    /// In the runtime's own words: StrongHandle, PinnedHandle, ThreadStatics, FinalizerQueue, Stack, Stack (conservative), …
    pub root_kind: String,
    /// Where the root is; for a register, the stack pointer of its frame, or of
    /// its thread.
    pub root_address: Addr,
    /// The thread that it is of.
    pub thread: Option<u32>,
    /// The register that it is, by the machine's name of it.
    pub register: Option<&'static str>,
    /// Of a stack: whether GC info says that it is a reference; `false`: the word
    /// is the address of an object, which may be chance. `null` for other roots.
    pub precise: Option<bool>,
    /// Of a stack, if precise: where its frame has it, as SOS writes it: `rbx`,
    /// `rbp-28` (hexadecimal).
    pub slot: Option<String>,
    /// Of a stack, if precise: its frame.
    pub frame: Option<RootFrameRow>,
    /// Of a stack: whether it may lead into the object, and not to its start.
    pub interior: bool,
    /// Of a stack: whether the object must not be moved.
    pub pinned: bool,
    /// From the root's object to the one asked for.
    pub chain: Vec<ChainRow>,
}

/// The frame that holds a root.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootFrameRow {
    /// Its stack pointer.
    pub sp: Addr,
    /// Its instruction pointer.
    pub ip: Addr,
    /// Its method; `null` where that has no name.
    pub method: Option<String>,
}

/// An object on a path.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ChainRow {
    /// Where.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its field, or element, that leads to the next one.
    pub field: Option<Name>,
}
