//! Reports the activity of every thread: its stack, its names and its role.

mod doing;
mod groups;
mod lock_findings;
mod rows;
mod virtual_threads;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::addr::Addr;
use crate::analysis::crash::{self, crash};
use crate::analysis::naming::Names;
use crate::analysis::native_waits;
use crate::bytes::printable;
use crate::commands::threads::report::ThreadsReport;
use crate::diag::WarningCode;
use crate::image::modules::is_pe_name;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::locks::NativeWait;
use crate::native::syscalls::{self, SystemCall};
use crate::native::unwind::End;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{FrameRow, FrameRowKind, SyscallRow, ThreadRow, Trust, WaitKind, WaitRow};
use crate::runtimes::api::{ManagedRuntime, ManagedThread};
use crate::session::Session;
use crate::units::count;

pub use doing::{Doing, doing};
use rows::{Rows, module_at};

/// Maximum number of modules named in a warning.
const MAX_NAMED: usize = 8;

/// Options of `threads`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadOptions {
    /// Only managed frames and the runtime's marks.
    pub managed: bool,
    /// Only native frames.
    pub native: bool,
    /// Only this thread.
    pub tid: Option<u32>,
    /// Merge equal stacks.
    pub group: bool,
    /// Also list virtual threads, which are not threads of the system. This walks the heap.
    pub virtual_threads: bool,
}

/// Unwinds the stacks of all requested threads.
pub fn threads(session: &Session<'_>, options: ThreadOptions) -> ThreadsReport {
    with_waits(session, options, &native_waits::native_waits(session))
}

/// The same with native waits that are known already.
pub(in crate::commands) fn with_waits(
    session: &Session<'_>,
    options: ThreadOptions,
    native: &BTreeMap<u32, NativeWait>,
) -> ThreadsReport {
    let (process, names) = (session.process, &Names::new(session));
    let runtimes = session.runtimes();
    session.warn_threads();
    for runtime in &runtimes {
        for note in runtime.locks().map(|locks| locks.notes()).unwrap_or_default() {
            process.diag.partial(WarningCode::Heap, format!("{}: sync blocks: {note}", runtime.label()));
        }
    }
    let _phase = process.enter(Phase::Frames);
    let walker = session.walker(session.known_stacks());
    let mut rows = Rows::new(session, names);
    let mut out = Vec::new();
    let mut short: BTreeMap<String, usize> = BTreeMap::new();
    let (mut may_skip, mut lost) = (0, 0);
    let crash = crash(process);
    for thread in process.threads() {
        if options.tid.is_some_and(|tid| tid != thread.tid) {
            continue;
        }
        let walk = session.walk(&walker, thread);
        if let Some(module) = missing_module(process, walk.end) {
            *short.entry(module).or_insert(0) += 1;
        }
        may_skip += usize::from(walk.may_skip);
        lost += usize::from(walk.lost);
        let signal = crash.signal.filter(|_| crash.tid == Some(thread.tid));
        let mut row = ThreadRow {
            tid: thread.tid,
            name: process.thread_name(thread.tid),
            crashed: crash.tid == Some(thread.tid),
            signal: signal.and_then(|s| u16::try_from(s.number).ok()),
            signal_name: signal.map(|s| crash::name(s.number)),
            end: Some(walk.end.text()),
            syscall: syscalls::of_thread(process, thread).map(syscall_row),
            cpu_ms: thread.cpu.map(|time| millis(time.total())),
            ..ThreadRow::default()
        };
        let known = in_runtimes(&runtimes, thread.tid);
        // A thread that is known to several runtimes is described by the first.
        if let Some((runtime, known)) = known.first() {
            runtime.describe(known, &mut row);
        }
        let managed = known.iter().find_map(|(runtime, known)| runtime.locks()?.wait(known, &walk.frames));
        // A runtime's threads wait for its work in condition variables that say nothing about the program.
        let is_shown = |wait: &&NativeWait| known.is_empty() || wait.kind.is_lock() || wait.kind == WaitKind::Join;
        let native = || native.get(&thread.tid).filter(is_shown).map(native_waits::row);
        row.waits_for = managed.map(WaitRow::completed).or_else(native);
        let frames: Vec<_> = walk.frames.iter().map(|f| rows.frame(f)).collect();
        let role = role(process, &runtimes, &known, &row, &frames);
        row.role = role.map(|r| r.0);
        row.role_confidence = role.map(|r| r.1);
        row.frames = frames;
        row.frames.retain(|f| match (options.managed, options.native) {
            (true, false) => f.kind != FrameRowKind::Native,
            (false, true) => f.kind == FrameRowKind::Native,
            _ => true,
        });
        out.push(row);
    }
    let virtual_threads = options.virtual_threads.then(|| virtual_threads::virtual_threads(session, &mut rows));
    note_missing(process, &short);
    note_guesses(process, &out, may_skip, lost);
    note_precompiled(process, &out);
    names.note_missing();
    let findings = lock_findings::findings(&out);
    let groups = options.group.then(|| groups::merge(&mut out));
    let process_cpu_ms = process.facts().cpu.map(millis);
    let pools = runtimes.iter().filter_map(|runtime| runtime.pending_tasks());
    let executors = pools.flat_map(|pools| pools.executors()).collect();
    let images = runtimes.iter().filter_map(|runtime| runtime.image());
    let libraries = images.filter_map(|image| Some(module_at(process, image.start)?.name().to_owned()));
    let runtime_libraries = libraries.collect();
    ThreadsReport { threads: out, process_cpu_ms, groups, virtual_threads, executors, findings, runtime_libraries }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn syscall_row(call: SystemCall) -> SyscallRow {
    let arguments = call.arguments.iter().map(|value| value.map(Addr::new)).collect();
    SyscallRow { name: call.name, number: call.number, arguments }
}

/// A thread, and the runtime that knows it.
type ThreadOf<'s> = (&'s dyn ManagedRuntime, &'s ManagedThread);

/// Finds a thread in all runtimes.
fn in_runtimes<'s>(runtimes: &[&'s dyn ManagedRuntime], tid: u32) -> Vec<ThreadOf<'s>> {
    let of = |runtime: &&'s dyn ManagedRuntime| {
        let runtime = *runtime;
        runtime.threads().by_tid.get(&tid).into_iter().flatten().map(move |thread| (runtime, thread))
    };
    runtimes.iter().flat_map(of).collect()
}

/// Role of a thread, and the confidence in it. Decided by the thread's runtime; for a thread that no runtime knows, by
/// the first that recognises it, since runtimes have native threads of their own.
fn role(
    process: &Process,
    runtimes: &[&dyn ManagedRuntime],
    known: &[ThreadOf<'_>],
    row: &ThreadRow,
    frames: &[FrameRow],
) -> Option<(&'static str, Confidence)> {
    let shown = match known.first() {
        Some((runtime, thread)) => runtime.role(Some(thread), row, frames),
        None => runtimes.iter().find_map(|runtime| runtime.role(None, row, frames)),
    };
    shown.or_else(|| (process.main_tid() == Some(row.tid)).then_some(("main", Confidence::Exact)))
}

/// Name of the module at which a stack ended because the module's code is not in the core.
fn missing_module(process: &Process, end: End) -> Option<String> {
    let End::NoUnwindData(ip) = end else { return None };
    let module = module_at(process, ip)?;
    (process.memory.readable(ip, 1) == 0).then(|| printable(module.name()).into_owned())
}

/// Adds a note on how many stacks ended early, and which modules are missing.
fn note_missing(process: &Process, short: &BTreeMap<String, usize>) {
    if short.is_empty() {
        return;
    }
    let names: Vec<String> = short.iter().take(MAX_NAMED).map(|(name, n)| format!("{name} ({n})")).collect();
    let more = short.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    process.diag.note(
        WarningCode::Unwind,
        format!(
            "{} early, because the code of these files is not in the core: {}{more}; pass them with --symbols DIR",
            match short.values().sum::<usize>() {
                1 => "1 stack ends".to_owned(),
                n => format!("{n} stacks end"),
            },
            names.join(", ")
        ),
    );
}

/// Adds a note on the assemblies with frames whose precompiled methods have no names. createdump leaves out the mapped
/// files. Their paths are known, so on the machine or image where the process ran `--symbols /` finds them.
fn note_precompiled(process: &Process, rows: &[ThreadRow]) {
    let frames = rows.iter().flat_map(|t| &t.frames);
    let nameless = frames.filter(|f| f.kind == FrameRowKind::Native && f.method.is_none());
    let assemblies: BTreeSet<&str> =
        nameless.filter_map(|f| f.module.as_deref()).filter(|name| is_pe_name(name)).collect();
    if assemblies.is_empty() {
        return;
    }
    let names: Vec<&str> = assemblies.iter().take(MAX_NAMED).copied().collect();
    let more = assemblies.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    process.diag.note(
        WarningCode::Metadata,
        format!(
            "names of precompiled methods are not in the core: {}{more}; --symbols DIR with the program's files gives them \
             (--symbols / on the machine or in the image where it ran)",
            names.join(", ")
        ),
    );
}

/// Adds a note on how many stacks depend on guesses, because users easily overlook the mark on a frame. On `may_skip`
/// stacks, the second frame may be missing. On `lost` stacks, frames before a mark are missing.
fn note_guesses(process: &Process, rows: &[ThreadRow], may_skip: usize, lost: usize) {
    let with = |trust: Trust| rows.iter().filter(|t| t.frames.iter().any(|f| f.trust == trust)).count();
    let shown = |n: usize, how: &str| (n > 0).then(|| format!("{n} by {how}"));
    let shown: Vec<String> = [
        shown(with(Trust::Scan), "scanning the stack for return addresses"),
        shown(with(Trust::FramePointer), "frame pointers only"),
        shown(with(Trust::FramePointerGap), "frame pointers that may skip a frame"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !shown.is_empty() {
        process.diag.note(
            WarningCode::UnwindGuess,
            format!(
                "some frames are guesses and marked as such (of {}: {}{}{})",
                count(rows.len() as u64, "stack"),
                shown.join(", "),
                match may_skip {
                    0 => String::new(),
                    n => format!(
                        "; in {n} the caller of the innermost function may be missing, because the function's code is \
                         not in the core"
                    ),
                },
                match lost {
                    0 => String::new(),
                    n => format!("; in {n} frames are missing before one that the runtime recorded"),
                }
            ),
        );
    }
}
