//! Finds stacks through structures: control blocks of the C library, signal frames, Go's scheduler.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::diag::{Warning, WarningCode};
use crate::limits;
use crate::map::{Base, Confidence};
use crate::memory::Memory;
use crate::native::signal_frames::{self, SignalFrame};
use crate::native::stack_records::{self, BlockThread, IncompleteSearch, Libc, RecordLayout, StackRecord};
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
        found_blocks: Vec::new(),
        are_registers_wrong: are_registers_wrong(process.threads()),
    };
    let finder = Finder { found_blocks: finder.found_blocks(), ..finder };
    let layout = finder.layout();
    let mut stacks = Stacks { layout, ..Stacks::default() };
    let mut own = finder.own(layout);
    let mut rest = layout.map(|layout| finder.listed(layout, &mut own)).unwrap_or_default();
    let inherited = layout.and_then(|layout| finder.main_elsewhere(layout, &mut rest));
    let main = process.main_tid().filter(|_| inherited.is_some());
    own.extend(main.zip(inherited));
    for thread in process.threads() {
        finder.add_stacks(thread, own.remove(&thread.tid), &mut stacks);
    }
    rest.into_iter().for_each(|stack| stacks.push(stack));
    stacks.blank = finder.blank();
    stacks
}

struct Finder<'a> {
    process: &'a Process,
    space: &'a Space<'a>,
    /// The main thread's stack, and how it was found.
    main: Option<(AddrRange, &'static str)>,
    go: Option<Go<'a>>,
    /// Control blocks found in memory. Filled only if no thread pointer leads to one.
    found_blocks: Vec<Addr>,
    are_registers_wrong: bool,
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

    /// Finds control blocks in memory, if no thread pointer leads to one: all threads except the main one ended, or the
    /// producer wrote no thread pointers (QEMU's user mode, old gdb) or wrong ones.
    ///
    /// The control block is at the upper end of each stack. In glibc's, the first and third words contain its own
    /// address (`tcbhead_t`: tcb, self). This is so on x86_64 only.
    fn found_blocks(&self) -> Vec<Addr> {
        let leads_to_one = |(_, pointer): (&Thread, Addr)| {
            let first = self.process.memory.peek_u64(pointer).ok();
            first.map(Addr::new) == Some(pointer)
        };
        if self.process.arch() != Arch::X86_64 || self.pointers().any(leads_to_one) {
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
        // A stack begins directly below its control block.
        let found = self.found_blocks.iter().map(|pointer| (*pointer, pointer.wrapping_offset(-8)));
        // Blocks found in memory come first: thread pointers lead nowhere then, and only the first voters count.
        let plain: Vec<(Addr, Addr)> = found.chain(live).collect();
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
        // A record for the main thread is that of a child of fork.
        let own = record.or(main);
        if let Some(own) = own.as_ref().filter(|_| self.are_registers_wrong) {
            stacks.push(own.clone());
            stacks.astray.push(tid);
            return;
        }
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

    /// Returns the stacks in glibc's lists that no thread pointer leads to, except those of listed threads, which are
    /// added to `own`.
    ///
    /// A listed thread is alive, whatever its registers contain. Its control block has its id. If the producer writes
    /// ids of another namespace (gdb outside a container), the stack pointer decides.
    fn listed(&self, layout: RecordLayout, own: &mut HashMap<u32, ThreadStack>) -> Vec<ThreadStack> {
        let memory = &self.process.memory;
        let live: Vec<Addr> =
            self.found_blocks.iter().copied().chain(self.pointers().map(|(_, pointer)| pointer)).collect();
        let lists = stack_records::block_lists(memory, layout, &live);
        let is_damage = matches!(lists.incomplete, Some(IncompleteSearch::TooMany));
        let why = lists.incomplete.map(|why| match why {
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
        let main = self.main.and(self.process.main_tid());
        let without = self.threads().iter().filter(|t| Some(t.tid) != main && !own.contains_key(&t.tid));
        let mut without: BTreeMap<u32, Addr> = without.map(|t| (t.tid, t.registers.sp())).collect();
        let mut by_sp: BTreeMap<Addr, u32> = without.iter().map(|(tid, sp)| (*sp, *tid)).collect();
        let mut rest = Vec::new();
        let mut seen: HashSet<Addr> = own.values().map(|s| s.stack.start).collect();
        for &pointer in lists.blocks.iter().chain(&self.found_blocks) {
            let record = stack_records::read_record(memory, layout, pointer);
            let Some((record, zone)) = record.and_then(|r| Some((r, self.guard_zone(layout, pointer, &r)?))) else {
                continue;
            };
            if !seen.insert(record.stack.start) {
                continue;
            }
            let thread = lists.thread(memory, pointer);
            let by_id = match thread {
                Some(BlockThread::Alive(tid)) => Some(tid).filter(|tid| without.contains_key(tid)),
                _ => None,
            };
            let inside = || by_sp.range(record.stack.start..record.stack.end).next().map(|(_, tid)| *tid);
            if let Some(tid) = by_id.or_else(inside) {
                let sp = without.remove(&tid);
                sp.and_then(|sp| by_sp.remove(&sp));
                own.insert(tid, from_record(Some(tid), layout, pointer, record, zone));
                continue;
            }
            let state = match thread {
                Some(BlockThread::Ended) => StackState::Cached,
                Some(BlockThread::Inherited) => StackState::Inherited,
                Some(BlockThread::Alive(_)) | None => StackState::Unknown,
            };
            rest.push(ThreadStack { state, ..from_record(None, layout, pointer, record, zone) });
        }
        rest
    }

    /// Returns the main thread's stack, if another thread's control block describes it. This happens in a child of
    /// fork: the thread that called fork was not the main thread, and in the child it is the only one. The parent's
    /// main stack is then added to `rest`.
    fn main_elsewhere(&self, layout: RecordLayout, rest: &mut Vec<ThreadStack>) -> Option<ThreadStack> {
        let (range, how) = self.main?;
        let tid = self.process.main_tid()?;
        let thread = self.threads().iter().find(|t| t.tid == tid)?;
        let pointer = thread.thread_pointer?;
        let record = stack_records::read_record(&self.process.memory, layout, pointer)?;
        let zone = self.guard_zone(layout, pointer, &record)?;
        let sp = thread.registers.sp();
        let sp = self.signals(sp, |sp| record.stack.contains(sp)).last().map_or(sp, |f| f.sp);
        if !record.stack.contains(sp) {
            return None;
        }
        rest.retain(|s| s.stack.start != record.stack.start);
        let main = exact_stack(tid, StackState::Inherited, range, how.into());
        rest.push(ThreadStack { tid: None, ..main });
        Some(from_record(Some(tid), layout, pointer, record, zone))
    }
}

/// Whether the registers of all threads are wrong, because the producer wrote them shifted. The sign is that most
/// instruction pointers are where no code can be. One thread may have jumped there. A wrong value of some threads may
/// look like an address of code.
fn are_registers_wrong(threads: &[Thread]) -> bool {
    let no_code = |ip: Addr| ip < LOWEST_CODE || ip >= USER_END;
    // The registers of a thread that was not stopped are unknown, not wrong.
    let wrong = threads.iter().filter(|t| !t.registers.is_partial() && no_code(t.registers.ip())).count();
    threads.len() > 1 && wrong > threads.len() / 2
}

/// Lowest address of code: `vm.mmap_min_addr` is 64 KiB.
const LOWEST_CODE: Addr = Addr::new(64 << 10);

/// End of user addresses with five-level page tables on x86_64. aarch64 has fewer.
const USER_END: Addr = Addr::new(1 << 56);

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
        state: if tid.is_some() { StackState::Thread } else { StackState::Unknown },
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
