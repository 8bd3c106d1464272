//! Executors: pools of `concurrent.futures`, and event loops with their ready tasks.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{Executor, Heap as _};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::PyFrame;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// The file with the workers of a pool, its function, and what runs one item.
const POOL: &str = "/concurrent/futures/thread.py";
const WORKER: &str = "_worker";
const RUN: &str = "run";

/// The file with the event loop, and the one with its callbacks.
const LOOP: &str = "/asyncio/base_events.py";
const EVENTS: &str = "/asyncio/events.py";

/// Index of the queue among the arguments of `_worker`: (executor_reference, work_queue, …).
const QUEUE: u64 = 1;

/// A pool with the futures of its queue.
pub(super) struct Pool {
    pub(super) row: Executor,
    pub(super) futures: HashSet<Addr>,
    /// The future that each busy worker computes.
    pub(super) running: Vec<(u32, Addr)>,
}

pub(super) fn in_file(frame: &FrameRow, file: &str, name: &str) -> bool {
    let method = frame.method.as_deref().map(|method: &str| method.rsplit('.').next().unwrap_or(method));
    method == Some(name) && frame.file.as_deref().is_some_and(|of: &str| of.ends_with(file))
}

impl CPython<'_> {
    /// Pools, by the queues that their workers take from.
    pub(super) fn pools(&self) -> Vec<Pool> {
        let mut out: BTreeMap<Addr, Pool> = BTreeMap::new();
        for thread in &self.all_threads().all {
            let Some(tid) = thread.tid else { continue };
            let in_pool = |frame: &&PyFrame, name: &str| {
                self.all_code()
                    .codes
                    .code(frame.code)
                    .is_some_and(|code| code.file().ends_with(POOL) && code.name().rsplit('.').next() == Some(name))
            };
            let Some(worker) = thread.frames().find(|frame| in_pool(frame, WORKER)) else { continue };
            let Some(queue) = self.argument(worker, QUEUE) else { continue };
            let pool = out.entry(queue).or_insert_with(|| self.pool(queue));
            pool.row.workers.push(tid);
            if let Some(run) = thread.frames().find(|frame| in_pool(frame, RUN)) {
                pool.row.busy.push(tid);
                let item = self.argument(run, 0);
                let future = item.and_then(|item| self.runtime().objects().attribute(item, "future"));
                pool.running.extend(future.map(|future| (tid, future)));
            }
        }
        out.into_values().collect()
    }

    fn argument(&self, frame: &PyFrame, index: u64) -> Option<Addr> {
        let at = frame.variables(self.runtime())?.checked_add(8 * index)?;
        let word = self.runtime().memory.peek_u64(at).ok()?;
        Some(Addr::new(word & !STACK_REF_TAGS)).filter(|at| !at.is_null())
    }

    fn pool(&self, queue: Addr) -> Pool {
        let objects = self.runtime().objects();
        let items = self.items_of(queue);
        let futures: HashSet<Addr> = items.iter().filter_map(|item| objects.attribute(*item, "future")).collect();
        let queued = if items.is_empty() { Vec::new() } else { vec![("work items".to_owned(), items.len() as u64)] };
        let (workers, busy) = Default::default();
        let kind = "ThreadPoolExecutor".to_owned();
        Pool { row: Executor { object: queue, kind, workers, busy, queued }, futures, running: Vec::new() }
    }

    /// The work items in a queue, through its list.
    fn items_of(&self, queue: Addr) -> Vec<Addr> {
        let Some(heap) = self.objects() else { return Vec::new() };
        let mut reader = heap.reader();
        let (mut seen, mut open) = (HashSet::from([queue]), VecDeque::from([queue]));
        let mut out = Vec::new();
        while let Some(at) = open.pop_front().filter(|_| seen.len() < limits::MAX_QUEUED_TASKS) {
            let mut targets = Vec::new();
            reader.each(at.get(), |_, to| {
                targets.push(Addr::new(to));
                true
            });
            for to in targets.into_iter().filter(|to| seen.insert(*to)) {
                let Some(node) = reader.node(to.get()) else { continue };
                match heap.type_name(node.kind).as_str() {
                    "list" | "collections.deque" => open.push_back(to),
                    part if part.starts_with('(') => open.push_back(to),
                    name if name.ends_with("_WorkItem") => out.push(to),
                    _ => {}
                }
            }
        }
        out
    }

    /// Event loops, by the threads that run them, with the tasks that are ready to run.
    pub(super) fn loops(&self, threads: &[ThreadRow]) -> Vec<Executor> {
        let runs = |thread: &&ThreadRow| thread.frames.iter().any(|frame| in_file(frame, LOOP, "_run_once"));
        let all: Vec<&ThreadRow> = threads.iter().filter(runs).collect();
        // Which of several loops a task belongs to is not read.
        let [thread] = all.as_slice() else { return Vec::new() };
        let mut ready: BTreeMap<String, u64> = BTreeMap::new();
        for task in self.task_facts().iter().filter(|task| task.wait.is_none()) {
            *ready.entry(format!("ready task of {}", task.place.as_deref().unwrap_or("the library"))).or_default() += 1;
        }
        let mut queued: Vec<(String, u64)> = ready.into_iter().collect();
        queued.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let busy = thread.frames.iter().any(|frame| in_file(frame, EVENTS, "_run"));
        vec![Executor {
            object: Addr::NULL,
            kind: "asyncio event loop".to_owned(),
            workers: vec![thread.tid],
            busy: if busy { vec![thread.tid] } else { Vec::new() },
            queued,
        }]
    }
}
