//! Finds stacks through structures: control blocks of the C library, signal frames, Go's scheduler.

use std::collections::{BTreeSet, HashMap};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::diag::{Warning, WarningCode};
use crate::limits;
use crate::map::{Base, Confidence};
use crate::memory::Memory;
use crate::native::signal_frames::{self, SignalFrame};
use crate::native::stack_records::{self, IncompleteSearch, Libc, RecordLayout, StackRecord};
use crate::native::stacks::go::{Go, GoStack, GoThread};
use crate::native::stacks::space::Space;
use crate::native::stacks::{StackState, Stacks, ThreadStack, UnmatchedSp};
use crate::phase::Phase;
use crate::process::Process;
use crate::targets::Arch;
use crate::targets::Producer;
use crate::targets::Thread;
use crate::targets::at;
use crate::units::exact;

/// Finds the stacks that structures describe. Threads without one are left to [`super::guess()`].
pub fn find(process: &Process, base: &Base) -> Stacks {
    let _phase = process.enter(Phase::Stacks);
    let space = Space::of(process.facts(), base);
    let finder = Finder {
        process,
        space: &space,
        main: main_stack(process, &space),
        go: Go::new(&process.memory, process.arch(), &space),
        ended_blocks: Vec::new(),
    };
    let finder = Finder { ended_blocks: finder.ended_blocks(), ..finder };
    let layout = finder.layout();
    let mut stacks = Stacks { layout, ..Stacks::default() };
    let mut own = finder.own(layout);
    for thread in process.threads() {
        finder.add_stacks(thread, own.remove(&thread.tid), &mut stacks);
    }
    if let Some(layout) = layout {
        finder.ended(layout, &mut stacks);
    }
    stacks.blank = finder.blank();
    stacks
}

struct Finder<'a> {
    process: &'a Process,
    space: &'a Space<'a>,
    /// The main thread's stack, and how it was found.
    main: Option<(AddrRange, &'static str)>,
    go: Option<Go<'a>>,
    /// Control blocks of ended threads. Filled only if the main thread is the only live one, so that no thread pointer
    /// leads to them.
    ended_blocks: Vec<Addr>,
}

impl Finder<'_> {
    fn threads(&self) -> &[Thread] {
        self.process.threads()
    }

    /// Iterates over the thread pointers of all threads except the main one, whose stack the kernel made.
    fn pointers(&self) -> impl Iterator<Item = (&Thread, Addr)> {
        let main = self.main.and(self.process.main_tid());
        let others = self.threads().iter().filter(move |t| main.is_none_or(|tid| t.tid != tid));
        others.filter_map(|t| Some((t, t.thread_pointer?)))
    }

    /// Finds control blocks of ended threads, if all threads except the main one ended.
    ///
    /// No thread pointer leads to the remaining stacks then. The control block is at the upper end of each. In glibc's,
    /// the first and third words contain its own address (`tcbhead_t`: tcb, self). This is so on x86_64 only.
    fn ended_blocks(&self) -> Vec<Addr> {
        if self.process.arch() != Arch::X86_64 || self.pointers().next().is_some() {
            return Vec::new();
        }
        let memory = &self.process.memory;
        let mut out = Vec::new();
        // One control block leads to the others, through glibc's list.
        for top in self.space.tops(PAGE, limits::MAX_ENDED_MAPPINGS) {
            if out.len() >= limits::MAX_ENDED_VOTERS {
                break;
            }
            let Ok(page) = memory.look(top.start, PAGE as usize) else { continue };
            let words: Vec<u64> = page.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
            let at = |i: usize| top.start.saturating_add(8 * i as u64);
            let is_block = |i: &usize| words.get(*i) == Some(&at(*i).get()) && words.get(i + SELF) == words.get(*i);
            out.extend((0..words.len()).find(is_block).map(at));
        }
        out
    }

    /// Returns the position of the stack fields in control blocks.
    fn layout(&self) -> Option<RecordLayout> {
        let target = self.process.target();
        let live = self.pointers().map(|(t, pointer)| (pointer, t.registers.sp()));
        // The stack of an ended thread begins directly below its control block.
        let ended = self.ended_blocks.iter().map(|pointer| (*pointer, pointer.wrapping_offset(-8)));
        let plain: Vec<(Addr, Addr)> = live.chain(ended).collect();
        target.expect(plain.iter().map(|&(pointer, _)| stack_records::search_range(pointer)));
        let memory = &self.process.memory;
        let accept = |layout: RecordLayout, pointer: Addr, record: &StackRecord| {
            let pages = record.mapped.start.is_aligned(PAGE) && record.mapped.len().is_multiple_of(PAGE);
            pages && self.guard_zone(layout, pointer, record).is_some()
        };
        let vote = |threads: &[(Addr, Addr)]| stack_records::find_layout(memory, threads, accept);
        let (layout, in_stack) = vote(&plain).unzip();
        // A thread in a signal handler votes with the interrupted stack pointer.
        if in_stack.is_none_or(|n| n == 0) {
            let interrupted = self.pointers().take(limits::MAX_VOTERS).map(|(t, pointer)| {
                let frames = self.signals(t.registers.sp(), |_| false);
                (pointer, frames.last().map_or(t.registers.sp(), |f| f.sp))
            });
            if let Some((layout, _)) = vote(&interrupted.collect::<Vec<_>>()) {
                return Some(layout);
            }
        }
        if layout.is_none() && plain.len() > limits::MAX_VOTERS {
            self.process.diag.note(
                WarningCode::Limit,
                format!(
                    "stack bounds are unknown, so stacks have their mappings' bounds: the control blocks of the first \
                     {} of {} threads don't give them, and the others were not read",
                    limits::MAX_VOTERS,
                    exact(plain.len() as u64)
                ),
            );
        }
        layout
    }

    /// Returns the stack's guard zone, if the record is acceptable: its control block points to itself, and its memory
    /// can be a stack.
    fn guard_zone(&self, layout: RecordLayout, pointer: Addr, record: &StackRecord) -> Option<AddrRange> {
        let to_itself = stack_records::points_to_itself(&self.process.memory, self.process.arch(), layout, pointer);
        // musl's control block is above the stack, in the same mapping.
        let used = match layout.libc {
            Libc::Glibc => pointer,
            Libc::Musl => record.stack.end.checked_sub(1)?,
        };
        self.space.guard_zone_if_stack(record.stack, used).filter(|_| to_itself)
    }

    /// Returns each thread's own stack, by its control block.
    ///
    /// If the stacks of two records overlap, only the one whose thread has its stack pointer inside is accepted.
    fn own(&self, layout: Option<RecordLayout>) -> HashMap<u32, ThreadStack> {
        let Some(layout) = layout else { return HashMap::new() };
        let read = |(thread, pointer): (&Thread, Addr)| {
            let record = stack_records::read_record(&self.process.memory, layout, pointer)?;
            let zone = self.guard_zone(layout, pointer, &record)?;
            let stack = from_record(Some(thread.tid), layout, pointer, record, zone);
            Some((stack.stack.contains(thread.registers.sp()), stack))
        };
        let mut found: Vec<(bool, ThreadStack)> = self.pointers().filter_map(read).collect();
        // By address. Of two at one address, the one with its thread's SP inside comes first.
        found.sort_by_key(|(inside, s)| (s.stack.start, !inside, s.tid));
        let mut out: Vec<(bool, ThreadStack)> = Vec::with_capacity(found.len());
        for (inside, stack) in found {
            match out.last_mut() {
                Some((before, last)) if last.stack.intersect(&stack.stack).is_some() => {
                    if inside && !*before {
                        (*before, *last) = (inside, stack);
                    }
                }
                _ => out.push((inside, stack)),
            }
        }
        out.into_iter().filter_map(|(_, stack)| Some((stack.tid?, stack))).collect()
    }

    /// Returns the signal handlers on alternate stacks that interrupted each other, the running one first. Stops when
    /// `known` accepts the interrupted stack pointer.
    fn signals(&self, sp: Addr, known: impl Fn(Addr) -> bool) -> Vec<SignalFrame> {
        let mut out: Vec<SignalFrame> = Vec::new();
        let mut sp = sp;
        while !known(sp) && out.len() < limits::MAX_NESTED_STACKS {
            let Some(region) = self.space.writable_at(sp) else { break };
            let frame = signal_frames::find(&self.process.memory, self.process.arch(), sp, region);
            // The frame contains the alternate stack that the kernel switched to, and must be on that stack. One
            // handler may interrupt another there; the interrupted one's frame is at a higher address.
            let on_it = |f: &SignalFrame| f.alternate.contains(f.at) && f.alternate.contains(sp);
            let first = |f: &SignalFrame| out.iter().all(|o| o.alternate != f.alternate);
            let further = |f: &SignalFrame| out.last().is_some_and(|o| o.alternate == f.alternate && o.at < f.at);
            let Some(frame) = frame.filter(|f| on_it(f) && (first(f) || further(f))) else { break };
            if self.space.guard_zone_if_stack(frame.alternate, sp).is_none() {
                break;
            }
            sp = frame.sp;
            out.push(frame);
        }
        out
    }

    /// Adds a thread's own stack, and the other stacks that it uses.
    fn add_stacks(&self, thread: &Thread, record: Option<ThreadStack>, stacks: &mut Stacks) {
        let (tid, sp) = (thread.tid, thread.registers.sp());
        let is_main = Some(tid) == self.process.main_tid();
        let main =
            self.main.filter(|_| is_main).map(|(range, how)| exact_stack(tid, StackState::Main, range, how.into()));
        let own = main.or(record);
        // The guard is below the stack. A thread that overflowed has its stack pointer there.
        let home = own.as_ref().map(|o| AddrRange::new(o.guard.map_or(o.stack.start, |g| g.start), o.stack.end));
        let at_home = |sp: Addr| home.is_some_and(|h| h.contains(sp));
        let frames = self.signals(sp, at_home);
        let rest = frames.last().map_or(sp, |f| f.sp);
        let go = if at_home(rest) { None } else { self.go.as_ref().and_then(|go| go.thread(thread)) };
        let own = own.or_else(|| go.as_ref().map(|go| go_stack(tid, StackState::Thread, go, go.g0)));
        let stack = own.as_ref().map(|o| o.stack);
        let at_home = |sp: Addr| at_home(sp) || stack.is_some_and(|s| s.contains(sp));
        let switched = go.as_ref().and_then(|go| Some(go_stack(tid, StackState::Switched, go, go.holding(rest)?)));
        let switched =
            switched.filter(|_| !at_home(rest)).map(|s| ThreadStack { sp: Some(rest), current: rest == sp, ..s });
        if !at_home(rest) && switched.is_none() {
            stacks.unmatched.push(UnmatchedSp { tid, sp: rest, current: rest == sp, has_own: own.is_some() });
        }
        if let Some(own) = own {
            let here = Some(rest).filter(|&rest| at_home(rest));
            stacks.push(ThreadStack { sp: here, current: here == Some(sp), ..own });
        }
        let mut at = sp;
        for on_one in frames.chunk_by(|a, b| a.alternate == b.alternate) {
            let [frame, ..] = on_one else { continue };
            let source = format!("the signal frame at {}: sigaltstack's ss_sp and ss_size", frame.at);
            let signal = exact_stack(tid, StackState::Signal, frame.alternate, source);
            stacks.push(ThreadStack { sp: Some(at), current: at == sp, ..signal });
            at = on_one.last().map_or(at, |f| f.sp);
        }
        if let Some(switched) = switched {
            stacks.push(switched);
        }
    }

    /// Returns threads whose stacks gdb could not read, and warns about them.
    ///
    /// Since 2.42, glibc puts a stack's guard into its mapping (MADV_GUARD_INSTALL). gdb 13 gives up the whole mapping
    /// at the first unreadable page, and writes zeros.
    fn blank(&self) -> BTreeSet<u32> {
        if self.process.producer() != Producer::Gcore {
            return BTreeSet::new();
        }
        let zero = |at: Addr| self.process.memory.look(at, BLANK).is_ok_and(|b| b.iter().all(|&b| b == 0));
        // A live thread has nonzero words above its stack pointer, and a control block. If a signal handler runs on its
        // own stack, the interrupted stack pointer counts.
        let own = |sp: Addr| self.signals(sp, |_| false).last().map_or(sp, |f| f.sp);
        let blank = |t: &&Thread| t.thread_pointer.is_some_and(zero) && zero(own(t.registers.sp()));
        let tids: BTreeSet<u32> = self.threads().iter().filter(blank).map(|t| t.tid).collect();
        let count = tids.len();
        if count > 0 {
            let stacks = if count == 1 { "1 stack is".to_owned() } else { format!("{count} stacks are") };
            self.process.diag.note(
                WarningCode::StacksBlank,
                format!(
                    "{stacks} zero in this core from the stack pointer to the control block, because gdb could not \
                     read them (glibc 2.42 and later puts a guard into the mapping). Their contents are lost; zero \
                     does not mean untouched here"
                ),
            );
        }
        tids
    }

    /// Adds stacks that glibc keeps after their threads ended.
    fn ended(&self, layout: RecordLayout, stacks: &mut Stacks) {
        let memory = &self.process.memory;
        let live: Vec<Addr> =
            self.pointers().map(|(_, pointer)| pointer).chain(self.ended_blocks.iter().copied()).collect();
        let (mut ended, incomplete) = stack_records::ended_threads(memory, layout, &live);
        ended.extend(&self.ended_blocks);
        let is_damage = matches!(incomplete, Some(IncompleteSearch::TooMany));
        let why = incomplete.map(|why| match why {
            IncompleteSearch::NotAllRead => format!(
                "the first {} control blocks lead to no list of stacks, and the others were not read",
                exact(live.len() as u64)
            ),
            IncompleteSearch::TooMany => "glibc's lists of stacks are implausibly long".to_owned(),
        });
        if let Some(why) = why {
            let (code, message) = (WarningCode::Limit, format!("cached stacks are missing: {why}"));
            self.process.diag.add(Warning { code, message, is_partial: is_damage });
        }
        for pointer in ended {
            let record = stack_records::read_record(memory, layout, pointer);
            let Some((record, zone)) = record.and_then(|r| Some((r, self.guard_zone(layout, pointer, &r)?))) else {
                continue;
            };
            let lost = self.process.facts().threads_lost;
            let state = if lost { StackState::Unknown } else { StackState::Cached };
            stacks.push(ThreadStack { state, ..from_record(None, layout, pointer, record, zone) });
        }
    }
}

/// Returns the main thread's stack: the mapping with the strings of the auxiliary vector, which the kernel puts there.
fn main_stack(process: &Process, space: &Space<'_>) -> Option<(AddrRange, &'static str)> {
    let notes = process.facts();
    let keys = [(at::RANDOM, "mapping that contains AT_RANDOM"), (at::EXECFN, "mapping that contains AT_EXECFN")];
    keys.into_iter().find_map(|(key, how)| Some((space.run_at(Addr::new(notes.auxv(key)?))?, how)))
}

/// Bytes read at a stack pointer and at a thread pointer. In a live thread they are not all zero.
const BLANK: usize = 24;

/// Words from the first self pointer of a control block to the second (`tcbhead_t`, x86_64).
const SELF: usize = 2;

/// Makes a stack with exact bounds, without guard or control block.
fn exact_stack(tid: u32, state: StackState, stack: AddrRange, source: String) -> ThreadStack {
    ThreadStack {
        tid: Some(tid),
        state,
        stack,
        zone: AddrRange::default(),
        guard: None,
        mapped: stack,
        sp: None,
        control: None,
        current: false,
        confidence: Confidence::Exact,
        source,
    }
}

fn go_stack(tid: u32, state: StackState, go: &GoThread, stack: GoStack) -> ThreadStack {
    let source = format!("stack.lo and stack.hi of Go's g at {}, from the m at {}", stack.g, go.m);
    exact_stack(tid, state, stack.range, source)
}

fn from_record(
    tid: Option<u32>,
    layout: RecordLayout,
    pointer: Addr,
    record: StackRecord,
    zone: AddrRange,
) -> ThreadStack {
    ThreadStack {
        tid,
        state: if tid.is_some() { StackState::Thread } else { StackState::Cached },
        stack: record.stack,
        zone,
        guard: (!record.guard.is_empty()).then_some(record.guard),
        mapped: record.mapped,
        sp: None,
        control: Some(pointer.min(pointer.wrapping_offset(layout.offset))),
        current: false,
        confidence: Confidence::Exact,
        source: format!(
            "{} thread control block at thread pointer {pointer}, stack fields {:#x} {} it",
            layout.libc.name(),
            layout.offset.unsigned_abs(),
            if layout.offset < 0 { "below" } else { "above" }
        ),
    }
}
