//! What threads and tasks wait for, who can end the wait, and what executors have to do, as a runtime reads it.

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::map::Confidence;

/// A party of the wait graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartyId {
    /// A thread, by its system thread ID.
    Thread(u32),
    /// A task, coroutine, goroutine or virtual thread, by the address of its object.
    Task(Addr),
    /// Any worker of an executor, by the address of the executor.
    Pool(Addr),
}

/// How many of the owners must act before a wait ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitNeeds {
    /// All of them: owners of a lock, readers, the thread that initialises a class.
    #[default]
    All,
    /// One of them: workers of a pool, borrowers of a lent object.
    Any,
}

/// Somebody who can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOwner {
    /// The party.
    pub party: PartyId,
    /// [`Confidence::Exact`] if memory records it; otherwise it was inferred.
    pub confidence: Confidence,
}

/// What a party waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFact {
    /// The object that is waited for, or the lock itself.
    pub object: Addr,
    /// Type of that object.
    pub r#type: Option<String>,
    /// What it is, as in `waits for the initialisation of class A`. `None` if the object's own name is enough.
    pub what: Option<String>,
    /// Who can end the wait. Empty if nobody is known.
    pub owners: Vec<WaitOwner>,
    /// How many of them must act.
    pub needs: WaitNeeds,
    /// Type of the things that a pool of the program lends. `None` if the party does not wait for such a thing.
    pub lent: Option<String>,
    /// Number of places of a semaphore that has a maximum, all of them taken. `None` for everything else.
    pub places: Option<u32>,
    /// What the owner does to the object: `held`, `run`, `initialised`.
    pub relation: &'static str,
    /// Whether the owner has certainly ended.
    pub owner_ended: bool,
    /// Whether the owner was a thread of the parent process, which does not exist after fork.
    pub owner_inherited: bool,
    /// Whether threads without work wait for it, such as an empty queue or an idle pool.
    pub idle: bool,
    /// Whether the wait usually ends soon by itself: a short timer, an operation of a socket.
    pub soon: bool,
    /// Whether a peer or a timer ends the wait, and no thread or task of the process.
    pub outside: bool,
    /// Name of the peer. It is data of the program.
    pub peer: Option<String>,
    /// The structure that proves the wait, in words.
    pub evidence: &'static str,
}

/// Kind of the executor whose workers are carriers of virtual threads.
pub const CARRIERS: &str = "scheduler of virtual threads";

impl Executor {
    /// The word for a worker.
    pub fn worker(&self) -> &'static str {
        if self.kind == CARRIERS { "carrier" } else { "worker" }
    }
}

/// An executor: a pool of workers with a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    /// Address of its object.
    pub object: Addr,
    /// Its type or kind: `ThreadPoolExecutor`.
    pub kind: String,
    /// Workers, by system thread ID.
    pub workers: Vec<u32>,
    /// Workers that run a task.
    pub busy: Vec<u32>,
    /// Queued tasks by type, most first.
    pub queued: Vec<(String, u64)>,
}

/// Requests in flight of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSet {
    /// What a request is: `HttpExchange`.
    pub kind: String,
    /// Number of requests that are not answered.
    pub count: u64,
    /// Threads that serve them.
    pub threads: Vec<u32>,
    /// Tasks that serve them, by their addresses in [`WaitFacts::tasks`].
    pub tasks: Vec<Addr>,
    /// Their routes with the number of requests, most first. They are data of the program.
    pub routes: Vec<(String, u64)>,
}

/// A task, coroutine or virtual thread that is not done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFact {
    /// Address of its object.
    pub address: Addr,
    /// Name that the program gave to it.
    pub name: Option<String>,
    /// The innermost function of the program. `None` if it has none.
    pub place: Option<String>,
    /// The program's function that called it.
    pub caller: Option<String>,
    /// What it does, if it waits for nobody in the process. `None` if that is not known.
    pub activity: Option<Activity>,
    /// What it waits for. `None` if it runs, or is ready to.
    pub wait: Option<WaitFact>,
    /// What a runtime records of light threads. `None` for other tasks.
    pub detail: Option<TaskDetail>,
}

/// What a runtime records of a light thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDetail {
    /// Word for it: `goroutine`.
    pub word: &'static str,
    /// State in the runtime's words: `chan send`.
    pub state: &'static str,
    /// File and line of the innermost function of the program, as `main.go:87`.
    pub position: Option<String>,
    /// The method that started it.
    pub created_by: Option<String>,
    /// Size of its stack in bytes.
    pub stack: u64,
    /// Whether it waits for another party to take a value from it, as in a send.
    pub gives: bool,
}

/// What a thread does outside of the process's own locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Reads from a socket.
    SocketRead,
    /// Writes to a socket.
    SocketWrite,
    /// Connects to a peer.
    Connect,
    /// Waits for a connection.
    Accept,
    /// Resolves a name.
    Resolve,
    /// Waits until one of several files is ready.
    Select,
    /// Reads or writes a pipe.
    Pipe,
    /// Reads or writes a file, or waits for a lock of one.
    File,
    /// Waits for a child process.
    Process,
    /// Sleeps.
    Sleep,
    /// Runs.
    Runs,
}

impl Activity {
    /// The activity as a verb: `is in a socket read`.
    pub fn words(self) -> &'static str {
        match self {
            Activity::SocketRead => "is in a socket read (recv)",
            Activity::SocketWrite => "is in a socket write (send)",
            Activity::Connect => "connects to a peer",
            Activity::Accept => "waits for a connection (accept)",
            Activity::Resolve => "resolves a name",
            Activity::Select => "waits for files to be ready",
            Activity::Pipe => "is in a pipe call",
            Activity::File => "is in a file call",
            Activity::Process => "waits for a child process",
            Activity::Sleep => "sleeps",
            Activity::Runs => "runs",
        }
    }

    /// Whether a party outside of the process decides when it ends.
    pub fn is_outside(self) -> bool {
        !matches!(self, Activity::Runs | Activity::Accept | Activity::Select)
    }

    /// Whether a thread without work does this.
    pub fn is_idle(self) -> bool {
        matches!(self, Activity::Accept | Activity::Select)
    }
}

/// What a runtime knows of waits beyond its locks ([`Locks`](crate::runtimes::api::Locks)).
pub trait WaitFacts: Sync {
    /// Waits of threads. They replace what `threads` found by locks alone.
    fn waits(&self, threads: &[ThreadRow]) -> Vec<(PartyId, WaitFact)> {
        let _ = threads;
        Vec::new()
    }

    /// Tasks that are not done, and not threads.
    fn tasks(&self) -> Vec<TaskFact> {
        Vec::new()
    }

    /// Bytes of live objects of its heap. 0 if they are not counted.
    fn live_bytes(&self) -> u64 {
        0
    }

    /// Its executors.
    fn executors(&self, threads: &[ThreadRow]) -> Vec<Executor> {
        let _ = threads;
        Vec::new()
    }

    /// Requests in flight.
    fn requests(&self, threads: &[ThreadRow]) -> Vec<RequestSet> {
        let _ = threads;
        Vec::new()
    }

    /// Waiting tasks that use one of these objects: methods of the object, or methods with the object in a variable.
    fn users(&self, objects: &[Addr]) -> Vec<TaskFact> {
        let _ = objects;
        Vec::new()
    }

    /// Name of the native function that a thread's innermost managed method called.
    fn callee(&self, thread: &ThreadRow) -> Option<String> {
        let _ = thread;
        None
    }

    /// Returns what is blocked while a thread runs, because only this thread serves it, such as an event loop. `None`
    /// for most threads.
    fn serves(&self, thread: &ThreadRow) -> Option<&'static str> {
        let _ = thread;
        None
    }

    /// What a thread does, by its frames. `None` if they do not show it.
    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let _ = thread;
        None
    }
}
