//! The stack of each thread, the stacks it is on besides, and the stacks of threads
//! that are gone.
//!
//! `space`: which memory a stack can lie in. `find`: what control blocks, signal frames
//! and Go's structures tell. `guess`: threads of which none of these tells, once it is
//! known what other memory is. `claim`: what the map is told.

mod claim;
mod find;
mod go;
mod guess;
mod space;

use std::collections::{BTreeSet, HashMap};

use crate::addr::{Addr, AddrRange};
use crate::map::Confidence;
use crate::native::stack_records::RecordLayout;
pub use crate::words::StackState;

pub use claim::claim;
pub use find::find;
pub use guess::guess;

/// Below the stack pointer, a leaf function may still use this much (System V
/// ABI for x86_64, the red zone).
pub const RED_ZONE: u64 = 128;

/// One stack.
#[derive(Clone, Debug)]
pub struct ThreadStack {
    /// The thread that uses it; `None` for a cached stack.
    pub tid: Option<u32>,
    /// What it is used for.
    pub state: StackState,
    /// From above the guard up to where the thread began.
    pub stack: AddrRange,
    /// The low end of `stack` that may not be touched: guard pages that a runtime keeps
    /// within it (HotSpot's yellow and red zones); empty where there are none.
    pub zone: AddrRange,
    /// Guard below it, if any.
    pub guard: Option<AddrRange>,
    /// All that was mapped for it (TLS and control block too).
    pub mapped: AddrRange,
    /// Down to where it is in use: the thread's stack pointer, or where a signal
    /// interrupted what runs on this stack. `None` where that is not known.
    pub sp: Option<Addr>,
    /// The thread's control block in it, with the fields that a C library has below it: what a stack that is kept for reuse still
    /// has in use. `None` where it has none, or that is not known.
    pub control: Option<Addr>,
    /// Whether the thread's own stack pointer is in it.
    pub current: bool,
    /// How sure.
    pub confidence: Confidence,
    /// How it is known.
    pub source: String,
}

impl ThreadStack {
    /// The part that nobody uses any more: below the stack pointer, or up to the control block where the thread ended.
    pub fn left_over(&self) -> AddrRange {
        let to = match self.tid {
            Some(_) => self.sp.unwrap_or(self.stack.start),
            None => self.control.unwrap_or(self.stack.end),
        };
        AddrRange::new(self.stack.start, to.clamp(self.stack.start, self.stack.end))
    }
}

/// All stacks of the process: those of live threads in the core's order, each followed
/// by the others that the thread is on; then cached ones.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The stacks.
    pub list: Vec<ThreadStack>,
    /// Threads for which none was found: with their stack pointers, and why.
    pub without: Vec<Lost>,
    /// Threads whose stacks the core has as zeros, though they run on them: what they held is lost.
    pub blank: BTreeSet<u32>,
    /// Places in the list of each thread's stacks, its own first.
    by_tid: HashMap<u32, Vec<usize>>,
    /// Where control blocks keep their stack, if that was found.
    pub(crate) layout: Option<RecordLayout>,
    /// Stack pointers that no structure tells a stack of.
    adrift: Vec<Adrift>,
}

/// A thread without a stack.
#[derive(Clone, Debug)]
pub struct Lost {
    /// The thread.
    pub tid: u32,
    /// Where its stack should be.
    pub sp: Addr,
    /// What is there instead.
    pub why: String,
}

/// A stack pointer without a stack.
#[derive(Clone, Copy, Debug)]
struct Adrift {
    tid: u32,
    sp: Addr,
    /// Whether it is the thread's own, and not what a signal interrupted.
    current: bool,
    /// Whether the thread's own stack is known, so that this is another.
    has_own: bool,
}

impl Stacks {
    /// The stack that a live thread was made with.
    pub fn of(&self, tid: u32) -> Option<&ThreadStack> {
        self.used_by(tid).find(|s| s.state.is_own())
    }

    /// All stacks that a live thread is on, its own first.
    pub fn used_by(&self, tid: u32) -> impl Iterator<Item = &ThreadStack> {
        self.by_tid.get(&tid).into_iter().flatten().filter_map(|&i| self.list.get(i))
    }

    /// That of a live thread's stacks which holds an address.
    pub fn at(&self, tid: u32, addr: Addr) -> Option<&ThreadStack> {
        self.used_by(tid).find(|s| s.stack.contains(addr))
    }

    fn push(&mut self, stack: ThreadStack) {
        if let Some(tid) = stack.tid {
            self.by_tid.entry(tid).or_default().push(self.list.len());
        }
        self.list.push(stack);
    }

    /// Set those of one thread side by side again, in the order of the threads.
    fn order(&mut self, tids: impl Iterator<Item = u32>) {
        let place: HashMap<u32, usize> = tids.enumerate().map(|(i, tid)| (tid, i)).collect();
        let key =
            |s: &ThreadStack| (s.tid.and_then(|t| place.get(&t)).copied().unwrap_or(usize::MAX), !s.state.is_own());
        self.list.sort_by_key(key);
        self.by_tid.clear();
        for (i, stack) in self.list.iter().enumerate() {
            if let Some(tid) = stack.tid {
                self.by_tid.entry(tid).or_default().push(i);
            }
        }
    }
}
