//! Pending tasks and the thread pool as facts for a wait graph ([`PendingTasks`]).

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::facts::{ExecutorRow, QueuedRow};
use crate::progress::Progress;
use crate::runtimes::api::{PendingMethod, PendingSemaphore, PendingTasks, TaskEnd};
use crate::runtimes::coreclr::tasks::{
    AsyncMethods, Awaits, FoundEnd, Node, Pool, TaskContext, innermost_of, machine_of,
};
use crate::runtimes::coreclr::threads::{Places, Serving};
use crate::runtimes::coreclr::{CodeAt, CoreClr};
use crate::words::TaskEndKind;

/// A class that each process has.
pub(super) const THREAD: &str = "System.Threading.Thread";

/// Type of the promise of Task.Delay, with or without a cancellation token (the name is a prefix of both).
const DELAY: &str = "System.Threading.Tasks.Task+DelayPromise";

/// Fields of a queued item with the delegate that it calls.
const CALLBACKS: [&str; 3] = ["_callback", "m_action", "callback"];

/// Maximum number of methods named for one end.
const MAX_METHODS: usize = 64;

/// What is read once for all questions.
#[derive(Default)]
pub(super) struct PendingFacts {
    pool: OnceLock<Option<Pool>>,
    context: OnceLock<TaskContext>,
    /// Names of async methods by the MethodTable of the state machine, or by code address.
    names: Mutex<HashMap<Addr, Option<String>>>,
    /// Whether a type is that of Task.Delay.
    timers: Mutex<HashMap<Addr, bool>>,
    /// State machines by the type of their boxes.
    machines: Mutex<HashMap<Addr, Option<Addr>>>,
    /// Waiters of semaphores, and likely holders of their places.
    pub(super) places: OnceLock<Places>,
    /// Requests in flight.
    pub(super) serving: OnceLock<Serving>,
}

impl CoreClr<'_> {
    fn pool(&self) -> Option<&Pool> {
        let read = || Pool::read(self.process(), self.types());
        self.pending_facts().pool.get_or_init(read).as_ref()
    }

    fn task_context(&self) -> &TaskContext {
        self.pending_facts().context.get_or_init(|| {
            let items = self.pool().and_then(|pool| pool.items.as_deref()).unwrap_or_default();
            let queued = items.iter().copied().collect();
            let semaphores = self.lock_table().semaphores.iter();
            let semaphores = semaphores.flat_map(|slim| slim.queue.iter().map(|&node| (node, slim.address))).collect();
            TaskContext { queued, semaphores }
        })
    }

    pub(super) fn field_of(&self, object: Addr, name: &str) -> Option<Addr> {
        let types = self.types();
        let fields = types.object_fields(types.type_of(object)?);
        let offset = fields.iter().find(|f| types.field_name(f) == name)?.offset;
        object.checked_add(offset)
    }

    pub(super) fn object_in(&self, object: Addr, name: &str) -> Option<Addr> {
        self.types().memory.ptr(self.field_of(object, name)?).ok().filter(|at| !at.is_null())
    }

    pub(super) fn type_name_of(&self, object: Addr) -> Option<String> {
        let method_table = self.types().type_of(object)?;
        (self.types().is_method_table(method_table) == Ok(true))
            .then(|| printable(&self.types().display_name(method_table)).into_owned())
    }

    /// The method that a delegate calls.
    pub(super) fn delegate_method(&self, delegate: Addr) -> Option<String> {
        let pointer = |name| self.object_in(delegate, name);
        let code = pointer("_methodPtrAux").or_else(|| pointer("_methodPtr"))?;
        let methods = self.methods();
        // Many queued items call one method.
        self.name_by(code, &|| match methods.at(code) {
            Some(CodeAt::Method(method)) => Some(method.name.clone()),
            Some(CodeAt::Stub(_, name)) => name,
            _ => methods.stub_at(code).and_then(|(_, name)| name),
        })
    }

    /// Names of the methods of a node, innermost first.
    pub(super) fn methods_of(&self, node: &Node) -> Vec<String> {
        if let Some(machine) = &node.machine {
            return self.machine_method(machine.method_table).into_iter().collect();
        }
        let suspended = node.suspended.iter().filter_map(|one| one.ip).take(MAX_METHODS);
        suspended.filter_map(|ip| self.suspended_method(ip)).collect()
    }

    fn name_by(&self, key: Addr, read: &dyn Fn() -> Option<String>) -> Option<String> {
        let lock = || self.pending_facts().names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        let name = read().map(|name| printable(&name).into_owned());
        lock().insert(key, name.clone());
        name
    }

    /// The async method of a state machine.
    fn machine_method(&self, machine: Addr) -> Option<String> {
        self.name_by(machine, &|| AsyncMethods::new(self.types()).of(machine).map(|(name, ..)| name))
    }

    /// The method that is suspended at a code address. `None` for thunks and helpers.
    fn suspended_method(&self, ip: Addr) -> Option<String> {
        self.name_by(ip, &|| match self.methods().at(ip) {
            Some(CodeAt::Method(method)) if !self.methods().is_async_helper(&method) => {
                Some(self.types().definition_name(&method.module, method.token).unwrap_or_else(|| method.name.clone()))
            }
            _ => None,
        })
    }

    fn is_timer(&self, node: &Node) -> bool {
        let lock = || self.pending_facts().timers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&node.method_table) {
            return *known;
        }
        let is = self.types().display_name(node.method_table).starts_with(DELAY);
        lock().insert(node.method_table, is);
        is
    }

    /// The state machine in objects of a type.
    fn machine_in(&self, method_table: Addr) -> Option<Addr> {
        let lock = || self.pending_facts().machines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&method_table) {
            return *known;
        }
        let machine = machine_of(self.types(), method_table);
        lock().insert(method_table, machine);
        machine
    }

    /// What a queued item runs.
    pub(super) fn item(&self, item: Addr) -> Option<String> {
        let machine = self.types().type_of(item).and_then(|method_table| self.machine_in(method_table));
        let suspended = || innermost_of(self.types(), item)?.ip;
        let method = machine.and_then(|machine| self.machine_method(machine));
        if let Some(method) = method.or_else(|| self.suspended_method(suspended()?)) {
            return Some(method);
        }
        let delegate = CALLBACKS.iter().find_map(|field| self.object_in(item, field));
        delegate.and_then(|delegate| self.delegate_method(delegate)).or_else(|| self.type_name_of(item))
    }
}

impl PendingTasks for CoreClr<'_> {
    fn ends(&self, task: Addr) -> Vec<TaskEnd> {
        let end = |kind, object| TaskEnd {
            kind,
            object,
            type_name: self.type_name_of(object),
            tid: None,
            exact: true,
            due_ms: None,
            source: None,
            methods: Vec::new(),
        };
        let tasks = self.tasks(&Progress::silent());
        let Some(start) = tasks.index_of(task) else {
            // Every pending task was found, so this one is complete, unless it is none or some were left out.
            let is_task = self.field_of(task, "m_stateFlags").is_some();
            let missing = tasks.omitted > 0 || tasks.lost > 0;
            let kind = if is_task && !missing { TaskEndKind::Done } else { TaskEndKind::Unknown };
            return vec![end(kind, task)];
        };
        let found = tasks.ends_of(start, self.task_context(), &|node| self.is_timer(node));
        let row = |found: FoundEnd| {
            let nodes = || found.path.iter().filter_map(|&i| tasks.nodes.get(i as usize));
            let node = tasks.nodes.get(found.node as usize);
            let tid = node.and_then(|node| node.tid);
            let due = || {
                let timer = self.object_in(node?.addr, "_timer")?;
                let due = self.types().memory.u32(self.field_of(timer, "_dueTime")?).ok()?;
                Some(due).filter(|&ms| ms != u32::MAX)
            };
            TaskEnd {
                tid,
                exact: tid.is_none() || node.is_some_and(|node| node.frames.is_some()),
                due_ms: if found.kind == TaskEndKind::Timer { due() } else { None },
                source: node.and_then(|node| tasks.sources.get(&node.addr)).map(|source| source.address),
                methods: nodes().flat_map(|node| self.methods_of(node)).take(MAX_METHODS).collect(),
                ..end(found.kind, found.object)
            }
        };
        found.into_iter().map(row).collect()
    }

    fn awaited_by(&self, task: Addr) -> Vec<Addr> {
        let tasks = self.tasks(&Progress::silent());
        let node = tasks.index_of(task).and_then(|i| tasks.nodes.get(i as usize));
        let next = node.map_or(&[][..], |node| &node.next);
        next.iter().filter_map(|&i| tasks.nodes.get(i as usize)).map(|node| node.addr).collect()
    }

    fn each_method(&self, visit: &mut dyn FnMut(PendingMethod)) {
        for node in self.tasks(&Progress::silent()).nodes.iter().filter(|node| node.has_methods()) {
            let awaits = match node.awaits {
                Awaits::Object(at) | Awaits::Done(at) => Some(at),
                Awaits::Unknown | Awaits::Nothing => None,
            };
            if node.machine.is_some() {
                let method = self.methods_of(node).into_iter().next();
                visit(PendingMethod { object: node.addr, task: node.addr, method, state: node.state, awaits });
                continue;
            }
            for (i, one) in node.suspended.iter().enumerate() {
                let innermost = i == 0;
                visit(PendingMethod {
                    object: one.continuation,
                    task: node.addr,
                    method: one.ip.and_then(|ip| self.suspended_method(ip)),
                    state: Some(one.state),
                    awaits: awaits.filter(|_| innermost),
                });
            }
        }
    }

    fn executors(&self) -> Vec<ExecutorRow> {
        let Some(pool) = self.pool() else { return Vec::new() };
        let mut queued: HashMap<String, QueuedRow> = HashMap::new();
        let items = pool.items.as_deref().unwrap_or_default();
        for &item in items {
            let name = self.item(item).unwrap_or_else(|| "unknown".to_owned());
            let row = queued.entry(name.clone()).or_insert(QueuedRow { item: name, count: 0, example: item });
            row.count = row.count.saturating_add(1);
        }
        let mut queued: Vec<QueuedRow> = queued.into_values().collect();
        queued.sort_by(|a, b| (b.count, &a.item).cmp(&(a.count, &b.item)));
        vec![ExecutorRow {
            kind: "thread pool",
            name: ".NET thread pool".to_owned(),
            address: pool.address,
            workers: pool.workers,
            busy: pool.busy,
            min_workers: pool.min_workers,
            max_workers: pool.max_workers,
            tids: pool.tids.clone(),
            queued: pool.items.is_some().then_some(queued),
        }]
    }

    fn finds_executors(&self) -> bool {
        // A pool is found by the statics of classes, which need the names of the core library.
        self.types().core_class(THREAD).is_some()
    }

    fn semaphores(&self) -> &[PendingSemaphore] {
        &self.lock_table().semaphores
    }
}
