//! Chains of runtimes that report their tasks as [`AsyncTask`], such as asyncio's.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::commands::dotnet::async_chains::report::{AsyncChainRow, AsyncFrameRow, AsyncReport};
use crate::diag::WarningCode;
use crate::limits;
use crate::report::{AsyncEnd, AsyncPart, Name};
use crate::runtimes::api::{AsyncFunctions, AsyncTask};
use crate::session::Session;
use crate::sums::SaturatingSum;

/// Maximum number of objects listed per chain.
const MAX_LISTED: usize = 64;

/// Equal chains have the same key: what they wait for, their functions with lines, and their end.
type Key = (String, Vec<(String, Option<u32>)>, AsyncEnd);

/// Adds the chains of all runtimes except .NET.
pub(super) fn of_others(session: &Session<'_>, merge: bool, report: &mut AsyncReport) {
    for runtime in session.runtimes() {
        let AsyncFunctions::Tasks(tasks) = runtime.async_functions() else { continue };
        let mut all = Vec::new();
        tasks.each(&mut |task| all.push(task));
        report.methods += all.iter().map(|task| task.frames.len() as u64).saturating_sum();
        report.ready += all.iter().filter(|task| task.awaiting.starts_with("nothing: what")).count() as u64;
        if chains(&all, merge, report) {
            let more = "too many chains of tasks: only the chains followed so far are listed";
            session.process.diag.partial(WarningCode::Limit, more);
        }
    }
}

/// Follows each chain from a task that waits for no other task to one that no task waits for. Returns true if the limit
/// was reached.
fn chains(all: &[AsyncTask], merge: bool, report: &mut AsyncReport) -> bool {
    let by_address: HashMap<Addr, usize> = all.iter().enumerate().map(|(i, task)| (task.address, i)).collect();
    let waits: HashSet<Addr> = all.iter().flat_map(|task| task.awaited_by.iter().copied()).collect();
    let mut merger = Merger { merge, index: HashMap::new(), roots: Vec::new(), report };
    let mut reported: HashSet<usize> = HashSet::new();
    let leaves = (0..all.len()).filter(|i| all.get(*i).is_some_and(|task| !waits.contains(&task.address)));
    let mut steps = limits::MAX_PY_FRAMES;
    // Tasks that wait for each other in a circle have no first one, so every task is tried as a start.
    let starts: Vec<usize> = leaves.chain(0..all.len()).collect();
    for (n, start) in starts.into_iter().enumerate() {
        if n >= all.len().saturating_sub(waits.len()) && reported.contains(&start) {
            continue;
        }
        let mut work = vec![vec![start]];
        while let Some(path) = work.pop() {
            let Some(task) = path.last().and_then(|i| all.get(*i)) else { continue };
            if steps < path.len() {
                return true;
            }
            steps -= path.len();
            reported.extend(path.last());
            let next: Vec<usize> = task.awaited_by.iter().filter_map(|at| by_address.get(at).copied()).collect();
            let (circle, on): (Vec<usize>, Vec<usize>) = next.into_iter().partition(|i| path.contains(i));
            if !circle.is_empty() || on.is_empty() {
                let end = if circle.is_empty() { AsyncEnd::Nobody } else { AsyncEnd::Circle };
                merger.add(&path.iter().filter_map(|i| all.get(*i)).collect::<Vec<_>>(), end);
            }
            work.extend(on.into_iter().map(|i| [&path[..], &[i]].concat()));
        }
    }
    false
}

struct Merger<'r> {
    merge: bool,
    index: HashMap<Key, usize>,
    /// Index of each row in the report, and the different objects its chains wait for.
    roots: Vec<(usize, HashSet<Addr>)>,
    report: &'r mut AsyncReport,
}

impl Merger<'_> {
    fn add(&mut self, tasks: &[&AsyncTask], end: AsyncEnd) {
        let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else { return };
        self.report.total += 1;
        let awaiting = printable(&first.awaiting).into_owned();
        let frames: Vec<AsyncFrameRow> = tasks.iter().flat_map(|task| rows(task)).collect();
        let names = frames.iter().map(|f| (f.method.clone().unwrap_or_else(|| f.r#type.to_string()), f.line)).collect();
        let alike = printable(&first.group_text).into_owned();
        let key = (alike.clone(), names, end);
        let known = self.index.get(&key).copied().filter(|_| self.merge);
        let at = known.unwrap_or_else(|| {
            let at = self.roots.len();
            let row = AsyncChainRow { awaiting: awaiting.clone(), frames, end, ..AsyncChainRow::default() };
            self.roots.push((self.report.chains.len(), HashSet::new()));
            self.report.chains.push(row);
            self.index.insert(key, at);
            at
        });
        let Some((row, roots)) = self.roots.get_mut(at) else { return };
        let Some(row) = self.report.chains.get_mut(*row) else { return };
        roots.insert(first.awaited);
        if row.awaiting != awaiting {
            row.awaiting.clone_from(&alike);
        }
        row.count += 1;
        row.roots = roots.len() as u64;
        if row.objects.len() < MAX_LISTED {
            row.objects.push(last.address);
            row.names.push(last.name.clone().unwrap_or_default());
        }
        if row.count == 1
            && let Some(frame) = row.frames.first_mut()
        {
            frame.awaiting = Some(awaiting);
        }
    }
}

/// Rows of a task: its functions, latest call first, then the task itself.
fn rows(task: &AsyncTask) -> Vec<AsyncFrameRow> {
    let function = |frame: &crate::runtimes::api::AsyncFrame| {
        let (method, source) = (&frame.activation.method, &frame.activation.position.source);
        AsyncFrameRow {
            object: frame.object,
            kind: AsyncPart::Method,
            r#type: Name::from(&*printable(&frame.kind)),
            method: Some(printable(&method.name).into_owned()),
            module: Some(printable(&method.module).into_owned()),
            file: source.file.as_deref().map(Name::from),
            line: source.line,
            ..AsyncFrameRow::default()
        }
    };
    let own = AsyncFrameRow {
        object: task.address,
        kind: AsyncPart::Task,
        r#type: Name::from(&*task.kind),
        ..AsyncFrameRow::default()
    };
    task.frames.iter().map(function).chain([own]).collect()
}
