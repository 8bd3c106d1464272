//! Notes on the elements of a collection: the methods that timers call, and the methods that wait for tasks.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, TypeIndex};
use crate::runtimes::clr_gc::is_library;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::threads::short;
use crate::units::exact;

const TIMER: &str = "System.Threading.TimerQueueTimer";
const CALLBACK: &str = "System.Threading.TimerCallback";
/// What CancellationToken.Register makes, and the field with its delegate, since .NET 5.
const REGISTRATION: &str = "System.Threading.CancellationTokenSource+CallbackNode";
const REGISTERED: [&str; 2] = ["Callback", "CallbackState"];

/// The field by which a delegate is known (System.Delegate).
const POINTER: &str = "_methodPtr";

const SOURCE: &str = "System.Threading.Tasks.TaskCompletionSource";
const TASKS: [&str; 2] = ["System.Threading.Tasks.Task", "System.Threading.Tasks.Task<"];

/// Fields with a timer's callback and state, and with the task of a completion source, by version.
const CALLS: &str = "_timerCallback";
const STATE: &str = "_state";
const COMPLETES: [&str; 2] = ["_task", "m_task"];

impl CoreClr<'_> {
    /// A sentence on the elements of a collection. All are of one type.
    pub(super) fn note_on(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        let name = self.object_heap()?.type_name(kind);
        let first = *elements.first()?;
        let references = |field: &str| {
            let offset = self.field_of(first, field)?.checked_since(first)?;
            let reference = |object: &Addr| self.types().memory.ptr(object.checked_add(offset)?).ok();
            Some(elements.iter().filter_map(reference).filter(|at| !at.is_null()).collect::<Vec<Addr>>())
        };
        match name.as_str() {
            TIMER => self.note_on_timers(elements.len(), &references(CALLS)?, &references(STATE).unwrap_or_default()),
            REGISTRATION => {
                let delegates: Vec<Addr> = REGISTERED.iter().filter_map(|field| references(field)).flatten().collect();
                self.note_on_delegates(elements.len(), &delegates)
            }
            CALLBACK => self.note_on_timers(elements.len(), elements, &[]),
            name if name == TASKS[0] || name.starts_with(TASKS[1]) => self.note_on_tasks(elements),
            name if name.starts_with(SOURCE) => {
                self.note_on_tasks(&COMPLETES.iter().find_map(|field| references(field))?)
            }
            _ if self.field_of(first, POINTER).is_some() => self.note_on_delegates(elements.len(), elements),
            _ => None,
        }
    }

    /// Returns a sentence on the method that most of `delegates` call. The `elements` elements are these delegates, or
    /// contain them.
    fn note_on_delegates(&self, elements: usize, delegates: &[Addr]) -> Option<String> {
        let methods = delegates.iter().filter_map(|delegate| self.delegate_method(*delegate));
        let (method, number) = most(methods.map(|name| short(&name)))?;
        Some(match number >= elements as u64 {
            true => format!("All of them call {method}."),
            false => format!("{} of them call {method}.", exact(number)),
        })
    }

    /// Returns a sentence on timers: the methods that they call, from their delegates, and the methods that wait for
    /// them, from their states. `timers` is their number.
    fn note_on_timers(&self, timers: usize, delegates: &[Addr], states: &[Addr]) -> Option<String> {
        let methods = delegates.iter().filter_map(|delegate| self.delegate_method(*delegate));
        let called = most(methods.map(|name| short(&name)));
        let is_all = called.as_ref().is_some_and(|(_, number)| *number >= timers as u64);
        // Task.Delay has a timer of the library, whose state is the task.
        let delayed = (!is_all && !states.is_empty()).then(|| {
            let tasks = self.tasks(&Progress::silent());
            let delays = states.iter().filter_map(|state| tasks.index_of(*state));
            most(delays.filter_map(|task| self.own_caller(tasks, task)))
        });
        let called = called.map(|(method, number)| match is_all {
            true => format!("They are timers that call {method}."),
            false => format!("{} of the timers call {method}.", exact(number)),
        });
        let delayed = delayed.flatten();
        let delayed = delayed.map(|(method, number)| format!("{} calls of {method} wait for timers.", exact(number)));
        let text = called.into_iter().chain(delayed).collect::<Vec<_>>().join(" ");
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns a sentence on the method that waits for most of some tasks.
    fn note_on_tasks(&self, of: &[Addr]) -> Option<String> {
        let tasks = self.tasks(&Progress::silent());
        let pending: Vec<u32> = of.iter().filter_map(|task| tasks.index_of(*task)).collect();
        let (method, waiters) = most(pending.iter().filter_map(|&i| self.own_caller(tasks, i)))?;
        Some(format!(
            "{} of them are not completed; {} calls of {method} wait for them.",
            exact(pending.len() as u64),
            exact(waiters)
        ))
    }
}

/// The most frequent of `names` that is a method of the program, and how often it occurs.
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
