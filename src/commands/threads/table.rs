use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::commands::threads::library_runs;
use crate::commands::threads::report::{ThreadsReport, VirtualThreadRow, VirtualThreads};
use crate::commands::threads::tree::{Branch, fold, tree};
use crate::map::Confidence;
use crate::render::lines::findings;
use crate::render::{Document, List, Listing, Render, csv_each};
use crate::report::{
    Execution, ExecutorRow, FrameRow, FrameRowKind, GcMode, OwnerState, SyscallRow, ThreadRow, Trust, WaitKind,
    WaitOwnerRow, WaitRow,
};
use crate::targets::threads::tid_text;
use crate::units::{count, exact};

/// Indentation per level of the tree, and maximum indentation.
const INDENT: usize = 2;
const MAX_INDENT: usize = 40;

/// Role of a thread that runs virtual threads.
const CARRIER: &str = "carrier of virtual threads";

/// Columns before a frame's name: its count in the tree, its address in a
/// thread.
const COUNT: usize = 5;
const ADDRESS: usize = 19;

/// Minimum processor time of a thread that is shown, in milliseconds: the unit of most clocks.
const MIN_SHOWN_CPU: u64 = 10;

/// Maximum number of thread ids listed in the tree.
const MAX_LISTED: usize = 8;

impl Listing for ThreadsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let mut lists: Vec<&mut dyn List> = vec![&mut self.threads];
        lists.extend(self.groups.as_mut().map(|groups| groups as &mut dyn List));
        lists.extend(self.virtual_threads.as_mut().map(|threads| &mut threads.groups as &mut dyn List));
        lists
    }
}

impl Render for ThreadsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let with_work = |pool: &&ExecutorRow| pool.queued.as_ref().is_some_and(|queued| !queued.is_empty());
        for pool in self.executors.iter().filter(with_work) {
            doc.line(pool_line(pool));
        }
        findings(&mut doc, &self.findings);
        if let Some(threads) = &self.virtual_threads {
            show_virtual(&mut doc, threads);
        } else if self.threads.iter().any(|thread| thread.role == Some(CARRIER)) {
            doc.line("Virtual threads ran in this process: --virtual shows them.");
        }
        match &self.groups {
            Some(groups) => {
                doc.line(format!(
                    "{}, {}",
                    count(self.threads.len() as u64, "thread"),
                    count(groups.len() as u64, "different stack")
                ));
                let rows: HashMap<u32, &ThreadRow> = self.threads.iter().map(|t| (t.tid, t)).collect();
                let branches = tree(groups);
                doc.each(branches.len(), move |i| {
                    let mut part = Document::default();
                    if let Some(branch) = branches.get(i) {
                        show_branch(&mut part, branch, &rows, &self.runtime_libraries);
                    }
                    part
                });
            }
            None => doc.each(self.threads.len(), |i| {
                let mut part = Document::default();
                if let Some(thread) = self.threads.get(i) {
                    part.line("");
                    show_thread(&mut part, thread);
                }
                part
            }),
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(groups) = &self.groups {
            let rows = groups.iter().enumerate().flat_map(|(i, g)| {
                g.frames.iter().map(move |f| GroupCsv { group: i, count: g.count, method: f.title() })
            });
            return csv_each::<GroupCsv, _>(rows, out);
        }
        let rows = self.threads.iter().flat_map(|t| t.frames.iter().map(|f| CsvRow::of(t, f)));
        csv_each::<CsvRow<'_>, _>(rows, out)
    }
}

/// Shows virtual threads, equal ones merged.
fn show_virtual(doc: &mut Document<'_>, threads: &VirtualThreads) {
    let word = if threads.word.is_empty() { "virtual thread" } else { threads.word };
    let on = if word == "virtual thread" { "mounted on a carrier thread" } else { "on a thread" };
    doc.line(format!("{}, {} of them {on}", count(threads.total, word), exact(threads.mounted)));
    for group in &threads.groups {
        doc.line("");
        let state = group.state.map_or_else(String::new, |state| format!(", {state}"));
        doc.line(format!("{}{state}", count(group.count, word)));
        let name = |thread: &VirtualThreadRow| {
            let id = thread.id.map_or_else(|| thread.object.to_string(), |id| format!("#{id}"));
            let name = thread.name.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
            let on = thread.carrier_tid.map_or_else(String::new, |tid| format!(" on thread {}", tid_text(tid)));
            format!("{id}{name}{on}")
        };
        let named: Vec<String> = group.threads.iter().take(MAX_LISTED).map(name).collect();
        let more = group.count.saturating_sub(named.len() as u64);
        let more = if more > 0 { format!(" and {} more", exact(more)) } else { String::new() };
        doc.line(format!("  ~ {}{more}", named.join(", ")));
        if let Some(wait) = &group.waits_for {
            let others = group.objects.saturating_sub(1);
            let others = if others > 0 {
                format!("; the others wait for {} other objects", exact(others))
            } else {
                String::new()
            };
            doc.line(format!("  {}{others}", wait_line(wait)));
        }
        for (frame, times) in runs(group.frames.iter()) {
            doc.titled(frame_line(frame, times), ADDRESS + 2);
        }
        if let Some(by) = &group.created_by {
            let at = group.created_at.as_ref().map_or_else(String::new, |at| format!(" [{at}]"));
            doc.line(format!("  started by {by}{at}"));
        }
        if let Some(end) = group.end {
            doc.line(format!("  (stack ends here: {end})"));
        }
    }
}

/// Writes folded stacks, one per line: frames from the outermost on, and the
/// number of threads.
///
/// # Errors
/// Errors of writing.
pub fn folded(report: &ThreadsReport, out: &mut dyn Write) -> io::Result<()> {
    for (stack, count) in fold(report.groups.as_deref().unwrap_or_default()) {
        writeln!(out, "{} {count}", printable(&stack.line()))?;
    }
    Ok(())
}

fn show_thread(doc: &mut Document<'_>, thread: &ThreadRow) {
    let mut head = format!("Thread {}", tid_text(thread.tid));
    if let Some(name) = &thread.name {
        head.push_str(&format!(" {name}"));
    }
    if let Some(id) = thread.managed_id {
        head.push_str(&format!(", managed id {id}"));
    }
    if let Some(name) = &thread.managed_name {
        head.push_str(&format!(" \"{name}\""));
    }
    if let Some(role) = thread.role {
        let guess = if thread.role_confidence == Some(Confidence::Heuristic) { " (heuristic)" } else { "" };
        head.push_str(&format!(": {role}{guess}"));
    }
    for more in [thread.state.as_deref(), thread.gc_mode.map(GcMode::name)].into_iter().flatten() {
        head.push_str(&format!(", {more}"));
    }
    if thread.crashed {
        let signal = thread.signal_name.as_deref().map_or_else(String::new, |name| format!(" by {name}"));
        head.push_str(&format!(", crashed{signal}"));
    }
    if let Some(call) = &thread.syscall {
        head.push_str(&format!(", in {}", call_text(call)));
    }
    if let Some(time) = thread.cpu_ms.filter(|&time| time >= MIN_SHOWN_CPU) {
        head.push_str(&format!(", {} s CPU", seconds(time)));
    }
    doc.line(head);
    if let Some(exception) = &thread.exception {
        let message = exception.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
        doc.line(format!("  threw {} at {}{message}", exception.r#type, exception.address));
    }
    if let Some(wait) = &thread.waits_for {
        doc.line(format!("  {}", wait_line(wait)));
    }
    for held in &thread.holds {
        let guess = if held.confidence == Confidence::Heuristic { " (heuristic)" } else { "" };
        doc.line(format!("  holds {} ({}){guess}", held.object, held.r#type.as_deref().unwrap_or("type unknown")));
    }
    for (frame, times) in runs(thread.frames.iter()) {
        doc.titled(frame_line(frame, times), ADDRESS + 2);
    }
    if let Some(end) = thread.end.as_ref().filter(|e| !e.starts_with("the thread began")) {
        doc.line(format!("  (stack ends here: {end})"));
    }
}

/// A time as seconds with one decimal. Two for short times, so that they are not 0.
fn seconds(millis: u64) -> String {
    let seconds = millis as f64 / 1000.0;
    if millis < 1000 { format!("{seconds:.2}") } else { format!("{seconds:.1}") }
}

fn call_text(call: &SyscallRow) -> String {
    call.name.map_or_else(|| format!("system call {}", call.number), str::to_owned)
}

/// Maximum number of kinds of queued work that the table names.
const QUEUED_KINDS: usize = 3;

/// Describes a pool of threads: its workers, and what is queued.
fn pool_line(pool: &ExecutorRow) -> String {
    let workers = match (pool.busy, pool.workers) {
        (Some(busy), Some(workers)) => format!("{} of {} busy", busy, count(u64::from(workers), "thread")),
        _ => "its threads could not be read".to_owned(),
    };
    let queued = pool.queued.as_deref().unwrap_or_default();
    let all = queued.iter().map(|row| row.count).fold(0, u64::saturating_add);
    let first: Vec<String> =
        queued.iter().take(QUEUED_KINDS).map(|row| format!("{} × {}", row.count, row.item)).collect();
    let more = queued.len().saturating_sub(first.len());
    let more = if more > 0 { format!(" and {more} more kinds") } else { String::new() };
    format!("{}: {workers}, {} queued: {}{more}", pool.name, count(all, "item"), first.join(", "))
}

/// Describes what a thread waits for.
fn wait_line(wait: &WaitRow) -> String {
    let object = format!("{} ({})", wait.object, wait.r#type.as_deref().unwrap_or("type unknown"));
    let guess = if wait.confidence == Confidence::Heuristic { " (heuristic)" } else { "" };
    match wait.kind {
        WaitKind::Lock | WaitKind::Mutex | WaitKind::ReaderWriter => {}
        WaitKind::Condition | WaitKind::Once | WaitKind::Future | WaitKind::Channel | WaitKind::Futex => {
            return format!("waits for the {} {}{guess}", wait.kind, native_object(wait));
        }
        WaitKind::Pulse => return format!("waits for Monitor.Pulse on {object}{guess}"),
        WaitKind::Notify => return format!("waits for notify on {object}{guess}"),
        WaitKind::Park => return format!("is parked on {object}{guess}"),
        WaitKind::Join => {
            let whom = wait.owner_tid.map_or_else(|| object.clone(), tid_text);
            return format!("waits for thread {whom} to end{guess}");
        }
        WaitKind::Event => return format!("waits for {object} to be set{guess}"),
        WaitKind::Semaphore => return format!("waits for a place of {object}{guess}"),
        WaitKind::Task => return format!("waits for task {object} to complete{guess}"),
        WaitKind::Countdown => return format!("waits for the count of {object} to reach zero{guess}"),
        WaitKind::Barrier => return format!("waits for the other participants of {object}{guess}"),
        WaitKind::Take => return format!("waits for an item of {object}{guess}"),
        WaitKind::Add => return format!("waits for room in {object}{guess}"),
        WaitKind::ClassInit => {
            let class = wait.class.as_deref().unwrap_or("a class");
            return format!("waits for class {class} to be initialised, by {}{guess}", owner(wait));
        }
        WaitKind::Sleep => return "sleeps".to_owned(),
    }
    if wait.kind != WaitKind::Lock {
        let owner = match &wait.owner {
            Some(WaitOwnerRow { tid: Some(tid), confidence, state, .. }) => {
                let likely = if *confidence == Confidence::Exact { "" } else { "likely " };
                let ended = match state {
                    OwnerState::Alive => "",
                    OwnerState::Ended => ", which has ended",
                    OwnerState::Inherited => ", which was the parent's when it called fork",
                    OwnerState::Unknown => ", which is not in the core",
                };
                format!("{likely}held by thread {}{ended}", tid_text(*tid))
            }
            _ => "its holder is not recorded".to_owned(),
        };
        return format!("waits for the {} {}, {owner}{guess}", wait.kind, native_object(wait));
    }
    format!("waits for the lock of {object}, held by {}{guess}", owner(wait))
}

/// Names the thread that another one waits for.
fn owner(wait: &WaitRow) -> String {
    let managed = wait.owner_managed_id.map(|id| format!("managed id {id}"));
    match (wait.owner_tid, managed) {
        // As the list of virtual threads shows it.
        (None, _) if wait.owner_virtual => {
            wait.owner_managed_id.map_or_else(|| "a virtual thread".to_owned(), |id| format!("virtual thread #{id}"))
        }
        (Some(tid), Some(managed)) => format!("thread {}, {managed}", tid_text(tid)),
        (Some(tid), None) => format!("thread {}", tid_text(tid)),
        (None, Some(managed)) if wait.owner_ended => format!("{managed}, which has ended"),
        (None, Some(managed)) => format!("{managed}, which is no thread of the core"),
        (None, None) if wait.kind == WaitKind::ClassInit => "an unknown thread".to_owned(),
        (None, None) => match wait.reader_tids.as_slice() {
            [first, second] => format!("readers {} and {}", tid_text(*first), tid_text(*second)),
            [first, ..] => format!("reader {} and {} more", tid_text(*first), wait.reader_tids.len() - 1),
            [] => "an unknown owner".to_owned(),
        },
    }
}

/// A native object, with its library's word for it.
fn native_object(wait: &WaitRow) -> String {
    wait.r#type.as_ref().map_or_else(|| wait.object.to_string(), |of| format!("{} ({of})", wait.object))
}

/// Merges consecutive frames of the same function and counts them.
fn runs<'a>(frames: impl Iterator<Item = &'a FrameRow>) -> Vec<(&'a FrameRow, usize)> {
    let mut out: Vec<(&FrameRow, usize)> = Vec::new();
    for frame in frames {
        match out.last_mut() {
            Some((last, times)) if same_place(last, frame) => {
                *times += 1;
            }
            _ => out.push((frame, 1)),
        }
    }
    out
}

/// Whether two frames are at the same position. In interpreted code the line is
/// more precise than the address.
fn same_place(one: &FrameRow, two: &FrameRow) -> bool {
    one.ip == two.ip && one.kind == two.kind && (one.bci, one.line) == (two.bci, two.line) && one.title() == two.title()
}

fn frame_line(frame: &FrameRow, times: usize) -> String {
    let ip = frame.ip.map_or_else(|| " ".repeat(16), |ip| format!("{:016x}", ip.get()));
    let offset = match (frame.offset, &frame.method, frame.frame) {
        (Some(offset), Some(_), None) => format!("+{offset:#x}"),
        _ => String::new(),
    };
    let place = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!(" [{} @ {line}]", file.shown()),
        _ => String::new(),
    };
    let trust = match frame.trust {
        Trust::Signal => " (interrupted by a signal)",
        _ => FrameRow::mark(frame.doubt()),
    };
    let times = if times > 1 { format!("  × {times}") } else { String::new() };
    format!("  {ip} {}{offset}{place}{trust}{times}", frame.shown())
}

fn show_branch(
    doc: &mut Document<'_>,
    branch: &Branch<'_>,
    rows: &HashMap<u32, &ThreadRow>,
    libraries: &BTreeSet<String>,
) {
    let indent = " ".repeat((branch.depth * INDENT).min(MAX_INDENT));
    if branch.depth == 0 {
        doc.line("");
    }
    let mut named: Vec<(String, usize)> = Vec::new();
    for line in library_runs::lines(&branch.frames, libraries) {
        let title = format!("{}{}", line.text, FrameRow::mark(line.doubt));
        match named.last_mut() {
            Some((last, times)) if *last == title => *times += 1,
            _ => named.push((title, 1)),
        }
    }
    for (title, times) in named {
        let times = if times > 1 { format!("  × {times}") } else { String::new() };
        // Wrapped text is indented further than the next frame.
        doc.titled(format!("{indent}{:>4} {title}{times}", branch.count), indent.len() + COUNT + 2);
    }
    if !branch.tids.is_empty() {
        let crashed = |tid: &u32| rows.get(tid).is_some_and(|t| t.crashed);
        let listed: Vec<String> = branch.tids.iter().take(MAX_LISTED).map(|&tid| tid_text(tid)).collect();
        let more = branch.tids.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        doc.line(format!("{indent}   ~ {}{more}", listed.join(" ")));
        for thread in branch.tids.iter().filter(|tid| crashed(tid)).filter_map(|tid| rows.get(tid)) {
            let signal = thread.signal_name.as_deref().map_or_else(String::new, |name| format!(" by {name}"));
            doc.line(format!("{indent}     thread {} crashed{signal}", tid_text(thread.tid)));
        }
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for wait in branch.tids.iter().filter_map(|tid| rows.get(tid)?.waits_for.as_ref()) {
            *lines.entry(wait_line(wait)).or_insert(0) += 1;
        }
        let more = lines.len().saturating_sub(MAX_LISTED);
        for (line, times) in lines.into_iter().take(MAX_LISTED) {
            let times = if times < branch.tids.len() { format!(" ({times} of them)") } else { String::new() };
            doc.line(format!("{indent}     {line}{times}"));
        }
        if more > 0 {
            doc.line(format!("{indent}     and {more} other objects"));
        }
    }
}

#[derive(Default, Serialize)]
struct GroupCsv {
    group: usize,
    count: usize,
    method: String,
}

#[derive(Default, Serialize)]
struct CsvRow<'a> {
    tid: u32,
    managed_id: Option<u32>,
    ip: Option<Addr>,
    sp: Addr,
    kind: FrameRowKind,
    runtime: Option<&'a str>,
    method: Option<&'a str>,
    frame: Option<&'static str>,
    method_desc: Option<Addr>,
    module: Option<&'a str>,
    token: Option<&'a str>,
    offset: Option<u64>,
    il_offset: Option<i64>,
    bci: Option<i64>,
    how: Option<Execution>,
    file: Option<&'a str>,
    line: Option<u32>,
    trust: Trust,
}

impl<'a> CsvRow<'a> {
    fn of(thread: &ThreadRow, frame: &'a FrameRow) -> CsvRow<'a> {
        CsvRow {
            tid: thread.tid,
            managed_id: thread.managed_id,
            ip: frame.ip,
            sp: frame.sp,
            kind: frame.kind,
            runtime: frame.runtime.as_deref(),
            method: frame.method.as_deref(),
            frame: frame.frame,
            method_desc: frame.method_desc,
            module: frame.module.as_deref(),
            token: frame.token.as_deref(),
            offset: frame.offset,
            il_offset: frame.il_offset,
            bci: frame.bci,
            how: frame.how,
            file: frame.file.as_deref(),
            line: frame.line,
            trust: frame.trust,
        }
    }
}
