//! A thread's own record of its stack, in its control block at the thread
//! pointer, found by what its fields must satisfy and not by version.
//!
//! glibc (nptl/descr.h, `struct pthread`): stackblock, stackblock_size,
//! guardsize, reported_guardsize in a row; on x86_64 the block begins at the
//! thread pointer, on aarch64 it ends there. A `list` field links it into
//! stack_used, stack_user or stack_cache.
//! musl (src/internal/pthread_impl.h, `struct pthread`): map_base, map_size,
//! stack, stack_size, guard_size in a row.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::phase::Phase;
use crate::targets::Arch;

/// Which C library's control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Libc {
    /// GNU
    Glibc,
    /// musl
    Musl,
}

impl Libc {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
        }
    }
}

/// What a control block says of its thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRecord {
    /// Usable stack.
    pub stack: AddrRange,
    /// Guard below it; empty where there is none.
    pub guard: AddrRange,
    /// All that the library mapped for the thread: guard, stack, TLS, control block.
    pub mapped: AddrRange,
}

/// Where the fields stand, from the thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordLayout {
    /// Whose.
    pub libc: Libc,
    /// Bytes from the thread pointer to the first field.
    pub offset: i64,
}

/// Smallest stack either library makes (PTHREAD_STACK_MIN is 16 KiB in glibc,
/// 2 KiB in musl).
const MIN_STACK: u64 = 2048;

/// The words around a thread pointer.
struct Window {
    start: i64,
    bytes: Vec<u8>,
}

impl Window {
    fn read(memory: &dyn Memory, pointer: Addr) -> Window {
        let half = limits::MAX_TCB_BYTES as u64;
        // Above as far as it goes, below as far as it goes.
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

/// Where the control block of a thread with that thread pointer may be.
pub(super) fn looked_at(pointer: Addr) -> AddrRange {
    let half = limits::MAX_TCB_BYTES as u64;
    AddrRange::new(pointer.saturating_sub(half), pointer.saturating_add(half))
}

fn page_multiple(v: u64) -> bool {
    v & 4095 == 0
}

/// Read the fields at `offset` and check what must hold of them.
fn check(window: &Window, layout: RecordLayout, pointer: Addr) -> Option<StackRecord> {
    let word = |i: i64| window.word(layout.offset + 8 * i);
    match layout.libc {
        Libc::Glibc => {
            let block = AddrRange::sized(Addr::new(word(0)?), word(1)?);
            // Nearly all words fail here: the rest is not looked at.
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
            // As above.
            if top > pointer || pointer.since(top) > limits::MAX_ABOVE_STACK {
                return None;
            }
            let map = AddrRange::sized(Addr::new(word(0)?), word(1)?);
            let (size, guard) = (word(3)?, word(4)?);
            let low = top.checked_sub(size)?;
            // pthread_create: the stack begins right above the guard.
            // A stack the program gave has no mapping of the library's own.
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

/// Where a process's control blocks keep their stack, by the vote of all its
/// threads (thread pointer, stack pointer), and how many of these stand in the stack
/// that they vote for. Only what `believed` of a record counts.
pub fn find_layout(
    memory: &dyn Memory,
    threads: &[(Addr, Addr)],
    believed: impl Fn(RecordLayout, Addr, &StackRecord) -> bool,
) -> Option<(RecordLayout, usize)> {
    let mut votes: HashMap<RecordLayout, (usize, usize)> = HashMap::new();
    // A few hundred threads settle it; thousands would only repeat it.
    for &(pointer, sp) in threads.iter().take(limits::MAX_VOTERS) {
        let window = Window::read(memory, pointer);
        for offset in window.offsets() {
            for libc in [Libc::Musl, Libc::Glibc] {
                let layout = RecordLayout { libc, offset };
                // A given stack's fields prove too little to vote.
                let votes_with = |r: &StackRecord| libc == Libc::Glibc || !r.guard.start.is_null();
                let record = check(&window, layout, pointer).filter(votes_with);
                if let Some(record) = record.filter(|r| believed(layout, pointer, r)) {
                    let vote = votes.entry(layout).or_default();
                    vote.0 += usize::from(record.stack.contains(sp));
                    vote.1 += 1;
                }
            }
        }
    }
    // Most threads whose SP lies in the stack, then most at all; musl's five
    // fields are the stricter test; then the lower offset.
    votes
        .into_iter()
        .max_by_key(|&(layout, vote)| (vote, layout.libc == Libc::Musl, std::cmp::Reverse(layout.offset)))
        .map(|(layout, (in_stack, _))| (layout, in_stack))
}

/// Whether a control block points to itself, as each library's does.
///
/// x86_64: the thread pointer's first word is itself, and with glibc its third too
/// (`tcbhead_t`: tcb, dtv, self; musl: self). On aarch64 the block lies below the
/// thread pointer and has no such word at a place that is known: there a word that
/// holds its own address is asked for (musl's self; the head of glibc's list of robust
/// mutexes, that is linked to itself while the thread holds none), or a link of
/// glibc's list of stacks.
pub(super) fn vouched(memory: &dyn Memory, arch: Arch, layout: RecordLayout, pointer: Addr) -> bool {
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

/// Words of the control block on x86_64, in bytes from the thread pointer: glibc
/// sysdeps/x86_64/nptl/tls.h (`tcbhead_t`), musl src/internal/pthread_impl.h.
mod tcb {
    pub(super) const SELF: u64 = 0;
    pub(super) const GLIBC_SELF: u64 = 16;
}

/// Words of a record: musl's five, glibc's four.
const RECORD: usize = 5 * 8;

/// The stack of the thread with that thread pointer.
pub fn read_record(memory: &dyn Memory, layout: RecordLayout, pointer: Addr) -> Option<StackRecord> {
    let first = pointer.wrapping_offset(layout.offset);
    let bytes = memory.look(first, RECORD).ok()?;
    let record = check(&Window { start: layout.offset, bytes }, layout, pointer)?;
    memory.keep(first, RECORD as u64);
    Some(record)
}

/// Why stacks of ended threads were not all looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The first threads' control blocks lead to no list, and the others were not asked.
    NotAllAsked,
    /// The lists are longer than any process's.
    TooMany,
}

/// Thread pointers of control blocks on glibc's lists that are not those of
/// live threads: stacks kept for reuse after their thread ended.
///
/// The lists are found through a live thread's own link. Their heads lie
/// together (in ld.so's or libpthread's data), so the cache's head is looked
/// for around the one that leads the live threads. Also tells why the search
/// was given up, if it was.
pub fn ended_threads(memory: &dyn Memory, layout: RecordLayout, live: &[Addr]) -> (Vec<Addr>, Option<GivenUp>) {
    if layout.libc != Libc::Glibc {
        return (Vec::new(), None);
    }
    let Some(link) = find_link(memory, live) else {
        return (Vec::new(), (live.len() > limits::MAX_LINK_VOTERS).then_some(GivenUp::NotAllAsked));
    };
    // A node is on one ring: what one thread's link led to need not be walked for the next.
    let walks = Walks::new(Phase::Stacks, limits::MAX_LIST);
    let node = |pointer: Addr| pointer.wrapping_offset(link);
    let pointer = |node: Addr| node.wrapping_offset(-link);
    let asked: std::collections::HashSet<Addr> = live.iter().copied().collect();
    let mut known = asked.clone();
    let is_live = |n| asked.contains(&pointer(n));
    let mut heads = Vec::new();
    let mut out = Vec::new();
    let mut take = |ring: Vec<Addr>, heads: &mut Vec<Addr>| {
        for n in ring {
            let p = pointer(n);
            if known.contains(&p) {
                continue;
            }
            if read_record(memory, layout, p).is_some() {
                known.insert(p);
                out.push(p);
            } else {
                heads.push(n);
            }
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
    let not_asked = heads.is_empty() && live.len() > limits::MAX_VOTERS;
    let given_up = if walks.is_spent() { Some(GivenUp::TooMany) } else { None };
    (out, given_up.or(not_asked.then_some(GivenUp::NotAllAsked)))
}

/// Words around a list head that are looked at for the other heads
/// (`_dl_stack_used`, `_dl_stack_user`, `_dl_stack_cache` in `_rtld_global`
/// from 2.34; statics of libpthread's allocatestack.c before).
const HEADS_AROUND: i64 = 32;

/// Whether a `list_t` at `at` is linked both ways, and not to itself.
fn is_linked(memory: &dyn Memory, at: Addr) -> bool {
    // Most of what is asked is no list, and anybody's.
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

/// Bytes from the thread pointer to the control block's `list`, by vote.
fn find_link(memory: &dyn Memory, live: &[Addr]) -> Option<i64> {
    let mut votes: HashMap<i64, usize> = HashMap::new();
    for &pointer in live.iter().take(limits::MAX_LINK_VOTERS) {
        let window = Window::read(memory, pointer);
        for offset in window.offsets() {
            // Most words can't be a link: the window tells without a read.
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

/// `list_t`: next and prev.
const LINKS: u64 = 16;

/// All nodes of the ring that `start` leads to; empty where there is none that closes, or it
/// was walked before. A node that was taken off the ring still leads to it: such a ring is
/// believed where `live` knows a node of it.
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
    // Of ended threads nothing else stays.
    out.iter().for_each(|&node| memory.keep(node, LINKS));
    out
}
