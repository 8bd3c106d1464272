//! Tasks and futures of asyncio: those of its C module (Modules/_asynciomodule.c), and those written in Python.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::coroutine::suspended;
use super::wait_text;
use crate::addr::Addr;
use crate::bytes::printable;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{AsyncFrame, AsyncTask, LightFrame, LightThread};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::PyFrame;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{Objects, PyType, TypeForm};
use crate::units::exact;

/// Types of tasks, as module and name. Static types may have no known name.
const TASKS: [(&str, &str); 3] = [("_asyncio", "Task"), ("asyncio.tasks", "Task"), ("asyncio.tasks", "_PyTask")];

/// `fut_state` of a pending future.
const PENDING: u32 = 0;

/// Objects between a coroutine and the object that it awaits: `coroutine_wrapper`, `async_generator_asend`,
/// `_asyncio.FutureIter`. Their first field is the awaited object.
const INNER: (&str, &str) = ("PyCoroWrapper", "cw_coroutine");

/// A pending task, before its waiters are known.
pub(super) struct PendingTask {
    pub(super) address: Addr,
    pub(super) kind: String,
    pub(super) name: Option<String>,
    /// The future that it waits for.
    pub(super) waiter: Option<Addr>,
    /// Coroutines with type and frame, innermost first.
    pub(super) coroutines: Vec<(Addr, Arc<PyType>, PyFrame)>,
}

pub(super) struct TaskFinder<'c, 'p> {
    pub(super) python: &'c CPython<'p>,
    pub(super) heap: &'c Heap<'p>,
    pub(super) objects: Objects<'p>,
    walks: Walks,
    /// Children of each future of `asyncio.gather`, by the future's address.
    gathers: RefCell<HashMap<Addr, Rc<Gather>>>,
    /// Number of further children that may be read, of all such futures together.
    children_left: Cell<u64>,
}

/// The children of a future of `asyncio.gather`.
#[derive(Default)]
pub(super) struct Gather {
    /// Number of children.
    pub(super) count: u64,
    /// Children that were read.
    children: Vec<Addr>,
    /// Number of children that were read and are pending.
    pub(super) pending: u64,
}

impl Gather {
    /// Whether all children were read.
    pub(super) fn is_whole(&self) -> bool {
        self.children.len() as u64 == self.count
    }
}

/// The types of tasks. Empty without asyncio.
pub(in crate::runtimes::cpython) fn task_types(python: &CPython<'_>) -> HashSet<Addr> {
    let (runtime, objects) = (python.runtime(), python.runtime().objects());
    let of = |interpreter: &Addr| {
        let dict = |module| runtime.module_dict(&objects, *interpreter, module);
        TASKS.map(|(module, name)| objects.lookup(dict(module)?, name))
    };
    runtime.interpreters.iter().flat_map(of).flatten().collect()
}

impl<'c, 'p> TaskFinder<'c, 'p> {
    pub(super) fn new(python: &'c CPython<'p>) -> Option<TaskFinder<'c, 'p>> {
        let heap = python.objects()?;
        let walks = Walks::new(Phase::Tasks, limits::MAX_PY_FRAMES);
        let objects = python.runtime().objects();
        let (gathers, children_left) = (RefCell::default(), Cell::new(limits::MAX_GATHERED));
        Some(TaskFinder { python, heap, objects, walks, gathers, children_left })
    }

    /// All tasks that are not done, sorted by address.
    pub(super) fn tasks(&self) -> Vec<PendingTask> {
        // Without asyncio there are no tasks.
        if task_types(self.python).is_empty() {
            return Vec::new();
        }
        self.python.instances().tasks.iter().filter_map(|task| self.task(*task)).collect()
    }

    fn task(&self, address: Addr) -> Option<PendingTask> {
        let kind = self.heap.type_at(self.objects.type_of(address)?)?;
        if !self.is_pending(address)? {
            return None;
        }
        let name = self.field(address, "task_name", "_name").filter(|at| !at.is_null());
        // Since 3.12 the name is a number until it is first read.
        let name = name.and_then(|at| match self.objects.is_int(at) {
            true => self.objects.integer_text(at).map(|number| format!("Task-{number}")),
            false => self.objects.str_at(at),
        });
        let name = name.map(|name| printable(&name).into_owned());
        let waiter = self.field(address, "task_fut_waiter", "_fut_waiter");
        let waiter = waiter.filter(|at| !at.is_null() && self.heap.type_of(*at).is_some_and(|t| t.name != "NoneType"));
        let coroutine = self.field(address, "task_coro", "_coro")?;
        let coroutines = self.coroutines(coroutine);
        Some(PendingTask { address, kind: printable(&kind.name).into_owned(), name, waiter, coroutines })
    }

    pub(super) fn is_pending(&self, future: Addr) -> Option<bool> {
        if let Some(state) = self.objects.attribute(future, "_state").and_then(|state| self.objects.str_at(state)) {
            return Some(state == "PENDING");
        }
        let at = self.python.runtime().layout.positive("FutureObj", "fut_state").ok()?;
        Some(self.objects.memory.peek_u32(future.checked_add(at)?).ok()? == PENDING)
    }

    /// A field of a task, by its name in the C struct or as an attribute.
    fn field(&self, task: Addr, field: &str, attribute: &str) -> Option<Addr> {
        self.objects.attribute(task, attribute).or_else(|| self.python.runtime().view("TaskObj", task).ptr(field).ok())
    }

    fn coroutines(&self, first: Addr) -> Vec<(Addr, Arc<PyType>, PyFrame)> {
        let mut out = Vec::new();
        let mut walk = self.walks.begin_own_set();
        let mut next = self.generator(first);
        while let Some((at, kind)) = next {
            if walk.step(at).is_err() {
                break;
            }
            let Some(found) = suspended(self.python.runtime(), &self.objects, at) else { break };
            out.push((at, kind, found.frame));
            next = found.top.and_then(|top| self.generator(top));
        }
        out.reverse();
        out
    }

    /// The coroutine or generator at `at`, or the one that the object at `at` wraps.
    fn generator(&self, at: Addr) -> Option<(Addr, Arc<PyType>)> {
        let kind = |at| {
            let kind = self.heap.type_at(self.objects.type_of(at)?)?;
            (kind.form == TypeForm::Generator).then_some((at, kind))
        };
        let inner = || {
            // Only objects have fields.
            self.heap.type_at(self.objects.type_of(at)?)?;
            let offset = self.python.runtime().layout.positive(INNER.0, INNER.1).ok()?;
            kind(self.objects.ptr_at(at, offset)?)
        };
        kind(at).or_else(inner)
    }

    /// What a future of `asyncio.gather` waits for. Each future is read once, however many tasks wait for it.
    pub(super) fn gathered(&self, future: Addr) -> Rc<Gather> {
        if let Some(known) = self.gathers.borrow().get(&future) {
            return Rc::clone(known);
        }
        let read = || {
            let list = self.objects.attribute(future, "_children")?;
            let count = u64::try_from(self.objects.ob_size(list)?).ok()?;
            let items = self.objects.ptr_at(list, self.objects.shape.list_items)?;
            let readable = count.min(self.children_left.get());
            let item = |i: u64| self.objects.ptr_at(items, i.checked_mul(8)?);
            let children: Vec<Addr> = (0..readable).map_while(item).collect();
            self.children_left.set(self.children_left.get().saturating_sub(children.len() as u64));
            let pending = children.iter().filter(|child| self.is_pending(**child) == Some(true)).count() as u64;
            Some(Gather { count, children, pending })
        };
        let gather = Rc::new(read().unwrap_or_default());
        self.gathers.borrow_mut().insert(future, Rc::clone(&gather));
        gather
    }
}

impl CPython<'_> {
    /// Objects whose values reports show for tasks, each with the address of the reference to it: names (or the numbers
    /// that represent them) and sleep times. `scrub` keeps them.
    pub(in crate::runtimes::cpython) fn shown_task_objects(&self) -> Vec<(Addr, Option<Addr>)> {
        let Some(finder) = TaskFinder::new(self) else { return Vec::new() };
        let of = |task: &PendingTask| {
            let place = self.runtime().layout.positive("TaskObj", "task_name").ok();
            let place = place.and_then(|offset| task.address.checked_add(offset));
            let name = finder.field(task.address, "task_name", "_name").filter(|at| !at.is_null());
            let frame = task.coroutines.first().map(|(_, _, frame)| frame);
            let delay =
                frame.and_then(|frame| Some((wait_text::delay(&finder, frame)?, frame.variables(self.runtime()))));
            [name.map(|name| (name, place)), delay]
        };
        finder.tasks().iter().flat_map(of).flatten().collect()
    }

    /// Visits all asyncio tasks that are not done, in address order.
    pub(in crate::runtimes::cpython) fn each_task(&self, visit: &mut dyn FnMut(AsyncTask)) {
        let _phase = self.runtime().process.enter(Phase::Tasks);
        let Some(finder) = TaskFinder::new(self) else { return };
        let all = finder.tasks();
        let names: HashMap<Addr, Option<String>> = all.iter().map(|task| (task.address, task.name.clone())).collect();
        let mut waiters: HashMap<Addr, Vec<Addr>> = HashMap::new();
        let mut seen = HashSet::new();
        // Many tasks may wait for one future with many children.
        let (mut waits_left, mut ignored) = (limits::MAX_GATHERED, 0_u64);
        for task in &all {
            let Some(waiter) = task.waiter else { continue };
            let mut wait = |of: Addr| {
                if names.contains_key(&of) && seen.insert((of, task.address)) {
                    waiters.entry(of).or_default().push(task.address);
                }
            };
            wait(waiter);
            if wait_text::is_gather(&finder, waiter) {
                let gather = finder.gathered(waiter);
                let followed = usize::try_from(waits_left).unwrap_or(usize::MAX).min(gather.children.len());
                waits_left = waits_left.saturating_sub(followed as u64);
                ignored = ignored.saturating_add(gather.count.saturating_sub(followed as u64));
                gather.children.iter().take(followed).for_each(|child| wait(*child));
            }
        }
        if ignored > 0 {
            self.warn("tasks", &format!("{} waits for tasks of asyncio.gather are ignored", exact(ignored)));
        }
        let codes = &self.all_code().codes;
        for task in all {
            let (awaiting, group_text) = wait_text::awaiting(&finder, &task, &names);
            let frame = |(object, kind, frame): &(Addr, Arc<PyType>, PyFrame)| AsyncFrame {
                object: *object,
                kind: kind.name.clone(),
                activation: codes.activation(frame),
            };
            visit(AsyncTask {
                address: task.address,
                frames: task.coroutines.iter().map(frame).collect(),
                awaiting,
                group_text,
                awaited: task.waiter.unwrap_or(Addr::NULL),
                awaited_by: waiters.remove(&task.address).unwrap_or_default(),
                kind: task.kind,
                name: task.name,
            });
        }
    }

    /// Visits the tasks as threads that are not system threads.
    pub(in crate::runtimes::cpython) fn each_task_as_thread(&self, visit: &mut dyn FnMut(LightThread)) {
        self.each_task(&mut |task| {
            let frame =
                |frame: AsyncFrame| LightFrame { ip: Addr::NULL, sp: frame.object, activation: frame.activation };
            visit(LightThread {
                address: task.address,
                id: None,
                name: task.name,
                state: Some(if task.awaited.is_null() { "asyncio task, ready" } else { "asyncio task, waits" }),
                carrier: None,
                wait: None,
                created_by: None,
                frames: task.frames.into_iter().map(frame).collect(),
                missing: None,
            });
        });
    }
}
