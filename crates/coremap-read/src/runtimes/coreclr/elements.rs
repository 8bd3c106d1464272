//! What the elements of a collection are for: whom timers call, and who waits for tasks.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, TypeIndex};
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::holders::is_library;
use crate::runtimes::coreclr::threads::short;
use crate::units::exact;

const TIMER: &str = "System.Threading.TimerQueueTimer";
const CALLBACK: &str = "System.Threading.TimerCallback";
const SOURCE: &str = "System.Threading.Tasks.TaskCompletionSource";
const TASKS: [&str; 2] = ["System.Threading.Tasks.Task", "System.Threading.Tasks.Task<"];

/// Fields with the callback of a timer, and with the task of a completion source, by version.
const CALLS: &str = "_timerCallback";
const STATE: &str = "_state";
const COMPLETES: [&str; 2] = ["_task", "m_task"];

impl CoreClr<'_> {
    /// A sentence on the elements of one type.
    pub(super) fn note_on(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        let name = self.object_heap()?.type_name(kind);
        let first = *elements.first()?;
        // All are of one type.
        let offset = |field: &str| self.field_of(first, field)?.checked_since(first);
        let reference = |object: &Addr, offset: u64| {
            let at = object.checked_add(offset)?;
            self.types().memory.ptr(at).ok().filter(|at| !at.is_null())
        };
        if name == TIMER || name == CALLBACK {
            let at = if name == TIMER { Some(offset(CALLS)?) } else { None };
            let delegates = elements.iter().filter_map(|object| at.map_or(Some(*object), |at| reference(object, at)));
            let methods = delegates.filter_map(|delegate| self.delegate_method(delegate)).map(|name| short(&name));
            let called = most(methods);
            // Task.Delay has a timer of the library, whose state is the task.
            let state = if name == TIMER { offset(STATE) } else { None };
            let all = called.as_ref().is_some_and(|(_, number)| *number >= elements.len() as u64);
            let tasks = state.filter(|_| !all).map(|at| (at, self.tasks(&Progress::silent())));
            let delayed = tasks.and_then(|(at, tasks)| {
                let of = elements.iter().filter_map(|object| tasks.index_of(reference(object, at)?));
                most(of.filter_map(|task| self.own_caller(tasks, task)))
            });
            let called = called.map(|(method, number)| match all {
                true => format!("They are timers that call {method}."),
                false => format!("{} of the timers call {method}.", exact(number)),
            });
            let delayed =
                delayed.map(|(method, number)| format!("{} calls of {method} wait for timers.", exact(number)));
            let text = called.into_iter().chain(delayed).collect::<Vec<_>>().join(" ");
            return Some(text).filter(|text| !text.is_empty());
        }
        let is_task = name == TASKS[0] || name.starts_with(TASKS[1]);
        if !is_task && !name.starts_with(SOURCE) {
            return None;
        }
        let at = if is_task { None } else { Some(COMPLETES.iter().find_map(|field| offset(field))?) };
        let tasks = self.tasks(&Progress::silent());
        let of = elements.iter().filter_map(|object| at.map_or(Some(*object), |at| reference(object, at)));
        let pending: Vec<u32> = of.filter_map(|task| tasks.index_of(task)).collect();
        let (method, waiters) = most(pending.iter().filter_map(|&i| self.own_caller(tasks, i)))?;
        Some(format!(
            "{} of them are not completed; {} calls of {method} wait for them.",
            exact(pending.len() as u64),
            exact(waiters)
        ))
    }
}

/// The most frequent name of a method of the program.
fn most(names: impl Iterator<Item = String>) -> Option<(String, u64)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for name in names.filter(|name| !is_library(name)) {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().min_by_key(|(name, count)| (Reverse(*count), name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_method_of_the_program_is_named() {
        let names = ["System.Threading.Timer.Fire", "System.Threading.Timer.Fire", "Hub.Beat", "Hub.Beat", "Hub.Stop"];
        assert_eq!(most(names.into_iter().map(str::to_owned)), Some(("Hub.Beat".to_owned(), 2)));
        assert_eq!(most(std::iter::once("System.Void.M".to_owned())), None);
    }
}
