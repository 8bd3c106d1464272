//! The stack of each thread, and the stacks of threads that are gone.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, union};
use crate::core::notes::at;
use crate::core::prstatus::Thread;
use crate::limits;
use crate::map::{Base, BaseEntry, Claim, Claims, Confidence, Kind, Owner};
use crate::native::stack_records::{self, RecordLayout, StackRecord};
use crate::phase::Phase;
use crate::process::Process;
use crate::range_map::RangeMap;
use crate::units::exact;

/// Below the stack pointer, a leaf function may still use this much (System V
/// ABI for x86_64, the red zone).
pub const RED_ZONE: u64 = 128;

/// What a stack is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackState {
    /// Of the process's first thread; grows down by itself.
    Main,
    /// Of a live thread.
    Thread,
    /// Kept by glibc for reuse after its thread ended.
    Cached,
    /// Of a thread that the core's notes lack, or kept for reuse: threads are missing
    /// there, so that nothing tells which.
    Unsure,
}

/// One stack.
#[derive(Clone, Debug)]
pub struct ThreadStack {
    /// Its thread; `None` for a cached stack.
    pub tid: Option<u32>,
    /// What it is used for.
    pub state: StackState,
    /// Usable range: above the guard, up to where the thread began.
    pub stack: AddrRange,
    /// Guard below it, if any.
    pub guard: Option<AddrRange>,
    /// All that was mapped for it (TLS and control block too).
    pub mapped: AddrRange,
    /// Stack pointer of its thread.
    pub sp: Option<Addr>,
    /// How sure.
    pub confidence: Confidence,
    /// How it is known.
    pub source: String,
}

/// All stacks of the process: live threads in the core's order, then cached ones.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The stacks.
    pub list: Vec<ThreadStack>,
    /// Threads for which none was found, with their stack pointers.
    pub without: Vec<(u32, Addr)>,
    /// Index in the list of each thread's stack.
    by_tid: HashMap<u32, usize>,
    /// Where control blocks keep their stack, if that was found.
    pub layout: Option<RecordLayout>,
}

impl Stacks {
    /// The stack of a live thread.
    pub fn of(&self, tid: u32) -> Option<&ThreadStack> {
        self.list.get(*self.by_tid.get(&tid)?)
    }
}

/// Find all stacks.
pub fn find(process: &Process, base: &Base) -> Stacks {
    let _phase = process.enter(Phase::Stacks);
    let memory = &process.memory;
    let writable = writable_runs(base);
    let main = main_stack(process, &writable);
    let is_main = |t: &Thread| main.is_some() && Some(t.tid) == process.main_tid();
    let pointers: Vec<(Addr, Addr)> = process
        .core
        .notes
        .threads
        .iter()
        .filter(|t| !is_main(t))
        .filter_map(|t| Some((t.thread_pointer?, t.registers.sp())))
        .collect();
    process.core.expect(pointers.iter().map(|&(pointer, _)| stack_records::looked_at(pointer)));
    let layout = stack_records::find_layout(memory, &pointers);
    if layout.is_none() && pointers.len() > limits::MAX_VOTERS {
        process.diag.partial(
            "limit",
            format!(
                "the control blocks of the first {} of {} threads do not tell where stacks are; the others were not asked, \
                 so stacks have their mappings' bounds",
                limits::MAX_VOTERS,
                exact(pointers.len() as u64)
            ),
        );
    }
    let mut stacks = Stacks { layout, ..Stacks::default() };
    for thread in &process.core.notes.threads {
        let sp = thread.registers.sp();
        let record = layout
            .zip(thread.thread_pointer)
            .and_then(|(l, tp)| stack_records::read_record(memory, l, tp).map(|r| (l, tp, r)));
        let stack = match (&main, record) {
            (Some((range, how)), _) if is_main(thread) => ThreadStack {
                tid: Some(thread.tid),
                state: StackState::Main,
                stack: *range,
                guard: None,
                mapped: *range,
                sp: Some(sp),
                confidence: Confidence::Exact,
                source: (*how).to_owned(),
            },
            (_, Some((layout, pointer, record))) => from_record(Some((thread.tid, sp)), layout, pointer, record),
            _ => match writable.at(sp) {
                Some(&range) => ThreadStack {
                    tid: Some(thread.tid),
                    state: if process.main_tid() == Some(thread.tid) { StackState::Main } else { StackState::Thread },
                    stack: range,
                    guard: None,
                    mapped: range,
                    sp: Some(sp),
                    confidence: Confidence::Heuristic,
                    source: "the mapping that holds SP; bounds may be a neighbour's".into(),
                },
                None => {
                    stacks.without.push((thread.tid, sp));
                    continue;
                }
            },
        };
        stacks.by_tid.insert(thread.tid, stacks.list.len());
        stacks.list.push(stack);
    }
    if let Some(layout) = layout {
        let live: Vec<Addr> = pointers.iter().map(|p| p.0).collect();
        let (ended, given_up) = stack_records::ended_threads(memory, layout, &live);
        if given_up {
            process.diag.partial(
                "limit",
                format!(
                    "the first of {} control blocks lead to no list of stacks and the others were not asked: \
                     stacks kept for reuse are not told",
                    exact(live.len() as u64)
                ),
            );
        }
        for pointer in ended {
            if let Some(record) = stack_records::read_record(memory, layout, pointer) {
                let stack = from_record(None, layout, pointer, record);
                let state = if process.core.notes.threads_lost { StackState::Unsure } else { stack.state };
                stacks.list.push(ThreadStack { state, ..stack });
            }
        }
    }
    stacks
}

fn from_record(thread: Option<(u32, Addr)>, layout: RecordLayout, pointer: Addr, record: StackRecord) -> ThreadStack {
    ThreadStack {
        tid: thread.map(|t| t.0),
        state: if thread.is_some() { StackState::Thread } else { StackState::Cached },
        stack: record.stack,
        guard: (!record.guard.is_empty()).then_some(record.guard),
        mapped: record.mapped,
        sp: thread.map(|t| t.1),
        confidence: Confidence::Exact,
        source: format!(
            "{} thread control block at thread pointer {pointer}, stack fields {:#x} {} it",
            layout.libc.name(),
            layout.offset.unsigned_abs(),
            if layout.offset < 0 { "below" } else { "above" }
        ),
    }
}

/// The main thread's stack: the mapping the kernel put the auxiliary vector's
/// strings into.
fn main_stack(process: &Process, writable: &RangeMap<AddrRange>) -> Option<(AddrRange, &'static str)> {
    let notes = &process.core.notes;
    let keys = [(at::RANDOM, "the mapping that holds AT_RANDOM"), (at::EXECFN, "the mapping that holds AT_EXECFN")];
    for (key, how) in keys {
        if let Some(range) = notes.auxv(key).and_then(|a| writable.at(Addr(a))) {
            return Some((*range, how));
        }
    }
    None
}

/// Writable anonymous mappings, joined where they touch: createdump cuts one mapping
/// into many segments. Made once, as any number of threads may have their stacks in
/// one run.
fn writable_runs(base: &Base) -> RangeMap<AddrRange> {
    let fits = |e: &&BaseEntry| e.file.is_none() && e.perms.is_some_and(|p| p.read && p.write);
    let runs = union(base.entries.iter().filter(fits).map(|e| e.range).collect());
    RangeMap::from_sorted(runs).unwrap_or_default()
}

/// Claim stacks and their guards.
pub fn claim(process: &Process, stacks: &Stacks, claims: &mut Claims) {
    for s in &stacks.list {
        let who = match (s.state, s.tid) {
            (StackState::Main, _) => "main thread".to_owned(),
            (StackState::Cached, _) => "cached by glibc, its thread ended".to_owned(),
            (StackState::Unsure, _) => "of a thread that is missing in the notes, or cached by glibc".to_owned(),
            (_, Some(tid)) => match process.thread_name(tid) {
                Some(name) => format!("thread {tid} {name}"),
                None => format!("thread {tid}"),
            },
            (_, None) => String::new(),
        };
        let mut add = |range: AddrRange, kind, confidence, detail: String| {
            claims.add(Claim {
                range,
                kind,
                confidence,
                owner: s.tid.map_or(Owner::None, Owner::Thread),
                detail: detail.into(),
                evidence: s.source.as_str().into(),
            });
        };
        if let Some(guard) = s.guard {
            add(guard, Kind::StackGuard, s.confidence, format!("guard of {who}"));
        }
        // glibc's stack ends with TLS and control block; musl puts them above
        // the stack's own top, in the same mapping.
        add(AddrRange::new(s.stack.start, s.mapped.end.max(s.stack.end)), Kind::Stack, s.confidence, who);
    }
}
