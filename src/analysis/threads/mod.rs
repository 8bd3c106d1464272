//! What every thread is doing: its stack, its names, what it is for.

mod doing;
mod groups;
mod lock_findings;
mod roles;
mod rows;
mod waits;

use std::collections::BTreeMap;

use crate::analysis::crash::{self, crash};
use crate::analysis::naming::Names;
use crate::bytes::printable;
use crate::dotnet::ExplicitFrame;
use crate::memory::Memory;
use crate::native::stacks::Stacks;
use crate::native::unwind::End;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{ThreadRow, ThreadsReport, ThrownRow};
use crate::stackwalk::{Known, Quiet, Walker, managed_threads};

pub use doing::{Doing, doing};
use rows::{Rows, module_at};
use waits::AllLocks;

/// Modules listed by name in a warning.
const NAMED: usize = 8;

/// Which threads and frames are asked for.
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
}

/// Follow the stacks of all threads asked for.
pub fn threads<'p>(process: &'p Process, names: &Names<'p>, stacks: &Stacks, options: ThreadOptions) -> ThreadsReport {
    let known = managed_threads(process, names.runtimes(), Quiet::No);
    let locks = AllLocks::read(process, names.runtimes(), Quiet::No);
    let _phase = process.enter(Phase::Frames);
    let walker = Walker::new(process, names.runtimes(), stacks);
    let mut rows = Rows::new(process, names);
    let mut out = Vec::new();
    let mut short: BTreeMap<String, usize> = BTreeMap::new();
    let crash = crash(process);
    for thread in process.threads() {
        if options.tid.is_some_and(|tid| tid != thread.tid) {
            continue;
        }
        let of_thread = known.get(&thread.tid).map(Vec::as_slice).unwrap_or_default();
        let mut explicit: Vec<ExplicitFrame> = of_thread.iter().flat_map(|k| k.frames.iter().cloned()).collect();
        explicit.sort_by_key(|f| f.addr);
        let walk = walker.walk(thread, explicit);
        if let Some(module) = missing_module(process, walk.end) {
            *short.entry(module).or_insert(0) += 1;
        }
        let signal = crash.signal.filter(|_| crash.tid == Some(thread.tid));
        let mut row = ThreadRow {
            tid: thread.tid,
            name: process.thread_name(thread.tid),
            crashed: crash.tid == Some(thread.tid),
            signal: signal.and_then(|s| u16::try_from(s.number).ok()),
            signal_name: signal.map(|s| crash::name(s.number)),
            end: Some(walk.end.text()),
            ..ThreadRow::default()
        };
        // A thread that was in several runtimes is told by the first.
        if let Some(first) = of_thread.first() {
            describe(first, &mut row);
        }
        row.waits_for = of_thread.iter().find_map(|k| locks.wait(k, &walk.frames));
        let frames: Vec<_> = walk.frames.iter().map(|f| rows.frame(f)).collect();
        let role = roles::role(process, thread.tid, &row, of_thread.first().is_some_and(|k| k.finalizer), &frames);
        row.role = role.map(|r| r.0);
        row.role_confidence = role.map(|r| r.1.name());
        row.frames = frames;
        row.frames.retain(|f| match (options.managed, options.native) {
            (true, false) => f.kind != "native",
            (false, true) => f.kind == "native",
            _ => true,
        });
        out.push(row);
    }
    note_missing(process, &short);
    note_guesses(process, &out);
    let findings = lock_findings::findings(&out);
    let groups = options.group.then(|| groups::merge(&mut out));
    ThreadsReport { threads: out, groups, findings }
}

/// The module at whose code a stack ended because that is not in the core.
fn missing_module(process: &Process, end: End) -> Option<String> {
    let End::NoUnwindData(ip) = end else { return None };
    let module = module_at(process, ip)?;
    (process.memory.readable(ip, 1) == 0).then(|| printable(module.name()).into_owned())
}

/// Tell how many stacks ended early for want of which modules.
fn note_missing(process: &Process, short: &BTreeMap<String, usize>) {
    if short.is_empty() {
        return;
    }
    let names: Vec<String> = short.iter().take(NAMED).map(|(name, n)| format!("{name} ({n})")).collect();
    let more = short.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    process.diag.partial(
        "unwind",
        format!(
            "{} stacks end at code that is not in the core: {}{more}; give the program's files with --symbols DIR",
            short.values().sum::<usize>(),
            names.join(", ")
        ),
    );
}

/// Tell how many stacks rest on guesses, as a frame's mark is easily overlooked.
fn note_guesses(process: &Process, rows: &[ThreadRow]) {
    let with = |trust: &str| rows.iter().filter(|t| t.frames.iter().any(|f| f.trust == trust)).count();
    let told = |n: usize, how: &str| (n > 0).then(|| format!("{n} by {how}"));
    let told: Vec<String> = [
        told(with("scan"), "looking through the stack for return addresses"),
        told(with("frame pointer"), "frame pointers alone"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !told.is_empty() {
        process.diag.partial(
            "unwind-guess",
            format!("of {} stacks some frames are guesses, marked as such: {}", rows.len(), told.join(", ")),
        );
    }
}

fn describe(known: &Known<'_, '_>, row: &mut ThreadRow) {
    let (types, thread) = (&known.methods.types, &known.thread);
    row.managed_id = thread.managed_id;
    row.managed_name = types.thread_name(thread).map(|name| printable(&name).into_owned());
    row.state = thread.state.map(|bits| roles::state(types, bits));
    row.gc_mode = thread.cooperative.map(|yes| if yes { "cooperative" } else { "preemptive" });
    row.exception = types
        .thrown_exception(thread)
        .map(|e| ThrownRow { r#type: printable(&e.type_name).into_owned(), address: e.object });
}
