//! Activities and waits of threads, for the wait graph.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::facts::{ExecutorRow, FrameRow, ThreadRow};
use crate::map::Confidence;
use crate::runtimes::api::{Activity, Executor, PartyId, PendingTasks, RequestSet, TaskFact, WaitFact, WaitFacts};
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::threads::task_waits::POOL;
use crate::words::{FrameRowKind, GcMode, WaitKind};

/// Beginnings of the names of methods, with what a thread does in them.
const ACTIVITIES: [(&str, Activity); 21] = [
    ("System.Net.Sockets.Socket.Receive", Activity::SocketRead),
    ("System.Net.Sockets.NetworkStream.Read", Activity::SocketRead),
    ("System.Net.Sockets.Socket.Send", Activity::SocketWrite),
    ("System.Net.Sockets.NetworkStream.Write", Activity::SocketWrite),
    ("System.Net.Sockets.Socket.Connect", Activity::Connect),
    ("System.Net.Sockets.Socket.Accept", Activity::Accept),
    ("System.Net.Sockets.Socket.Poll", Activity::Select),
    ("System.Net.Sockets.Socket.Select", Activity::Select),
    ("System.Net.Sockets.SocketPal.Receive", Activity::SocketRead),
    ("System.Net.Sockets.SocketPal.Send", Activity::SocketWrite),
    ("System.Net.Sockets.SocketPal.Accept", Activity::Accept),
    ("System.Net.Dns.Get", Activity::Resolve),
    ("System.IO.Pipes.PipeStream.", Activity::Pipe),
    ("System.IO.Pipes.NamedPipeServerStream.WaitForConnection", Activity::Accept),
    ("System.IO.RandomAccess.", Activity::File),
    ("System.IO.FileStream.", Activity::File),
    ("System.Diagnostics.Process.WaitForExit", Activity::Process),
    ("System.Diagnostics.ProcessWaitState.WaitForExit", Activity::Process),
    ("System.ConsolePal.", Activity::File),
    ("System.Threading.Thread.Sleep", Activity::Sleep),
    ("System.Threading.Thread.UninterruptibleSleep", Activity::Sleep),
];

/// Maximum number of frames above the program's own.
const LIBRARY_FRAMES: usize = 24;

impl WaitFacts for CoreClr<'_> {
    fn waits(&self, rows: &[ThreadRow]) -> Vec<(PartyId, WaitFact)> {
        // Many threads may wait for one task.
        let mut known: HashMap<Addr, Option<WaitFact>> = HashMap::new();
        let mut of_row = |row: &ThreadRow| {
            let wait = row.waits_for.as_ref().filter(|wait| !wait.object.is_null())?;
            let read = || match wait.kind {
                WaitKind::Task => self.task_wait(wait.object),
                WaitKind::Semaphore => self.semaphore_wait(wait.object),
                _ => None,
            };
            let mut fact = known.entry(wait.object).or_insert_with(read).clone()?;
            // A task found on the stack of the thread that waits for it is not run by that thread.
            let party = PartyId::Thread(row.tid);
            fact.owners.retain(|owner| owner.party != party || owner.confidence == Confidence::Exact);
            Some((party, fact))
        };
        rows.iter().filter(|row| row.frames.iter().any(|frame| frame.own)).filter_map(&mut of_row).collect()
    }

    fn tasks(&self) -> Vec<TaskFact> {
        self.places().tasks.iter().chain(&self.serving().tasks).cloned().collect()
    }

    fn requests(&self, _rows: &[ThreadRow]) -> Vec<RequestSet> {
        self.serving().sets.clone()
    }

    fn users(&self, objects: &[Addr]) -> Vec<TaskFact> {
        self.tasks_with(objects)
    }

    fn executors(&self, rows: &[ThreadRow]) -> Vec<Executor> {
        let works = |row: &&ThreadRow| row.frames.iter().any(|frame| frame.own);
        let working: HashSet<u32> = rows.iter().filter(works).map(|row| row.tid).collect();
        let of_row = |row: ExecutorRow| Executor {
            object: POOL,
            kind: row.name,
            busy: row.tids.iter().copied().filter(|tid| working.contains(tid)).collect(),
            workers: row.tids,
            queued: row.queued.into_iter().flatten().map(|queued| (queued.item, queued.count)).collect(),
        };
        PendingTasks::executors(self).into_iter().filter(|row| !row.tids.is_empty()).map(of_row).collect()
    }

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let library = thread.frames.iter().take_while(|frame| !frame.own).take(LIBRARY_FRAMES);
        let names = library.filter_map(|frame| frame.method.as_deref());
        // The outermost method describes best what the program requested.
        let found =
            names.filter_map(|method: &str| ACTIVITIES.iter().find(|(start, _)| method.starts_with(start))).last();
        // Managed code on top, of the program or of a library that it called.
        let managed = |frame: &FrameRow| frame.runtime.is_some() && frame.kind == FrameRowKind::Managed;
        let cooperative = thread.gc_mode == Some(GcMode::Cooperative);
        let runs = thread.frames.first().is_some_and(|top| managed(top) && (top.own || cooperative))
            && thread.waits_for.is_none()
            && thread.frames.iter().any(|frame| frame.own);
        found.map(|(_, activity)| *activity).or_else(|| runs.then_some(Activity::Runs))
    }
}
