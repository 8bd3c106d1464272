//! The stacks of threads: each thread's own, others that it uses, and cached stacks of ended threads.
//!
//! | file | contents |
//! |---|---|
//! | `space` | which memory can be a stack |
//! | `find` | stacks by control blocks, signal frames and Go's structures |
//! | `go` | Go's structures |
//! | `guess` | the other threads' stacks, once the use of other memory is known |
//! | `claim` | claims for the map |

mod claim;
mod find;
mod go;
mod guess;
mod space;

use std::collections::{BTreeSet, HashMap};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::map::Confidence;
use crate::native::stack_records::RecordLayout;
pub use crate::words::StackState;

pub use claim::claim;
pub use find::find;
pub use guess::guess;

/// Bytes below the stack pointer that a leaf function may use (System V ABI for x86_64, the red zone).
pub const RED_ZONE: u64 = 128;

/// A stack.
#[derive(Clone, Debug)]
pub struct ThreadStack {
    /// The thread that uses the stack. `None` for a cached stack.
    pub tid: Option<u32>,
    /// Use of the stack.
    pub state: StackState,
    /// Usable addresses, from above the guard to the stack's upper end.
    pub stack: AddrRange,
    /// The low end of `stack` that must not be accessed: guard pages of a runtime (HotSpot's yellow and red zones).
    /// Empty if there are none.
    pub zone: AddrRange,
    /// The guard below the stack.
    pub guard: Option<AddrRange>,
    /// All memory mapped for the stack, with TLS and control block.
    pub mapped: AddrRange,
    /// Lowest address in use: the thread's stack pointer, or the one that a signal interrupted on this stack. `None` if
    /// not known.
    pub sp: Option<Addr>,
    /// The thread's control block in the stack, with the fields of the C library below it. In a cached stack, only this
    /// part is in use. `None` if the stack has none, or it is not known.
    pub control: Option<Addr>,
    /// Whether the thread's own stack pointer is in this stack.
    pub current: bool,
    /// Confidence that this is a stack.
    pub confidence: Confidence,
    /// How the stack was found.
    pub source: String,
}

/// Gap that the kernel keeps below a main stack, where no other memory is mapped (stack_guard_gap in mm/mmap.c).
const STACK_GAP: u64 = 256 * PAGE;

impl ThreadStack {
    /// Whether `sp` is below the stack, in its guard. Below the main stack the kernel keeps a gap instead.
    pub fn overflowed_to(&self, sp: Addr) -> bool {
        let guard = match (self.guard, self.state) {
            (Some(guard), _) => guard,
            (None, StackState::Main) => AddrRange::new(self.stack.start.saturating_sub(STACK_GAP), self.stack.start),
            (None, _) => return false,
        };
        sp < self.stack.start && guard.contains(sp)
    }

    /// Returns the unused part: below the stack pointer, or up to the control block if the thread ended.
    pub fn left_over(&self) -> AddrRange {
        let to = match self.tid {
            Some(_) => self.sp.unwrap_or(self.stack.start),
            None => self.control.unwrap_or(self.stack.end),
        };
        AddrRange::new(self.stack.start, to.clamp(self.stack.start, self.stack.end))
    }
}

/// All stacks of the process. Live threads come first, in the core's order. Each thread's own stack is followed by the
/// others that it uses. Cached stacks come last.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The stacks.
    pub list: Vec<ThreadStack>,
    /// Threads without a stack.
    pub without: Vec<ThreadWithoutStack>,
    /// Threads with a stack whose stack pointers are in no memory that can be a stack: their registers are wrong.
    pub astray: Vec<u32>,
    /// Threads whose stacks are zero in the core although they run on them. The contents are lost.
    pub blank: BTreeSet<u32>,
    /// Indexes into `list` of each thread's stacks, its own first.
    by_tid: HashMap<u32, Vec<usize>>,
    /// Position of the stack fields in control blocks. `None` if not found.
    pub(crate) layout: Option<RecordLayout>,
    /// Stack pointers outside all stacks found through structures.
    unmatched: Vec<UnmatchedSp>,
}

/// A thread without a stack.
#[derive(Clone, Debug)]
pub struct ThreadWithoutStack {
    /// Thread id.
    pub tid: u32,
    /// The thread's stack pointer.
    pub sp: Addr,
    /// Why there is no stack.
    pub why: String,
}

/// A stack pointer outside all known stacks.
#[derive(Clone, Copy, Debug)]
struct UnmatchedSp {
    tid: u32,
    sp: Addr,
    /// Whether this is the thread's own stack pointer, and not one that a signal interrupted.
    current: bool,
    /// Whether the thread's own stack is known. This one is a further stack then.
    has_own: bool,
}

impl Stacks {
    /// Returns the stack that a live thread was created with.
    pub fn of(&self, tid: u32) -> Option<&ThreadStack> {
        self.used_by(tid).find(|s| s.state.is_own())
    }

    /// Returns all stacks of a live thread, its own first.
    pub fn used_by(&self, tid: u32) -> impl Iterator<Item = &ThreadStack> {
        self.by_tid.get(&tid).into_iter().flatten().filter_map(|&i| self.list.get(i))
    }

    /// Returns the stack of a live thread that contains `addr`.
    pub fn at(&self, tid: u32, addr: Addr) -> Option<&ThreadStack> {
        self.used_by(tid).find(|s| s.stack.contains(addr))
    }

    /// Returns the stack of a live thread that contains `addr`, or that overflowed to `addr` in its guard.
    pub fn around(&self, tid: u32, addr: Addr) -> Option<&ThreadStack> {
        self.at(tid, addr).or_else(|| self.used_by(tid).find(|s| s.overflowed_to(addr)))
    }

    fn push(&mut self, stack: ThreadStack) {
        if let Some(tid) = stack.tid {
            self.by_tid.entry(tid).or_default().push(self.list.len());
        }
        self.list.push(stack);
    }

    /// Sorts the list by thread again, in the order of `tids`, each thread's own stack first.
    fn order(&mut self, tids: impl Iterator<Item = u32>) {
        let order: HashMap<u32, usize> = tids.enumerate().map(|(i, tid)| (tid, i)).collect();
        let key =
            |s: &ThreadStack| (s.tid.and_then(|t| order.get(&t)).copied().unwrap_or(usize::MAX), !s.state.is_own());
        self.list.sort_by_key(key);
        self.by_tid.clear();
        for (i, stack) in self.list.iter().enumerate() {
            if let Some(tid) = stack.tid {
                self.by_tid.entry(tid).or_default().push(i);
            }
        }
    }
}
