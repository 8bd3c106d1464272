//! Managed runtimes: threads, locks, and what only .NET has.

use super::words;

words! {
    /// GC mode of a managed thread.
    pub enum GcMode {
        /// It may access objects: a collection must wait for it.
        Cooperative = "cooperative",
        /// It does not access objects until it switches back.
        Preemptive = "preemptive",
    }
}

words! {
    /// What a thread waits for.
    #[derive(Default)]
    pub enum WaitKind {
        /// To acquire the lock.
        #[default]
        Lock = "lock",
        /// For a pulse: it is in Monitor.Wait, which released the lock.
        Pulse = "pulse",
        /// For a notification: it is in Object.wait, which released the lock.
        Notify = "notify",
        /// To be unparked (LockSupport.park).
        Park = "park",
        /// For another thread to end (Thread.Join, pthread_join).
        Join = "join",
        /// For another thread to run the static initialiser of a class.
        ClassInit = "class-init",
        /// For an event to be set.
        Event = "event",
        /// For a place of a semaphore.
        Semaphore = "semaphore",
        /// For a task to complete (Task.Wait, Task.Result).
        Task = "task",
        /// For a count to reach zero (CountdownEvent).
        Countdown = "countdown",
        /// For the other participants of a barrier.
        Barrier = "barrier",
        /// For an item to take from an empty collection (BlockingCollection).
        Take = "take",
        /// For room in a collection that is full (BlockingCollection).
        Add = "add",
        /// For time to pass (Thread.Sleep).
        Sleep = "sleep",
        /// To acquire a native mutex.
        Mutex = "mutex",
        /// To acquire a native lock for reading or writing.
        ReaderWriter = "rwlock",
        /// For a native condition variable.
        Condition = "condvar",
        /// For another thread that initialises something once (call_once, a static in a function).
        Once = "once",
        /// For a std::future.
        Future = "future",
        /// For a message of a channel.
        Channel = "channel",
        /// For a futex of unknown use.
        Futex = "futex",
    }
}

impl WaitKind {
    /// Whether another thread must release something that it acquired.
    pub fn is_lock(self) -> bool {
        matches!(self, WaitKind::Lock | WaitKind::Mutex | WaitKind::ReaderWriter)
    }
}

words! {
    /// Life of objects that own native memory.
    #[derive(Default)]
    pub enum HolderState {
        /// Roots reach them.
        #[default]
        Live = "live",
        /// No root reaches them: a collection and their finalizers free what they own.
        Dead = "dead",
        /// Their finalizers are due, or only objects whose finalizers are due reach them.
        Queued = "queued",
        /// Not reached from the roots that were read. Not all roots and references were read, so they may be alive.
        Unreached = "unreached",
    }
}

words! {
    /// What the completion of a task depends on.
    pub enum TaskEndKind {
        /// On nothing: it is complete.
        Done = "done",
        /// On a thread that runs it.
        Thread = "thread",
        /// On a thread pool, in whose queue it is.
        Pool = "pool",
        /// On a queue of the program's own: what it awaits is done, and it is in no queue of the thread pool.
        Posted = "posted",
        /// On a place of a semaphore.
        Semaphore = "semaphore",
        /// On a timer.
        Timer = "timer",
        /// On an operation that is no task, such as one of a socket or a channel.
        Source = "source",
        /// On code that completes the task.
        Promise = "promise",
        /// On itself: the tasks await each other.
        Circle = "circle",
        /// It could not be read.
        Unknown = "unknown",
    }
}

words! {
    /// Kind of lock.
    pub enum LockKind {
        /// The monitor of an object (lock, Monitor.Enter).
        Monitor = "monitor",
        /// The monitor of an object; its waiters are in Monitor.Wait, which released it.
        MonitorWait = "monitor.wait",
        /// System.Threading.Lock.
        Lock = "lock",
        /// Mutex.
        Mutex = "mutex",
        /// AutoResetEvent, ManualResetEvent or EventWaitHandle.
        Event = "event",
        /// Semaphore.
        Semaphore = "semaphore",
        /// ReaderWriterLockSlim or ReaderWriterLock.
        ReaderWriter = "rwlock",
        /// A thread that others wait for to end (Thread.Join). It is its own owner.
        Join = "join",
        /// SemaphoreSlim.
        SemaphoreSlim = "semaphoreslim",
        /// ManualResetEventSlim.
        EventSlim = "eventslim",
        /// A task that threads wait for (Task.Wait, Task.Result).
        Task = "task",
        /// A native condition variable.
        Condition = "condvar",
    }
}

impl LockKind {
    /// What a thread in the lock's queue waits for.
    pub(crate) fn wait(self) -> WaitKind {
        match self {
            LockKind::Monitor | LockKind::Lock | LockKind::Mutex | LockKind::ReaderWriter => WaitKind::Lock,
            LockKind::MonitorWait => WaitKind::Pulse,
            LockKind::Join => WaitKind::Join,
            LockKind::Event | LockKind::EventSlim => WaitKind::Event,
            LockKind::Semaphore | LockKind::SemaphoreSlim => WaitKind::Semaphore,
            LockKind::Task => WaitKind::Task,
            LockKind::Condition => WaitKind::Condition,
        }
    }
}

words! {
    /// Generation of .NET's heap.
    #[derive(Default)]
    pub enum Generation {
        /// The youngest objects.
        #[default]
        Gen0 = "gen0",
        /// Objects that survived one collection.
        Gen1 = "gen1",
        /// The oldest objects.
        Gen2 = "gen2",
        /// Large objects, of at least 85,000 bytes by default.
        Loh = "loh",
        /// Pinned objects, from .NET 5 on.
        Poh = "poh",
        /// Objects that are never collected.
        Frozen = "frozen",
        /// The segment with generations 0 and 1 and the end of 2, where the GC uses segments instead of regions.
        Ephemeral = "ephemeral",
    }
}

words! {
    /// Effect of a handle on its object; the names are the names in SOS `gchandles`.
    #[derive(Default)]
    pub enum HandleKind {
        /// Cleared when the object becomes finalizable.
        WeakShort = "WeakShort",
        /// Cleared when the object is collected.
        WeakLong = "WeakLong",
        /// Keeps the object alive.
        Strong = "Strong",
        /// Keeps the object alive and in its position.
        Pinned = "Pinned",
        /// Strength set by its user.
        Variable = "Variable",
        /// Keeps the object alive while its external reference count is positive.
        RefCounted = "RefCounted",
        /// Keeps a second object alive while the first one lives.
        Dependent = "Dependent",
        /// Keeps the object alive and in its position until an I/O completes.
        AsyncPinned = "AsyncPinned",
        /// Keeps the object alive and records its size.
        SizedRef = "SizedRef",
        /// Weak handle to an object with a COM wrapper.
        WeakNativeCom = "WeakNativeCom",
        /// Weak handle that may point into the object.
        WeakInteriorPointer = "WeakInteriorPointer",
        /// Keeps the object alive while an object of another runtime lives.
        CrossReference = "CrossReference",
        /// Unknown kind number.
        #[default]
        Unknown = "Unknown",
    }
}

words! {
    /// Whether an object's finalizer is due. Equal types are listed in this order.
    #[derive(Default)]
    pub enum FinalizerState {
        /// Due, but has not run.
        Ready = "ready",
        /// Runs once nothing else refers to the object.
        #[default]
        Registered = "registered",
    }
}

words! {
    /// Where a field's value is stored.
    #[derive(Default)]
    pub enum FieldStorage {
        /// In each object.
        #[default]
        Instance = "instance",
        /// Once.
        Static = "static",
        /// Once per thread.
        ThreadStatic = "thread static",
        /// In the module's image.
        Image = "static in the image",
    }
}

words! {
    /// System.Threading.Tasks.TaskStatus
    pub enum TaskStatus {
        /// Created, but not given to a scheduler.
        Created = "Created",
        /// Scheduled once another operation completes.
        WaitingForActivation = "WaitingForActivation",
        /// Scheduled, but not started.
        WaitingToRun = "WaitingToRun",
        /// Running.
        Running = "Running",
        /// Done, except for child tasks.
        WaitingForChildrenToComplete = "WaitingForChildrenToComplete",
        /// Completed.
        RanToCompletion = "RanToCompletion",
        /// Canceled.
        Canceled = "Canceled",
        /// Ended by an exception.
        Faulted = "Faulted",
    }
}

words! {
    /// State of a chain of async methods.
    #[derive(Default)]
    pub enum AsyncState {
        /// Its innermost method waits.
        #[default]
        Waiting = "waiting",
        /// What the innermost method awaited is done, but the method has not resumed yet.
        Ready = "ready",
        /// Its innermost method runs.
        Running = "running",
    }
}

words! {
    /// What waits for the last element of a chain of tasks.
    #[derive(Default)]
    pub enum AsyncEnd {
        /// Nothing known.
        #[default]
        Nobody = "nobody",
        /// An element of the chain itself.
        Circle = "circle",
        /// A thread blocked in Task.Wait.
        Thread = "thread",
        /// A delegate to call.
        Callback = "callback",
        /// Another object.
        Other = "other",
    }
}

words! {
    /// Kind of element in a chain of tasks.
    #[derive(Default)]
    pub enum AsyncPart {
        /// An async method.
        Method = "method",
        /// A task.
        Task = "task",
        /// The source of a ValueTask, or another awaiter's object.
        #[default]
        Source = "source",
    }
}
