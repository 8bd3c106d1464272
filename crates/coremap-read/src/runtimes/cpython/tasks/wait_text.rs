//! Descriptions of what a task waits for.

use std::collections::HashMap;

use super::find::{PendingTask, TaskFinder};
use crate::addr::Addr;
use crate::bytes::printable;
use crate::runtimes::cpython::frames::PyFrame;

/// Type name of the future of `asyncio.gather`.
const GATHER: &str = "asyncio.tasks._GatheringFuture";

/// Functions of asyncio that wait for a future: end of the file's path, name, description.
const FUNCTIONS: [(&str, &str, &str); 5] = [
    ("/asyncio/tasks.py", "wait_for", "asyncio.wait_for"),
    ("/asyncio/tasks.py", "_wait", "asyncio.wait"),
    ("/asyncio/tasks.py", "wait", "asyncio.wait"),
    ("/asyncio/taskgroups.py", "__aexit__", "the tasks of a TaskGroup"),
    ("/asyncio/base_events.py", "sock_accept", "a connection"),
];

/// Files of asyncio whose methods wait for their own object.
const OBJECTS: [&str; 4] = ["/asyncio/locks.py", "/asyncio/queues.py", "/asyncio/streams.py", "/asyncio/subprocess.py"];

pub(super) fn is_gather(finder: &TaskFinder<'_, '_>, future: Addr) -> bool {
    finder.heap.type_of(future).is_some_and(|kind| kind.name == GATHER)
}

/// Description of a timer.
const SLEEP: &str = "asyncio.sleep";

/// What a task waits for, and the same without details that differ between similar tasks.
pub(super) fn awaiting(
    finder: &TaskFinder<'_, '_>,
    task: &PendingTask,
    names: &HashMap<Addr, Option<String>>,
) -> (String, String) {
    let text = description(finder, task, names);
    let group_text = if text.starts_with(SLEEP) { SLEEP.to_owned() } else { text.clone() };
    (text, group_text)
}

fn description(finder: &TaskFinder<'_, '_>, task: &PendingTask, names: &HashMap<Addr, Option<String>>) -> String {
    let Some(waiter) = task.waiter else {
        return "nothing: it is ready to run, or has not started".to_owned();
    };
    if finder.is_pending(waiter) == Some(false) {
        return "nothing: what it awaited is done; it has not resumed yet".to_owned();
    }
    if let Some(name) = names.get(&waiter) {
        let name = name.as_ref().map_or_else(|| waiter.to_string(), |name| format!("\"{name}\""));
        return format!("the task {name}");
    }
    if is_gather(finder, waiter) {
        let gather = finder.gathered(waiter);
        let at_least = if gather.is_whole() { "" } else { "at least " };
        return format!("asyncio.gather of {}, {at_least}{} of them pending", gather.count, gather.pending);
    }
    let by_function = task.coroutines.first().and_then(|(_, _, frame)| by_function(finder, frame));
    by_function.unwrap_or_else(|| {
        let kind = finder.heap.type_of(waiter).map(|kind| printable(&kind.name).into_owned());
        format!("a {}", kind.as_deref().unwrap_or("future"))
    })
}

/// The first argument of a function.
fn first_argument(finder: &TaskFinder<'_, '_>, frame: &PyFrame) -> Option<Addr> {
    let word = finder.objects.word_at(frame.variables(finder.python.runtime())?, 0)?;
    Some(Addr::new(word & !7)).filter(|at| finder.objects.is_object(*at))
}

fn is_sleep(file: &str, name: &str) -> bool {
    file.ends_with("/asyncio/tasks.py") && name == "sleep"
}

/// The object with the time that a frame of [`SLEEP`] sleeps.
pub(super) fn delay(finder: &TaskFinder<'_, '_>, frame: &PyFrame) -> Option<Addr> {
    let code = finder.python.all_code().codes.code(frame.code)?;
    let name = code.name().rsplit('.').next().unwrap_or_default();
    if is_sleep(code.file(), name) { first_argument(finder, frame) } else { None }
}

fn by_function(finder: &TaskFinder<'_, '_>, frame: &PyFrame) -> Option<String> {
    let code = finder.python.all_code().codes.code(frame.code)?;
    let name = code.name().rsplit('.').next().unwrap_or_default();
    if is_sleep(code.file(), name) {
        let seconds = first_argument(finder, frame).and_then(|delay| {
            let kind = finder.objects.type_of(delay).and_then(|kind| finder.heap.type_at(kind))?;
            match kind.name.as_str() {
                "float" => finder.objects.float(delay).map(|seconds| seconds.to_string()),
                _ => finder.objects.integer_text(delay).filter(|_| finder.objects.is_int(delay)),
            }
        });
        return Some(seconds.map_or_else(|| SLEEP.to_owned(), |s| format!("{SLEEP} of {s} s")));
    }
    if let Some((.., words)) = FUNCTIONS.iter().find(|(file, of, _)| *of == name && code.file().ends_with(file)) {
        return Some((*words).to_owned());
    }
    if OBJECTS.iter().any(|file| code.file().ends_with(file)) {
        let object = first_argument(finder, frame)?;
        let kind = finder.objects.type_of(object).and_then(|kind| finder.heap.type_at(kind))?;
        return Some(format!("{}.{name} ({object})", printable(&kind.name)));
    }
    None
}
