//! The stack bounds in a thread's control block, which is at the thread pointer. The fields are found by conditions
//! that they must satisfy, not by version.
//!
//! glibc (nptl/descr.h, `struct pthread`): stackblock, stackblock_size, guardsize and reported_guardsize are
//! consecutive. On x86_64 the block begins at the thread pointer, on aarch64 it ends there. A `list` field links it
//! into stack_used, stack_user or stack_cache. musl (src/internal/pthread_impl.h, `struct pthread`): map_base,
//! map_size, stack, stack_size and guard_size are consecutive.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::phase::Phase;
use crate::targets::Arch;

/// The C library whose control block it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Libc {
    /// The GNU C library.
    Glibc,
    /// The musl C library.
    Musl,
}

impl Libc {
    /// Returns the library's name as shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
        }
    }
}

/// A thread's stack according to its control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRecord {
    /// The usable stack.
    pub stack: AddrRange,
    /// The guard below the stack. Empty if there is none.
    pub guard: AddrRange,
    /// All memory that the library mapped for the thread: guard, stack, TLS, control block.
    pub mapped: AddrRange,
}

/// Position of the stack fields in control blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordLayout {
    /// The library whose fields these are.
    pub libc: Libc,
    /// Bytes from the thread pointer to the first field.
    pub offset: i64,
}

/// Smallest stack in bytes that either library makes (PTHREAD_STACK_MIN is 16 KiB in glibc, 2 KiB in musl).
const MIN_STACK: u64 = 2048;

/// The words around a thread pointer.
struct Window {
    start: i64,
    bytes: Vec<u8>,
}

impl Window {
    fn read(memory: &dyn Memory, pointer: Addr) -> Window {
        let half = limits::MAX_TCB_BYTES as u64;
        // Read on both sides, up to the first unreadable memory.
        let above = memory.readable(pointer, half);
        let below = (1..=half / 4096)
            .take_while(|i| memory.readable(pointer.saturating_sub(i * 4096), 4096) == 4096)
            .count() as u64
            * 4096;
        let first = pointer.saturating_sub(below);
        Window { start: -(below as i64), bytes: memory.look(first, (below + above) as usize).unwrap_or_default() }
    }

    fn word(&self, offset: i64) -> Option<u64> {
        bytes::u64_at(&self.bytes, usize::try_from(offset - self.start).ok()?)
    }

    fn offsets(&self) -> impl Iterator<Item = i64> + use<> {
        (self.start..self.start + self.bytes.len() as i64).step_by(8)
    }
}

/// Returns where the control block of a thread may be. `pointer` is its thread pointer.
pub(super) fn search_range(pointer: Addr) -> AddrRange {
    let half = limits::MAX_TCB_BYTES as u64;
    AddrRange::new(pointer.saturating_sub(half), pointer.saturating_add(half))
}

fn page_multiple(v: u64) -> bool {
    v & 4095 == 0
}

/// Reads the fields at `layout.offset` and checks their conditions.
fn check(window: &Window, layout: RecordLayout, pointer: Addr) -> Option<StackRecord> {
    let word = |i: i64| window.word(layout.offset + 8 * i);
    match layout.libc {
        Libc::Glibc => {
            let block = AddrRange::sized(Addr::new(word(0)?), word(1)?);
            // Nearly all candidates fail here, so the other words are read later.
            if !block.contains(pointer) {
                return None;
            }
            let (guard, reported) = (word(2)?, word(3)?);
            let holds = block.start.is_aligned(8)
                && !block.start.is_null()
                && block.len() >= MIN_STACK
                && block.end.since(pointer) <= limits::MAX_ABOVE_STACK
                && page_multiple(guard)
                && guard < block.len()
                && reported <= guard.max(4096);
            let low = block.start.saturating_add(guard);
            holds.then_some(StackRecord {
                stack: AddrRange::new(low, block.end),
                guard: AddrRange::new(block.start, low),
                mapped: block,
            })
        }
        Libc::Musl => {
            let top = Addr::new(word(2)?);
            if top > pointer || pointer.since(top) > limits::MAX_ABOVE_STACK {
                return None;
            }
            let map = AddrRange::sized(Addr::new(word(0)?), word(1)?);
            let (size, guard) = (word(3)?, word(4)?);
            let low = top.checked_sub(size)?;
            // As in pthread_create: the stack begins directly above the guard. If the program supplied the stack, there
            // is no mapping of the library's.
            let own = map.start.is_aligned(4096)
                && page_multiple(map.len())
                && low == map.start.saturating_add(guard)
                && map.contains(pointer);
            let given = map.start.is_null() && guard == 0;
            let holds = size >= MIN_STACK && page_multiple(guard) && (own || given) && low < top;
            holds.then_some(StackRecord {
                stack: AddrRange::new(low, top),
                guard: if own { AddrRange::new(map.start, low) } else { AddrRange::default() },
                mapped: if own { map } else { AddrRange::new(low, pointer) },
            })
        }
    }
}

/// Finds the position of the stack fields by a vote of all threads (thread pointer, stack pointer).
///
/// Also returns how many voters have their stack pointer in the stack that their record gives. A record votes only if
/// `accept` accepts it.
pub fn find_layout(
    memory: &dyn Memory,
    threads: &[(Addr, Addr)],
    accept: impl Fn(RecordLayout, Addr, &StackRecord) -> bool,
) -> Option<(RecordLayout, usize)> {
    let mut votes: HashMap<RecordLayout, (usize, usize)> = HashMap::new();
    // A few hundred threads are enough; more would only confirm the result.
    for &(pointer, sp) in threads.iter().take(limits::MAX_VOTERS) {
        let window = Window::read(memory, pointer);
        for offset in window.offsets() {
            for libc in [Libc::Musl, Libc::Glibc] {
                let layout = RecordLayout { libc, offset };
                // The fields of a stack that the program supplied prove too little for a vote.
                let votes_with = |r: &StackRecord| libc == Libc::Glibc || !r.guard.start.is_null();
                let record = check(&window, layout, pointer).filter(votes_with);
                if let Some(record) = record.filter(|r| accept(layout, pointer, r)) {
                    let vote = votes.entry(layout).or_default();
                    vote.0 += usize::from(record.stack.contains(sp));
                    vote.1 += 1;
                }
            }
        }
    }
    // Order: most threads with their SP in the stack, then most votes, then musl (its five fields are the stricter
    // test), then the lower offset.
    votes
        .into_iter()
        .max_by_key(|&(layout, vote)| (vote, layout.libc == Libc::Musl, std::cmp::Reverse(layout.offset)))
        .map(|(layout, (in_stack, _))| (layout, in_stack))
}

/// Whether a control block points to itself, as in both libraries.
///
/// x86_64: the first word at the thread pointer is the thread pointer. With glibc the third word is too (`tcbhead_t`:
/// tcb, dtv, self; musl: self). On aarch64 the block is below the thread pointer, and such a word has no known offset.
/// There, any word with its own address is accepted: musl's self, or the head of glibc's list of robust mutexes, which
/// links to itself while the thread holds none. A link of glibc's list of stacks is accepted too.
pub(super) fn points_to_itself(memory: &dyn Memory, arch: Arch, layout: RecordLayout, pointer: Addr) -> bool {
    match arch {
        Arch::X86_64 => {
            let itself = |offset: u64| {
                let at = pointer.checked_add(offset);
                let found = at.filter(|&at| memory.peek_u64(at).ok().map(Addr::new) == Some(pointer));
                found.inspect(|&at| memory.keep(at, 8)).is_some()
            };
            itself(tcb::SELF) && (layout.libc == Libc::Musl || itself(tcb::GLIBC_SELF))
        }
        Arch::Aarch64 => {
            let window = Window::read(memory, pointer);
            window.offsets().take_while(|&offset| offset < 0).any(|offset| {
                let at = pointer.wrapping_offset(offset);
                let word = window.word(offset).map(Addr::new);
                word == Some(at) || word.is_some_and(|w| !w.is_null() && w.is_aligned(8)) && is_linked(memory, at)
            })
        }
    }
}

/// Offsets in the control block on x86_64, in bytes from the thread pointer: glibc sysdeps/x86_64/nptl/tls.h
/// (`tcbhead_t`), musl src/internal/pthread_impl.h.
mod tcb {
    pub(super) const SELF: u64 = 0;
    pub(super) const GLIBC_SELF: u64 = 16;
}

/// Bytes of a record: musl has five words, glibc four.
const RECORD: usize = 5 * 8;

/// Returns the stack of the thread with the thread pointer `pointer`.
pub fn read_record(memory: &dyn Memory, layout: RecordLayout, pointer: Addr) -> Option<StackRecord> {
    let first = pointer.wrapping_offset(layout.offset);
    let bytes = memory.look(first, RECORD).ok()?;
    let record = check(&Window { start: layout.offset, bytes }, layout, pointer)?;
    memory.keep(first, RECORD as u64);
    Some(record)
}

/// Why control blocks may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteSearch {
    /// The control blocks of the first threads lead to no list, and the others were not read.
    NotAllRead,
    /// The lists are longer than is plausible.
    TooMany,
}

/// The control blocks in glibc's lists of stacks, besides those of the given threads.
#[derive(Debug, Default)]
pub struct BlockLists {
    /// Thread pointers of the blocks.
    pub blocks: Vec<Addr>,
    /// Bytes from the thread pointer to the control block's `list`. `None` if not found.
    link: Option<i64>,
    /// Blocks in a list with a live thread, which is not the cache.
    running: HashSet<Addr>,
    /// Why blocks may be missing.
    pub incomplete: Option<IncompleteSearch>,
}

/// What a control block in glibc's lists says about its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockThread {
    /// The thread with this id is alive.
    Alive(u32),
    /// The thread ended.
    Ended,
    /// The thread did not end, but it is not in this process: fork copied its stack from the parent.
    Inherited,
}

/// Offsets from `list` in `struct pthread` (nptl/descr.h), equal in all versions from 2.4 to 2.43 and on both machines:
/// list_t list; pid_t tid, pid; robust_prev; robust_head; cleanup; cleanup_jmp_buf; int cancelhandling.
mod after_list {
    /// 0 or -1 once the kernel or pthread_join cleared it, and after fork in the child for all other threads
    /// (`__reclaim_stacks`).
    pub(super) const TID: i64 = 16;
    pub(super) const CANCEL_HANDLING: i64 = 72;
}

/// EXITING_BIT of `cancelhandling`: set at the end of each thread (`start_thread`).
const EXITING: u64 = 0x10;

impl BlockLists {
    /// Returns what the block says about its thread. `None` if the position of its fields is unknown, or if its thread
    /// is just being created.
    pub fn thread(&self, memory: &dyn Memory, pointer: Addr) -> Option<BlockThread> {
        let word = |offset: i64| half_word(memory, pointer.wrapping_offset(self.link?).wrapping_offset(offset));
        match word(after_list::TID)? {
            0 | NO_TID if word(after_list::CANCEL_HANDLING)? & EXITING != 0 => Some(BlockThread::Ended),
            0 | NO_TID if self.running.contains(&pointer) => None,
            0 | NO_TID => Some(BlockThread::Inherited),
            tid => u32::try_from(tid).ok().map(BlockThread::Alive),
        }
    }
}

/// `tid` of a thread that was joined: -1.
const NO_TID: u64 = u32::MAX as u64;

/// Reads four bytes that are a field of a control block.
fn half_word(memory: &dyn Memory, at: Addr) -> Option<u64> {
    let bytes = memory.look(at, 4).ok()?;
    memory.keep(at, 4);
    bytes::u32_at(&bytes, 0).map(u64::from)
}

/// Finds the control blocks in glibc's lists of stacks, live or not.
///
/// The lists are found through a live thread's own link. Their heads are close together (in the data of ld.so or
/// libpthread). So the heads of the other lists are searched around the first one. If the search was incomplete, the
/// reason is returned too.
pub fn block_lists(memory: &dyn Memory, layout: RecordLayout, live: &[Addr]) -> BlockLists {
    if layout.libc != Libc::Glibc {
        return BlockLists::default();
    }
    let Some(link) = find_link(memory, live) else {
        let incomplete = (live.len() > limits::MAX_LINK_VOTERS).then_some(IncompleteSearch::NotAllRead);
        return BlockLists { incomplete, ..BlockLists::default() };
    };
    // A node is in one ring only, so a ring found through one thread is not walked again for the next.
    let walks = Walks::new(Phase::Stacks, limits::MAX_LIST);
    let node = |pointer: Addr| pointer.wrapping_offset(link);
    let pointer = |node: Addr| node.wrapping_offset(-link);
    let live_pointers: HashSet<Addr> = live.iter().copied().collect();
    let mut known = live_pointers.clone();
    let is_live = |n| live_pointers.contains(&pointer(n));
    let mut heads = Vec::new();
    let mut blocks = Vec::new();
    let mut running = HashSet::new();
    let mut take = |ring: Vec<Addr>, heads: &mut Vec<Addr>| {
        let mut members = Vec::new();
        for n in ring {
            let p = pointer(n);
            if known.contains(&p) {
                members.push(p);
            } else if read_record(memory, layout, p).is_some() {
                known.insert(p);
                blocks.push(p);
                members.push(p);
            } else {
                heads.push(n);
            }
        }
        let alive = |p: &Addr| {
            let tid = half_word(memory, node(*p).wrapping_offset(after_list::TID));
            tid.is_some_and(|tid| tid != 0 && tid != NO_TID)
        };
        if members.iter().any(alive) {
            running.extend(members);
        }
    };
    for &p in live.iter().take(limits::MAX_VOTERS) {
        if heads.is_empty() {
            take(ring(memory, &walks, node(p), is_live), &mut heads);
        }
    }
    for head in heads.clone() {
        for step in -HEADS_AROUND..=HEADS_AROUND {
            let at = head.wrapping_offset(8 * step);
            if at != head && walks.spend(at, 1).is_ok() && is_linked(memory, at) {
                take(ring(memory, &walks, at, is_live), &mut heads);
            }
        }
    }
    let not_all_read = heads.is_empty() && live.len() > limits::MAX_VOTERS;
    let incomplete = if walks.is_spent() { Some(IncompleteSearch::TooMany) } else { None };
    let incomplete = incomplete.or(not_all_read.then_some(IncompleteSearch::NotAllRead));
    BlockLists { blocks, link: Some(link), running, incomplete }
}

/// Words on either side of a list head in which the other heads are searched (`_dl_stack_used`, `_dl_stack_user`,
/// `_dl_stack_cache` in `_rtld_global` from 2.34; statics of libpthread's allocatestack.c before).
const HEADS_AROUND: i64 = 32;

/// Whether the `list_t` at `at` is linked both ways, and not to itself.
fn is_linked(memory: &dyn Memory, at: Addr) -> bool {
    // Most addresses tried are no list, and may contain any data.
    let word = |at: Option<Addr>| memory.peek_u64(at?).ok().map(Addr::new);
    let both = || {
        let next = word(Some(at))?;
        let prev = word(at.checked_add(8))?;
        let back = word(next.checked_add(8))?;
        let forth = word(Some(prev))?;
        Some(next != at && back == at && forth == at)
    };
    both() == Some(true)
}

/// Returns the bytes from the thread pointer to the control block's `list`, by vote.
fn find_link(memory: &dyn Memory, live: &[Addr]) -> Option<i64> {
    let mut votes: HashMap<i64, usize> = HashMap::new();
    for &pointer in live.iter().take(limits::MAX_LINK_VOTERS) {
        let window = Window::read(memory, pointer);
        for offset in window.offsets() {
            // Most words cannot be a link. This check needs no further read.
            let can_link = |w: Option<u64>| w.is_some_and(|w| w != 0 && Addr::new(w).is_aligned(8));
            if can_link(window.word(offset))
                && can_link(window.word(offset + 8))
                && is_linked(memory, pointer.wrapping_offset(offset))
            {
                *votes.entry(offset).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|&(offset, n)| (n, std::cmp::Reverse(offset))).map(|(offset, _)| offset)
}

/// Size in bytes of a `list_t` (next and prev).
const LINKS: u64 = 16;

/// Returns all nodes of the ring that `start` leads to. Empty if no ring closes, or it was walked before.
///
/// A node that was removed from the ring still leads to it. Then the ring is accepted only if `live` accepts one of its
/// nodes.
fn ring(memory: &dyn Memory, walks: &Walks, start: Addr, live: impl Fn(Addr) -> bool) -> Vec<Addr> {
    let mut out = Vec::new();
    let end = walks.begin().follow(start, |at| {
        out.push(at);
        memory.ptr(at)
    });
    let Err(Broken::Stop(Stop::Cycle(first))) = end else { return Vec::new() };
    let out = out.split_off(out.iter().position(|&n| n == first).unwrap_or(0));
    if first != start && !out.iter().any(|&n| live(n)) {
        return Vec::new();
    }
    // Nothing else of ended threads is recorded.
    out.iter().for_each(|&node| memory.keep(node, LINKS));
    out
}
