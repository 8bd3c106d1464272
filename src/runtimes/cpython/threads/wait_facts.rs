//! What threads do and wait for, for the wait graph.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::map::Confidence;
use crate::runtimes::api::{Activity, PartyId, WaitFact, WaitFacts, WaitNeeds, WaitOwner};
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
    pub(super) const WITH: &str = "the owner is inside the lock's with statement";
    pub(super) const OWNER: &str = "the thread waits in a system call on the lock's semaphore; the lock's owner";
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
        let of_row = |row: &ThreadRow| {
            let wait = row.waits_for.as_ref()?;
            let kind = wait.r#type.as_deref().unwrap_or_default();
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

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let state = thread.state.as_deref()?;
        ACTIVITIES.iter().find(|(words, _)| state.contains(words)).map(|(_, activity)| *activity)
    }
}
