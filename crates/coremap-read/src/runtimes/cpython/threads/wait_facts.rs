//! What threads do and wait for, for the wait graph.

use std::collections::HashMap;

use super::executors::{Pool, in_file};
use super::list::PyThread;
use super::waits;
use crate::addr::Addr;
use crate::facts::{ThreadRow, WaitRow};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::{
    Activity, Executor, PartyId, RequestSet, TaskFact, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::{PyFrame, is_of_the_library};
use crate::targets::Thread;
use crate::words::WaitKind;

/// Words of a thread's state, with what it does.
const ACTIVITIES: [(&str, Activity); 13] = [
    ("reads from a socket", Activity::SocketRead),
    ("writes to a socket", Activity::SocketWrite),
    ("reads from a connection", Activity::Pipe),
    ("connects", Activity::Connect),
    ("waits for a connection", Activity::Accept),
    ("waits for files to be ready", Activity::Select),
    ("waits for a process to end", Activity::Process),
    ("waits for a process's output", Activity::Process),
    ("sleeps", Activity::Sleep),
    ("runs an event loop", Activity::Select),
    ("reads", Activity::File),
    ("writes", Activity::File),
    ("waits for a file's lock", Activity::File),
];

/// Types whose `with` statement takes one of several places.
const PLACES: [&str; 2] = ["threading.Semaphore", "threading.BoundedSemaphore"];

/// Words of the state of a thread that has the GIL.
pub(super) const HOLDS_GIL: &str = "holds the GIL";

/// Words of the state of a thread that takes from a queue, and the method that puts into one.
const TAKES: &str = "waits for a queue item";
const PUTS: &str = "put";

/// The method with which a consumer marks an item as done. A consumer may put an item back to try it again.
const ENDS: &str = "task_done";

mod how {
    pub(super) const LENT: &str = "it waits in a function that also puts back, and others are beyond that call";
    pub(super) const QUEUE: &str = "it takes from a queue";
    pub(super) const GIL: &str = "the thread waits in a system call at the GIL; the GIL's last_holder";
    pub(super) const QUEUED: &str = "the future is in the executor's _work_queue";
    pub(super) const RUNS: &str = "a worker's _WorkItem has the future";
    pub(super) const WITH: &str = "the owner is inside the lock's with statement";
    pub(super) const OWNER: &str = "the thread waits in a system call on the lock's semaphore; the lock's owner";
}

/// The file with servers that have a thread per request.
const SERVER: &str = "/socketserver.py";

/// The wait for a future of a pool: it is queued there, or a worker computes it.
fn future(pools: &[Pool], wait: &WaitRow) -> Option<WaitFact> {
    let exact = |party| vec![WaitOwner { party, confidence: Confidence::Exact }];
    let fact = WaitFact { object: wait.object, r#type: wait.r#type.clone(), ..WaitFact::default() };
    if let Some(pool) = pools.iter().find(|pool| pool.futures.contains(&wait.object)) {
        let owners = exact(PartyId::Pool(pool.row.object));
        return Some(WaitFact { owners, relation: "run", evidence: how::QUEUED, ..fact });
    }
    let running = pools.iter().flat_map(|pool| &pool.running).find(|(_, future)| *future == wait.object);
    running.map(|(tid, _)| WaitFact {
        owners: exact(PartyId::Thread(*tid)),
        relation: "run",
        evidence: how::RUNS,
        ..fact
    })
}

/// Whether a thread waits for an item of a queue.
fn takes(row: &ThreadRow) -> bool {
    row.state.as_deref().is_some_and(|state| state.contains(TAKES))
}

impl CPython<'_> {
    fn system_thread(&self, tid: u32) -> Option<&Thread> {
        self.runtime().process.threads().iter().find(|thread| thread.tid == tid)
    }

    /// The program's frames of a thread, innermost first.
    fn own_frames(&self, tid: u32) -> impl Iterator<Item = &PyFrame> {
        let codes = &self.all_code().codes;
        let is_own = |frame: &&PyFrame| codes.code(frame.code).is_some_and(|code| !is_of_the_library(code.file()));
        self.all_threads().of(tid).flat_map(PyThread::frames).filter(is_own)
    }

    /// The function of the program that takes from a queue, and its caller.
    fn takers(&self, tid: u32) -> impl Iterator<Item = &PyFrame> {
        self.own_frames(tid).take(2)
    }

    /// Whether a thread waits for an item of a queue as a consumer. A thread that also puts items back borrows them.
    fn is_consumer(&self, row: &ThreadRow) -> bool {
        takes(row) && self.lender(row.tid).is_none()
    }

    /// The frame of a thread that takes from a queue and puts back: by itself, or as `pool.take()` and `pool.give()` of
    /// a class that has the queue.
    fn lender(&self, tid: u32) -> Option<&PyFrame> {
        let puts_back = |frame: &&PyFrame| self.uses_name(frame, PUTS) && !self.uses_name(frame, ENDS);
        self.takers(tid).find(puts_back).or_else(|| {
            let mut takers = self.takers(tid);
            let (inner, outer) = takers.next().zip(takers.next())?;
            self.puts_back_by(inner, outer).then_some(outer)
        })
    }

    /// Whether `outer` uses a method that puts into a queue, of the object whose method `inner` takes from one.
    fn puts_back_by(&self, inner: &PyFrame, outer: &PyFrame) -> bool {
        let (runtime, objects) = (self.runtime(), self.runtime().objects());
        let kind = waits::first_argument(runtime, inner).and_then(|object| objects.type_of(object));
        let Some(dict) = kind.and_then(|kind| objects.ptr_at(kind, objects.shape.types.dict)) else { return false };
        let mut found = false;
        objects.each_entry(dict, limits::MAX_PY_SLOTS, |entry| {
            let is_function = self.type_name_of(entry.value).as_deref() == Some("function");
            let code = runtime.view("PyFunctionObject", entry.value).ptr("func_code").ok().filter(|_| is_function);
            let puts = code.is_some_and(|code| self.code_uses(code, PUTS) && !self.code_uses(code, ENDS));
            let name = if puts && objects.is_str(entry.key) { objects.name(entry.key) } else { None };
            found |= name.is_some_and(|name| self.uses_name(outer, &name));
            !found
        });
        found
    }

    /// The wait for an item of a queue that lends things: other threads are beyond the same call in the same function.
    fn borrowed(&self, row: &ThreadRow, wait: &WaitRow, rows: &[ThreadRow]) -> Option<WaitFact> {
        let lends = self.lender(row.tid).filter(|_| takes(row))?;
        // A function without arguments is the same for all its callers.
        let argument = |frame: &PyFrame| {
            let arguments = self.runtime().view("PyCodeObject", frame.code).u32("co_argcount").unwrap_or(1);
            waits::first_argument(self.runtime(), frame).filter(|_| arguments > 0)
        };
        let (code, of) = (lends.code, argument(lends));
        let waits_too = |other: &ThreadRow| other.waits_for.as_ref().is_some_and(|known| known.object == wait.object);
        let is_inside = |other: &&ThreadRow| {
            let same = |frame: &PyFrame| frame.code == code && argument(frame) == of;
            !waits_too(other) && self.own_frames(other.tid).any(same)
        };
        let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: Confidence::Derived };
        let owners: Vec<WaitOwner> = rows.iter().filter(is_inside).map(|other| owner(other.tid)).collect();
        (!owners.is_empty()).then(|| WaitFact {
            object: wait.object,
            r#type: wait.r#type.clone(),
            owners,
            needs: WaitNeeds::Any,
            relation: "lent",
            evidence: how::LENT,
            ..WaitFact::default()
        })
    }

    /// Whether the code of a frame uses an attribute or global of this name.
    fn uses_name(&self, frame: &PyFrame, name: &str) -> bool {
        self.code_uses(frame.code, name)
    }

    /// The same for a code object.
    fn code_uses(&self, code: Addr, name: &str) -> bool {
        let objects = self.runtime().objects();
        let is = |at: Addr| objects.is_str(at) && objects.name(at).as_deref() == Some(name);
        let names = self.runtime().view("PyCodeObject", code).ptr("co_names");
        names.is_ok_and(|names| self.runtime().tuple_items(names, limits::MAX_PY_SLOTS).any(is))
    }

    /// The wait of a thread for the GIL.
    fn gil_wait(&self, tid: u32) -> Option<WaitFact> {
        let futex = waits::futex(self.system_thread(tid)?)?;
        let threads = self.all_threads();
        let gil = threads
            .of(tid)
            .filter_map(|thread| thread.gil)
            .find(|gil| gil.range.is_some_and(|range| range.contains(futex)))?;
        let holder = threads.at(gil.holder).filter(|_| gil.locked).and_then(|thread| thread.tid);
        let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: Confidence::Exact };
        Some(WaitFact {
            object: gil.range?.start,
            what: Some("the GIL".to_owned()),
            owners: holder.filter(|holder| *holder != tid).map(owner).into_iter().collect(),
            relation: "held",
            evidence: how::GIL,
            ..WaitFact::default()
        })
    }
}

impl WaitFacts for CPython<'_> {
    fn waits(&self, rows: &[ThreadRow]) -> Vec<(PartyId, WaitFact)> {
        let mut held: HashMap<Addr, Vec<u32>> = HashMap::new();
        for thread in &self.all_threads().all {
            for object in thread
                .tid
                .into_iter()
                .flat_map(|tid| self.held_by(thread).into_iter().map(move |held| (tid, held.object)))
            {
                held.entry(object.1).or_default().push(object.0);
            }
        }
        let pools = self.pools();
        let of_row = |row: &ThreadRow| {
            if let Some(fact) = self.gil_wait(row.tid) {
                return Some((PartyId::Thread(row.tid), fact));
            }
            let wait = row.waits_for.as_ref()?;
            let kind = wait.r#type.as_deref().unwrap_or_default();
            if let Some(fact) = future(&pools, wait) {
                return Some((PartyId::Thread(row.tid), fact));
            }
            if self.is_consumer(row) {
                let fact = WaitFact { object: wait.object, r#type: wait.r#type.clone(), ..WaitFact::default() };
                return Some((PartyId::Thread(row.tid), WaitFact { idle: true, evidence: how::QUEUE, ..fact }));
            }
            if let Some(fact) = self.borrowed(row, wait, rows) {
                return Some((PartyId::Thread(row.tid), fact));
            }
            let places = PLACES.contains(&kind);
            if wait.kind != WaitKind::Lock && !places {
                return None;
            }
            let by_owner = wait.owner_tid.into_iter();
            let by_with = held.get(&wait.object).into_iter().flatten().copied();
            let mut tids: Vec<u32> =
                by_owner.chain(by_with).filter(|tid| *tid != row.tid || wait.owner_tid == Some(*tid)).collect();
            tids.sort_unstable();
            tids.dedup();
            let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: Confidence::Exact };
            let fact = WaitFact {
                object: wait.object,
                r#type: wait.r#type.clone(),
                owners: tids.into_iter().map(owner).collect(),
                needs: if places { WaitNeeds::Any } else { WaitNeeds::All },
                relation: "held",
                evidence: if wait.owner_tid.is_some() { how::OWNER } else { how::WITH },
                ..WaitFact::default()
            };
            Some((PartyId::Thread(row.tid), fact))
        };
        rows.iter().filter_map(of_row).collect()
    }

    fn tasks(&self) -> Vec<TaskFact> {
        self.task_facts()
    }

    fn users(&self, objects: &[Addr]) -> Vec<TaskFact> {
        self.tasks_with(objects)
    }

    fn executors(&self, threads: &[ThreadRow]) -> Vec<Executor> {
        self.pools().into_iter().map(|pool| pool.row).chain(self.loops(threads)).collect()
    }

    fn requests(&self, threads: &[ThreadRow]) -> Vec<RequestSet> {
        let serves = |thread: &&ThreadRow| {
            let server = thread.frames.iter().position(|frame| in_file(frame, SERVER, "process_request_thread"));
            server.is_some_and(|end| thread.frames.iter().take(end).any(|frame| frame.own))
        };
        let served: Vec<&ThreadRow> = threads.iter().filter(serves).collect();
        // The outermost function of the program is the handler.
        let handler = served.first().and_then(|thread| thread.frames.iter().rfind(|frame| frame.own));
        let kind = handler.and_then(|frame| frame.method.as_deref()).unwrap_or("socketserver").to_owned();
        let threads: Vec<u32> = served.iter().map(|thread| thread.tid).collect();
        let count = threads.len() as u64;
        if count == 0 { Vec::new() } else { vec![RequestSet { kind, count, threads, ..RequestSet::default() }] }
    }

    fn callee(&self, thread: &ThreadRow) -> Option<String> {
        let system = self.system_thread(thread.tid).filter(|system| waits::is_in_user_code(system))?;
        let state = self.all_threads().of(thread.tid).find(|state| !state.runs.is_empty())?;
        CPython::callee(self, state, system)
    }

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let state = thread.state.as_deref()?;
        // A thread that holds the GIL and is in no system call runs, whatever its frames say.
        if state.contains(HOLDS_GIL) && self.system_thread(thread.tid).is_some_and(waits::is_in_user_code) {
            return Some(Activity::Runs);
        }
        ACTIVITIES.iter().find(|(words, _)| state.contains(words)).map(|(_, activity)| *activity)
    }
}
