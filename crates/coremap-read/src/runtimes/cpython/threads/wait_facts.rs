//! What threads do and wait for, for the wait graph.

use std::collections::HashMap;

use super::executors::{Pool, in_file};
use crate::addr::Addr;
use crate::facts::{ThreadRow, WaitRow};
use crate::map::Confidence;
use crate::runtimes::api::{
    Activity, Executor, PartyId, RequestSet, TaskFact, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
use crate::runtimes::cpython::CPython;
use crate::words::WaitKind;

/// Words of a thread's state, with what it does.
const ACTIVITIES: [(&str, Activity); 11] = [
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
];

/// Types whose `with` statement takes one of several places.
const PLACES: [&str; 2] = ["threading.Semaphore", "threading.BoundedSemaphore"];

mod how {
    pub(super) const QUEUED: &str = "the future is in the executor's _work_queue";
    pub(super) const RUNS: &str = "a worker's _WorkItem has the future";
    pub(super) const WITH: &str = "the owner is inside the lock's with statement";
    pub(super) const OWNER: &str = "the thread waits in a system call on the lock's semaphore; the lock's owner";
}

/// The file with servers that have a thread per request.
const SERVER: &str = "/socketserver.py";

/// The file with the event loop.
const LOOP: &str = "/asyncio/base_events.py";

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
            let wait = row.waits_for.as_ref()?;
            let kind = wait.r#type.as_deref().unwrap_or_default();
            if let Some(fact) = future(&pools, wait) {
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

    fn executors(&self, threads: &[ThreadRow]) -> Vec<Executor> {
        let mut out: Vec<Executor> = self.pools().into_iter().map(|pool| pool.row).collect();
        let runs_loop = |row: &ThreadRow| row.frames.iter().any(|frame| in_file(frame, LOOP, "_run_once"));
        if threads.iter().any(runs_loop) {
            out.extend(self.loops(threads, &self.task_facts()));
        }
        out
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

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let state = thread.state.as_deref()?;
        ACTIVITIES.iter().find(|(words, _)| state.contains(words)).map(|(_, activity)| *activity)
    }
}
