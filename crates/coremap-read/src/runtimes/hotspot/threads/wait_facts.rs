//! Waits that no lock explains: ends of threads, futures, things that are lent. Executors and requests, by the Thread
//! objects of their workers. Only virtual threads need a walk of the heap.
//!
//! Source: java.base, java/util/concurrent (ThreadPoolExecutor, FutureTask, AbstractQueuedSynchronizer).

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::carriers::SIGNALLER;
use super::lent::OnStacks;
use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow, WaitRow};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::{
    Activity, Executor, Heap as _, PartyId, RequestSet, TaskFact, TypeRole, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::threads::thread_object::{number, reference};

/// The classes of a pool's workers, and of tasks with a result.
const WORKER: &str = "java.util.concurrent.ThreadPoolExecutor$Worker";
const FUTURE: &str = "java.util.concurrent.FutureTask";

/// Prefix of the method that serves a request of the JDK's HTTP server.
const EXCHANGE: &str = "sun.net.httpserver.ServerImpl$Exchange";

/// Parts of the names of methods, with what a thread does in them.
const ACTIVITIES: [(&str, Activity); 26] = [
    ("NioSocketImpl.implRead", Activity::SocketRead),
    ("NioSocketImpl.tryRead", Activity::SocketRead),
    ("NioSocketImpl.timedRead", Activity::SocketRead),
    ("SocketDispatcher.read", Activity::SocketRead),
    ("SocketChannelImpl.read", Activity::SocketRead),
    ("NioSocketImpl.implWrite", Activity::SocketWrite),
    ("NioSocketImpl.tryWrite", Activity::SocketWrite),
    ("SocketDispatcher.write", Activity::SocketWrite),
    ("SocketChannelImpl.write", Activity::SocketWrite),
    ("NioSocketImpl.connect", Activity::Connect),
    ("SocketChannelImpl.connect", Activity::Connect),
    ("SocketChannelImpl.finishConnect", Activity::Connect),
    ("NioSocketImpl.accept", Activity::Accept),
    ("ServerSocketChannelImpl.accept", Activity::Accept),
    ("Net.accept", Activity::Accept),
    ("AddressImpl.lookup", Activity::Resolve),
    ("ProcessImpl.waitFor", Activity::Process),
    ("waitForProcessExit", Activity::Process),
    ("PipedInputStream.read", Activity::Pipe),
    ("FileDispatcherImpl.", Activity::File),
    ("FileInputStream.read", Activity::File),
    ("FileOutputStream.write", Activity::File),
    ("FileChannelImpl.lock", Activity::File),
    ("EPoll.wait", Activity::Select),
    ("SelectorImpl.select", Activity::Select),
    ("Thread.sleep", Activity::Sleep),
];

/// Maximum number of frames above the program's own.
const LIBRARY_FRAMES: usize = 14;

/// The state of a thread that neither waits nor sleeps.
const RUNNABLE: &str = "RUNNABLE";

mod how {
    pub(super) const END: &str = "it waits on the Thread object of that thread";
    pub(super) const RUNNER: &str = "FutureTask.runner";
    pub(super) const QUEUED: &str = "the task is in the executor's queue";
}

/// A pool with its queue.
struct Pool {
    row: Executor,
    queue: Vec<Addr>,
}

impl HotSpot<'_> {
    /// Whether an object's class, or one of its superclasses, has one of these names.
    pub(in crate::runtimes::hotspot) fn is_a(&self, object: Addr, names: &[&str]) -> bool {
        let classes = self.classes();
        let Some(class) = classes.class_of(object) else { return false };
        let is = |at| classes.klass(at).is_some_and(|class| names.contains(&class.name.as_str()));
        classes.with_superclasses(class.address).any(is)
    }

    pub(super) fn class_name(&self, object: Addr) -> Option<String> {
        Some(self.classes().class_of(object)?.name.clone())
    }

    /// The object in a field. `None` if it is null or the class has no such field.
    pub(in crate::runtimes::hotspot) fn get(&self, object: Addr, field: &str) -> Option<Addr> {
        let class = self.classes().class_of(object)?;
        reference(self.classes(), &class, object, field)
    }

    pub(super) fn tid_of(&self, thread_object: Addr) -> Option<u32> {
        let threads = self.all_threads();
        threads.by_address.get(threads.by_object.get(&thread_object)?)?.tid
    }

    /// What a thread runs: its Runnable, if it has one.
    fn target(&self, thread_object: Addr) -> Option<Addr> {
        // Since JDK 19 another object has the fields that only platform threads have.
        let holder = self.get(thread_object, "holder").and_then(|holder| self.get(holder, "task"));
        holder.or_else(|| self.get(thread_object, "target"))
    }

    /// Pools, by the workers that the threads run.
    fn pools(&self) -> BTreeMap<Addr, Pool> {
        let mut out: BTreeMap<Addr, Pool> = BTreeMap::new();
        let mut threads: Vec<(u32, Addr)> = self
            .all_threads()
            .by_address
            .values()
            .filter_map(|record| Some((record.tid?, record.object.as_ref()?.address)))
            .collect();
        threads.sort_unstable();
        for (tid, object) in threads {
            let Some(worker) = self.target(object) else { continue };
            let Some(class) = self.classes().class_of(worker).filter(|class| class.name == WORKER) else { continue };
            let Some(pool) = self.get(worker, "this$0") else { continue };
            let entry = out.entry(pool).or_insert_with(|| {
                let queue = self.get(pool, "workQueue").map(|queue| self.contents(queue)).unwrap_or_default();
                let kind = self.class_name(pool).unwrap_or_default();
                let kind = kind.rsplit('.').next().unwrap_or(&kind).to_owned();
                let (workers, busy) = Default::default();
                let queued = self.by_item(&queue);
                Pool { row: Executor { object: pool, kind, workers, busy, queued }, queue }
            });
            entry.row.workers.push(tid);
            // AbstractQueuedSynchronizer's state: 1 while a task runs.
            if number(self.classes(), &class, worker, "state") == Some(1) {
                entry.row.busy.push(tid);
            }
        }
        out
    }

    /// The first objects beyond a collection's own nodes and arrays.
    pub(super) fn contents(&self, collection: Addr) -> Vec<Addr> {
        let Some(heap) = self.objects() else { return Vec::new() };
        let mut reader = heap.reader();
        let (mut seen, mut queue) = (HashSet::from([collection]), VecDeque::from([collection]));
        let mut out = Vec::new();
        while let Some(at) = queue.pop_front().filter(|_| seen.len() < limits::MAX_QUEUED_TASKS) {
            let mut targets = Vec::new();
            reader.each(at.get(), |_, to| {
                targets.push(Addr::new(to));
                true
            });
            for to in targets.into_iter().filter(|to| seen.insert(*to)) {
                let Some(node) = reader.node(to.get()) else { continue };
                let name = heap.type_name(node.kind);
                // Locks and counters of the queue are no tasks.
                let is_lock = name.starts_with("java.util.concurrent.locks.") || name.contains(".atomic.");
                match self.role_of_class(node.kind) {
                    TypeRole::Part | TypeRole::ListNode => queue.push_back(to),
                    TypeRole::Hub => {}
                    TypeRole::Program | TypeRole::Collection | TypeRole::Library if !is_lock => out.push(to),
                    TypeRole::Program | TypeRole::Collection | TypeRole::Library => {}
                }
            }
        }
        out
    }

    /// Returns the name of a task. For a FutureTask, also what it calls.
    fn task(&self, object: Addr) -> String {
        let name = self.class_name(object).unwrap_or_else(|| "an object".to_owned());
        let callable = self.get(object, "callable");
        let inner = callable.and_then(|callable| self.get(callable, "task")).or(callable);
        match inner.and_then(|inner| self.class_name(inner)) {
            Some(inner) => format!("{} ({inner})", name.rsplit('.').next().unwrap_or(&name)),
            None => name,
        }
    }

    fn by_item(&self, queue: &[Addr]) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for object in queue {
            *sums.entry(self.task(*object)).or_default() += 1;
        }
        let mut all: Vec<(String, u64)> = sums.into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    fn wait_of(&self, row: &WaitRow, frames: &[FrameRow], pools: &BTreeMap<Addr, Pool>) -> Option<WaitFact> {
        let exact = |party| WaitOwner { party, confidence: Confidence::Exact };
        let fact = WaitFact { object: row.object, r#type: row.r#type.clone(), ..WaitFact::default() };
        if row.owner_tid.is_some() {
            return None;
        }
        if let Some(owner) = self.owner_of(row) {
            return Some(WaitFact { owners: vec![owner], relation: "held", evidence: row.how, ..fact });
        }
        if let Some(tid) = self.tid_of(row.object) {
            let joins = frames.iter().take(LIBRARY_FRAMES).any(|frame| in_method(frame, "java.lang.Thread.join"));
            return joins.then(|| WaitFact {
                owners: vec![exact(PartyId::Thread(tid))],
                relation: "joined",
                evidence: how::END,
                ..fact
            });
        }
        if self.class_name(row.object).as_deref() == Some(FUTURE) {
            let task = self.task(row.object);
            let fact = WaitFact { r#type: Some(task.clone()), ..fact };
            if let Some(tid) = self.get(row.object, "runner").and_then(|runner| self.tid_of(runner)) {
                let owners = vec![exact(PartyId::Thread(tid))];
                let what = Some(task);
                return Some(WaitFact { owners, what, relation: "run", evidence: how::RUNNER, ..fact });
            }
            let pool = pools.values().find(|pool| pool.queue.contains(&row.object))?;
            return Some(WaitFact {
                owners: vec![exact(PartyId::Pool(pool.row.object))],
                what: Some(format!("a queued {task}")),
                needs: WaitNeeds::All,
                relation: "run",
                evidence: how::QUEUED,
                ..fact
            });
        }
        None
    }
}

/// What a thread does in these methods of the library, innermost first.
pub(super) fn activity_in<'m>(names: impl Iterator<Item = &'m str>) -> Option<Activity> {
    let of = |method: &str| ACTIVITIES.iter().find(|(part, _)| method.contains(part)).map(|(_, activity)| *activity);
    // The outermost method describes best what the program requested. For example, a method for files writes to a
    // socket.
    names.filter_map(of).last()
}

fn in_method(frame: &FrameRow, part: &str) -> bool {
    frame.method.as_deref().is_some_and(|method: &str| method.contains(part))
}

impl WaitFacts for HotSpot<'_> {
    fn waits(&self, threads: &[ThreadRow]) -> Vec<(PartyId, WaitFact)> {
        let (pools, carried) = (self.pools(), self.carried());
        let parked_for_future = |thread: &ThreadRow| {
            let row = thread.waits_for.as_ref()?;
            (row.r#type.as_deref() == Some(SIGNALLER)).then_some(row.object)
        };
        let mounted = |thread: &ThreadRow| carried.blockers.get(&thread.tid);
        let blocked = |thread: &ThreadRow| parked_for_future(thread).or_else(|| Some(mounted(thread)?.object));
        // Stacks are read only if a wait needs the objects on them.
        let needed = threads.iter().any(|thread| blocked(thread).is_some() || self.may_borrow(thread));
        let stacks = if needed { self.objects_on_stacks() } else { OnStacks::default() };
        let of_thread = |thread: &ThreadRow| {
            let fact = match (blocked(thread), thread.waits_for.as_ref()) {
                (Some(blocker), _) => self
                    .completable(thread.tid, blocker, &stacks)
                    .or_else(|| mounted(thread).map(|row| self.of_mounted(row))),
                (None, Some(row)) => self
                    .wait_of(row, &thread.frames, &pools)
                    .or_else(|| self.borrows(thread, &stacks))
                    .or_else(|| self.consumes(thread)),
                (None, None) => None,
            };
            Some((PartyId::Thread(thread.tid), fact?))
        };
        threads.iter().filter_map(of_thread).collect()
    }

    fn tasks(&self) -> Vec<TaskFact> {
        self.carried().tasks.clone()
    }

    fn executors(&self, _threads: &[ThreadRow]) -> Vec<Executor> {
        self.pools().into_values().map(|pool| pool.row).chain(self.carried().scheduler.clone()).collect()
    }

    fn requests(&self, threads: &[ThreadRow]) -> Vec<RequestSet> {
        let serves = |thread: &&ThreadRow| {
            let exchange = thread.frames.iter().position(|frame| in_method(frame, EXCHANGE));
            exchange.is_some_and(|end| thread.frames.iter().take(end).any(|frame| frame.own))
        };
        let threads: Vec<u32> = threads.iter().filter(serves).map(|thread| thread.tid).collect();
        let count = threads.len() as u64;
        if count == 0 {
            Vec::new()
        } else {
            vec![RequestSet { kind: "HttpExchange".into(), count, threads, ..RequestSet::default() }]
        }
    }

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let library = thread.frames.iter().take_while(|frame| !frame.own).take(LIBRARY_FRAMES);
        let found = activity_in(library.filter_map(|frame| frame.method.as_deref()));
        let runs = thread.waits_for.is_none() && thread.state.as_deref() == Some(RUNNABLE);
        let in_code = thread.frames.first().is_some_and(|frame| frame.runtime.is_some());
        found.or_else(|| (runs && in_code).then_some(Activity::Runs))
    }
}
