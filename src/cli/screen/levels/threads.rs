//! The lists of threads: their activity, and the memory of their stacks.

use std::collections::HashMap;

use coremap::commands::stacks::StackRow;
use coremap::commands::threads::GroupRow;
use coremap::program::tid_text;
use coremap::program::units::{count, exact, human};
use coremap::report::{StackState, ThreadRow, WaitKind};

use crate::cli::screen::level::{Column, Level, Mark, Opens, Row};
use crate::cli::screen::look::Threads;

pub(super) fn level(report: &Threads, grouping: usize) -> Option<Level> {
    let level = if grouping == 1 { by_stack(report) } else { by_thread(report) };
    let total = &report.stacks.total;
    let written = total.written.map_or_else(String::new, |written| format!(", {} written", human(written)));
    let groups = report.threads.groups.as_ref().map_or(0, Vec::len) as u64;
    let note = format!(
        "{}, {}; {} reserve {}{written}",
        count(report.threads.threads.len() as u64, "thread"),
        count(groups, "different stack"),
        count(total.count, "stack"),
        human(total.reserved),
    );
    Some(Level { note: Some(note), ..level })
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), human)
}

/// A measure of stacks: its title, and its value for a stack.
type Takes = (&'static str, fn(&StackRow) -> Option<u64>);

/// Chooses the measure: resident or written bytes if known, else bytes in use.
fn takes(report: &Threads) -> Takes {
    let known = |(_, of): &Takes| report.stacks.stacks.iter().any(|stack| of(stack).is_some());
    let best: [Takes; 2] = [("RSS", |stack| stack.resident.rss), ("Written", |stack| stack.written)];
    best.into_iter().find(known).unwrap_or(("In use", |stack| stack.in_use))
}

fn by_thread(report: &Threads) -> Level {
    let measure = takes(report);
    let threads: HashMap<u32, &ThreadRow> = report.threads.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let rows = report.stacks.stacks.iter().map(|stack| {
        let thread = stack.tid.and_then(|tid| threads.get(&tid).copied());
        one(stack, thread, measure.1)
    });
    let columns = vec![
        Column::number("Tid", 0),
        Column::text("Name", 2),
        Column::text("Role", 4),
        Column::number("In use", 5),
        Column::number("Reserved", 3),
    ];
    Level { noun: "stack", measure: measure.0, name: "Activity", columns, rows: rows.collect(), ..Level::default() }
}

/// Makes a row for a stack, with the thread that owns it.
fn one(stack: &StackRow, thread: Option<&ThreadRow>, takes: fn(&StackRow) -> Option<u64>) -> Row {
    let tid = stack.tid.or(stack.used_by);
    let name = thread.and_then(|thread| thread.managed_name.as_ref().or(thread.name.as_ref())).or(stack.name.as_ref());
    let role = thread.and_then(|thread| thread.role).unwrap_or_default();
    let does = match stack.state {
        StackState::Cached => "(cached after its thread ended)".to_owned(),
        StackState::Inherited => "(copied from the parent by fork)".to_owned(),
        StackState::Fiber => "(fiber that waits)".to_owned(),
        StackState::Signal => "(signal stack)".to_owned(),
        StackState::Switched => "(switched-to stack)".to_owned(),
        _ => stack.does.clone().unwrap_or_else(|| "-".to_owned()),
    };
    let mut about = Vec::new();
    if let (Some(low), Some(high)) = (stack.low, stack.high) {
        about.push(("stack", format!("{low} - {high}, {}", stack.state)));
    }
    let sizes = [
        ("reserved", stack.reserved),
        ("guard", stack.guard),
        ("in use", stack.in_use),
        ("touched", stack.touched),
        ("in core", Some(stack.in_core)),
        ("written", stack.written),
        ("RSS", stack.resident.rss),
    ];
    about.push(("bytes", sizes.map(|(name, bytes)| format!("{name} {}", bytes.map_or("-".into(), exact))).join(" · ")));
    if let Some(thread) = thread {
        let details = [
            ("state", thread.state.clone()),
            ("exception", thread.exception.as_ref().map(|thrown| thrown.r#type.clone())),
            ("crashed", thread.crashed.then(|| thread.signal_name.clone().unwrap_or_else(|| "yes".to_owned()))),
            ("waits for", thread.waits_for.as_ref().map(waits)),
        ];
        about.extend(details.into_iter().filter_map(|(what, text)| Some((what, text?))));
    }
    let confidence = stack.confidence.map_or_else(String::new, |confidence| format!(" ({})", confidence.name()));
    about.push(("evidence", format!("{}{confidence}", stack.source)));
    Row {
        key: format!("{}{}", tid.map_or_else(String::new, |tid| tid.to_string()), stack.low.unwrap_or_default()),
        name: does,
        bytes: takes(stack),
        cells: vec![
            tid.map_or_else(|| "-".to_owned(), tid_text),
            name.cloned().unwrap_or_default(),
            role.to_owned(),
            size(stack.in_use),
            size(stack.reserved),
        ],
        mark: if stack.crashed { Mark::Critical } else { Mark::None },
        about,
        command: stack.tid.map(|tid| vec!["threads".into(), "--tid".into(), tid.to_string()]),
        opens: stack.tid.map_or(Opens::Nothing, Opens::Stack),
        ..Row::default()
    }
}

fn waits(wait: &coremap::report::WaitRow) -> String {
    let of = wait.r#type.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let of = wait.class.as_ref().map_or(of, |class| format!(" ({class})"));
    let role = match wait.kind {
        WaitKind::Join => "thread",
        WaitKind::ClassInit => "initialised by",
        WaitKind::Lock
        | WaitKind::Mutex
        | WaitKind::ReaderWriter
        | WaitKind::Pulse
        | WaitKind::Notify
        | WaitKind::Park
        | WaitKind::Event
        | WaitKind::Semaphore
        | WaitKind::Task
        | WaitKind::Countdown
        | WaitKind::Barrier
        | WaitKind::Take
        | WaitKind::Add
        | WaitKind::Sleep
        | WaitKind::Condition
        | WaitKind::Once
        | WaitKind::Future
        | WaitKind::Channel
        | WaitKind::Futex => "held by",
    };
    let owner = wait.owner_tid.map_or_else(String::new, |tid| format!(", {role} {}", tid_text(tid)));
    format!("{} {}{of}{owner}", wait.kind, wait.object)
}

/// Maximum number of thread ids listed per group.
const LISTED: usize = 32;

fn by_stack(report: &Threads) -> Level {
    let measure = takes(report);
    let own = report.stacks.stacks.iter().filter_map(|stack| Some((stack.tid?, stack)));
    let stacks: HashMap<u32, &StackRow> = own.collect();
    let row = |group: &GroupRow| {
        let all = || group.tids.iter().filter_map(|tid| stacks.get(tid).copied());
        let sum = |of: fn(&StackRow) -> Option<u64>| {
            all().map(of).try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)))
        };
        let does = all().find_map(|stack| stack.does.clone());
        let top = group.frames.first().map(|frame| frame.title());
        let tids: Vec<String> = group.tids.iter().take(LISTED).map(|&tid| tid_text(tid)).collect();
        let more = group.tids.len().saturating_sub(tids.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let first = group.tids.first().copied();
        Row {
            key: group.frames.iter().map(|frame| frame.name()).collect::<Vec<_>>().join(";"),
            name: does.or(top).unwrap_or_else(|| "(no frames)".to_owned()),
            bytes: sum(measure.1),
            count: Some(group.count as u64),
            cells: vec![exact(group.count as u64), exact(group.frames.len() as u64), size(sum(|s| s.reserved))],
            about: vec![("threads", format!("{}{more}", tids.join(", ")))],
            command: Some(vec!["threads".into(), "--group".into()]),
            opens: first.map_or(Opens::Nothing, Opens::Stack),
            ..Row::default()
        }
    };
    let groups = report.threads.groups.iter().flatten();
    let columns = vec![Column::number("Threads", 0), Column::number("Frames", 4), Column::number("Reserved", 3)];
    Level {
        noun: "stack",
        measure: "Written",
        name: "Activity",
        columns,
        rows: groups.map(row).collect(),
        ..Level::default()
    }
}
