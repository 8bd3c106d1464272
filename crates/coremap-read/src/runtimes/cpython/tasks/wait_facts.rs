//! Tasks as parties of the wait graph: what each waits for, and the locks that it is inside of.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::find::{PendingTask, TaskFinder};
use crate::addr::{Addr, WORD};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::runtimes::api::{PartyId, TaskFact, TypeIndex, WaitFact, WaitNeeds, WaitOwner};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::{PyFrame, is_of_the_library};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;
use crate::runtimes::cpython::threads::{first_argument, held_by_frame};
use crate::units::{self, exact};

/// Maximum number of users of one collection that are named.
const USERS: usize = 4;

/// The file with asyncio's locks.
const LOCKS: &str = "/asyncio/locks.py";

mod how {
    pub(super) const WITH: &str = "the owner is inside the lock's async with statement";
    pub(super) const TASK: &str = "the task awaits that task";
    pub(super) const FUTURE: &str = "the future that the task awaits";
}

impl CPython<'_> {
    /// All tasks that are not done.
    pub(in crate::runtimes::cpython) fn task_facts(&self) -> Vec<TaskFact> {
        let Some(finder) = TaskFinder::new(self) else { return Vec::new() };
        let tasks = finder.tasks();
        let wanted: Vec<Option<Addr>> = tasks.iter().map(|task| self.wanted_lock(task)).collect();
        let mut held: HashMap<Addr, Vec<Addr>> = HashMap::new();
        for (task, wanted) in tasks.iter().zip(&wanted) {
            for (_, _, frame) in &task.coroutines {
                // While a task waits for a lock, its `__aexit__` is on the stack already.
                for object in held_by_frame(self, frame).into_iter().filter(|object| Some(*object) != *wanted) {
                    held.entry(object).or_default().push(task.address);
                }
            }
        }
        let by_address: HashMap<Addr, ()> = tasks.iter().map(|task| (task.address, ())).collect();
        let owner = |task: &Addr| WaitOwner { party: PartyId::Task(*task), confidence: Confidence::Exact };
        let fact = |(task, wanted): (&PendingTask, Option<Addr>)| {
            let wait = match (wanted, task.waiter) {
                (Some(lock), _) => Some(WaitFact {
                    object: lock,
                    r#type: self.type_name_of(lock),
                    owners: held.get(&lock).into_iter().flatten().map(owner).collect(),
                    needs: match self.type_name_of(lock) {
                        Some(kind) if kind.ends_with("Semaphore") => WaitNeeds::Any,
                        _ => WaitNeeds::All,
                    },
                    relation: "held",
                    evidence: how::WITH,
                    ..WaitFact::default()
                }),
                (None, Some(waiter)) if by_address.contains_key(&waiter) => Some(WaitFact {
                    object: waiter,
                    r#type: self.type_name_of(waiter),
                    owners: vec![owner(&waiter)],
                    relation: "joined",
                    evidence: how::TASK,
                    ..WaitFact::default()
                }),
                (None, Some(waiter)) => Some(WaitFact {
                    object: waiter,
                    r#type: self.type_name_of(waiter),
                    evidence: how::FUTURE,
                    ..WaitFact::default()
                }),
                (None, None) => None,
            };
            let codes = &self.all_code().codes;
            let mut own = task.coroutines.iter().filter_map(|(_, _, frame)| {
                let code = codes.code(frame.code)?;
                (!is_of_the_library(code.file())).then(|| code.name().to_owned())
            });
            TaskFact {
                address: task.address,
                name: task.name.clone(),
                place: own.next(),
                caller: own.next(),
                activity: None,
                wait,
                detail: None,
            }
        };
        tasks.iter().zip(wanted).map(fact).collect()
    }

    /// Tasks that wait for a lock or for another task, and have one of `objects` in a variable of their coroutines.
    /// None if there are more than a reader wants to see.
    pub(in crate::runtimes::cpython) fn tasks_with(&self, objects: &[Addr]) -> Vec<TaskFact> {
        let Some(finder) = TaskFinder::new(self).filter(|_| !objects.is_empty()) else { return Vec::new() };
        let has = |task: &PendingTask| {
            task.coroutines.iter().any(|(_, _, frame)| self.variables_of(frame).any(|at| objects.contains(&at)))
        };
        let with: HashSet<Addr> = finder.tasks().iter().filter(|task| has(task)).map(|task| task.address).collect();
        let is_known = |fact: &TaskFact| fact.wait.as_ref().is_some_and(|wait| !wait.relation.is_empty());
        let found: Vec<TaskFact> =
            self.task_facts().into_iter().filter(|fact| with.contains(&fact.address) && is_known(fact)).collect();
        if found.len() > USERS { Vec::new() } else { found }
    }

    /// Objects in the variables of a frame.
    fn variables_of(&self, frame: &PyFrame) -> impl Iterator<Item = Addr> {
        let runtime = self.runtime();
        let code = runtime.view("PyCodeObject", frame.code);
        let count = code.u32("co_nlocalsplus").or_else(|_| code.u32("co_nlocals")).map_or(0, u64::from);
        let slots = frame.variables(runtime).map(|first| (first, count.min(limits::MAX_PY_SLOTS)));
        slots.into_iter().flat_map(move |(first, count)| {
            (0..count).filter_map(move |slot| {
                let word = runtime.memory.peek_u64(first.checked_add(slot.checked_mul(WORD)?)?).ok()?;
                Some(Addr::new(word & !STACK_REF_TAGS)).filter(|at| !at.is_null())
            })
        })
    }

    /// A sentence on the tasks among `elements`: how many are pending, and where most of them are.
    pub(in crate::runtimes::cpython) fn note_on_tasks(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        let name = self.objects()?.type_of_kind(kind)?.name.clone();
        if name.rsplit('.').next() != Some("Task") {
            return None;
        }
        let pending: HashMap<Addr, TaskFact> = self.task_facts().into_iter().map(|task| (task.address, task)).collect();
        let mut ways: BTreeMap<(Option<&str>, Option<&str>), u64> = BTreeMap::new();
        let mut count = 0_u64;
        for task in elements.iter().filter_map(|at| pending.get(at)) {
            let awaits = task.wait.as_ref().and_then(|wait| wait.r#type.as_deref());
            *ways.entry((task.place.as_deref(), awaits)).or_default() += 1;
            count += 1;
        }
        let all = units::count(elements.len() as u64, "task");
        let ((place, awaits), most) = ways.into_iter().max_by_key(|(_, number)| *number)?;
        let place = place.map_or_else(String::new, |place| format!(" in {place}"));
        let awaits = awaits.map_or_else(|| "is ready to run".to_owned(), |kind| format!("awaits a {kind}"));
        let each = if most == count { "each".to_owned() } else { format!("each of {}", exact(most)) };
        Some(format!("{} of {all} are pending: {each}{place} {awaits}.", exact(count)))
    }

    /// The lock that a task's innermost coroutine acquires.
    fn wanted_lock(&self, task: &PendingTask) -> Option<Addr> {
        let (_, _, frame) = task.coroutines.first()?;
        let code = self.all_code().codes.code(frame.code).filter(|code| code.file().ends_with(LOCKS))?;
        let name = code.name().rsplit('.').next().unwrap_or_default().to_owned();
        task.waiter.filter(|_| name == "acquire" || name == "wait")?;
        first_argument(self.runtime(), frame)
    }
}
