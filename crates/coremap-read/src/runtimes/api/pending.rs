//! What pending tasks and threads of pools wait for: facts that a wait graph is made of.

use crate::addr::Addr;
use crate::facts::ExecutorRow;
use crate::words::TaskEndKind;

/// What the completion of a task depends on, at the end of a chain of awaited tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    /// Kind of end.
    pub kind: TaskEndKind,
    /// The object at the end: the semaphore, the promise, the source; for a thread, a pool or a queue the task that it
    /// runs or has.
    pub object: Addr,
    /// Type of the object.
    pub type_name: Option<String>,
    /// The thread that runs the task, by system id.
    pub tid: Option<u32>,
    /// Whether a record of the runtime names the thread. Otherwise the task is on its stack only.
    pub exact: bool,
    /// Milliseconds of a timer. `None` if it has no end, or is unknown.
    pub due_ms: Option<u32>,
    /// The completion source of a promise.
    pub source: Option<Addr>,
    /// Async methods from the end to the queried task, innermost first, up to a limit.
    pub methods: Vec<String>,
}

/// An async method that has started and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMethod {
    /// Its box or continuation.
    pub object: Addr,
    /// Its task or box, as [`PendingTasks::ends`] takes it.
    pub task: Addr,
    /// Name of the method, if its metadata is known.
    pub method: Option<String>,
    /// Number of the await; -1 if it is running or has not started.
    pub state: Option<i32>,
    /// The object that it awaits, if it is suspended and that is known.
    pub awaits: Option<Addr>,
}

/// A semaphore that async methods can wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSemaphore {
    /// The object.
    pub address: Addr,
    /// Free places.
    pub free: u32,
    /// Maximum number of places. `None` if none was given.
    pub limit: Option<u32>,
    /// Threads that wait in it, by system id.
    pub threads: Vec<u32>,
    /// Tasks in its queue, first in line first. Their waiters are [`PendingTasks::awaited_by`].
    pub queue: Vec<Addr>,
}

/// Pending tasks of a runtime, and the pools that run them.
pub trait PendingTasks: Sync {
    /// What the completion of the task or box at an address depends on. One end of kind `Done` if it is complete.
    fn ends(&self, task: Addr) -> Vec<TaskEnd>;

    /// Returns the tasks and boxes that continue when a task completes.
    fn awaited_by(&self, task: Addr) -> Vec<Addr>;

    /// Visits the pending async methods.
    fn each_method(&self, visit: &mut dyn FnMut(PendingMethod));

    /// Pools with their workers and queues.
    fn executors(&self) -> Vec<ExecutorRow>;

    /// Whether pools can be found. Otherwise an empty list proves nothing.
    fn finds_executors(&self) -> bool;

    /// Semaphores that threads or tasks wait for, by address.
    fn semaphores(&self) -> &[PendingSemaphore];
}
