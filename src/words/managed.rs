//! Managed runtimes: threads and their locks, and what only .NET has.

use super::words;

words! {
    /// What a managed thread is to a collection.
    pub enum GcMode {
        /// It may touch objects: a collection must wait for it.
        Cooperative = "cooperative",
        /// It touches no object until it is let in again.
        Preemptive = "preemptive",
    }
}

words! {
    /// What a thread waits for at a lock.
    #[derive(Default)]
    pub enum WaitKind {
        /// To take it.
        #[default]
        Lock = "lock",
        /// To be woken: in Monitor.Wait, which gave the lock up.
        Pulse = "pulse",
        /// To be woken: in Object.wait, which gave the lock up.
        Notify = "notify",
        /// To be let go on, by whatever the object stands for (LockSupport.park).
        Park = "park",
    }
}

words! {
    /// Which part of .NET's heap a segment or region belongs to.
    #[derive(Default)]
    pub enum Generation {
        /// The youngest objects.
        #[default]
        Gen0 = "gen0",
        /// Those that one collection left.
        Gen1 = "gen1",
        /// The oldest.
        Gen2 = "gen2",
        /// Large objects, of 85,000 bytes and more where nothing else is set.
        Loh = "loh",
        /// Pinned objects, from .NET 5 on.
        Poh = "poh",
        /// Objects that are never collected.
        Frozen = "frozen",
        /// The one segment that holds generations 0, 1 and the end of 2, where the
        /// GC works by segments and not by regions.
        Ephemeral = "ephemeral",
    }
}

words! {
    /// What a handle does for the object it leads to; the names are those of SOS `gchandles`.
    #[derive(Default)]
    pub enum HandleKind {
        /// Forgets it when it becomes finalizable.
        WeakShort = "WeakShort",
        /// Forgets it when it is gone.
        WeakLong = "WeakLong",
        /// Keeps it.
        Strong = "Strong",
        /// Keeps it where it is.
        Pinned = "Pinned",
        /// Keeps it or not, as its user says.
        Variable = "Variable",
        /// Keeps it while somebody outside counts it.
        RefCounted = "RefCounted",
        /// Keeps another object while this one lives.
        Dependent = "Dependent",
        /// Keeps it where it is until an I/O is done.
        AsyncPinned = "AsyncPinned",
        /// Keeps it, and knows what it holds.
        SizedRef = "SizedRef",
        /// Forgets it, but not its COM side.
        WeakNativeCom = "WeakNativeCom",
        /// Forgets it; leads into it too.
        WeakInteriorPointer = "WeakInteriorPointer",
        /// Keeps it while another runtime's object lives.
        CrossReference = "CrossReference",
        /// Its number is none of those known.
        #[default]
        Unknown = "Unknown",
    }
}

words! {
    /// Whether an object's finalizer is due. In the order in which equal types are told.
    #[derive(Default)]
    pub enum FinalizerState {
        /// It is due and has not run.
        Ready = "ready",
        /// It is to run once nothing else leads to the object.
        #[default]
        Registered = "registered",
    }
}

words! {
    /// Where a field's value is.
    #[derive(Default)]
    pub enum FieldStorage {
        /// In each object.
        #[default]
        Instance = "instance",
        /// Once.
        Static = "static",
        /// Once for each thread.
        ThreadStatic = "thread static",
        /// In the module's image.
        Image = "static in the image",
    }
}

words! {
    /// System.Threading.Tasks.TaskStatus
    pub enum TaskStatus {
        /// Made, and not given to a scheduler.
        Created = "Created",
        /// To be scheduled once something else is done.
        WaitingForActivation = "WaitingForActivation",
        /// Scheduled, and not begun.
        WaitingToRun = "WaitingToRun",
        /// It runs.
        Running = "Running",
        /// It is done but for tasks that it began.
        WaitingForChildrenToComplete = "WaitingForChildrenToComplete",
        /// It did what it was to do.
        RanToCompletion = "RanToCompletion",
        /// Canceled.
        Canceled = "Canceled",
        /// It ended by an exception.
        Faulted = "Faulted",
    }
}

words! {
    /// What waits for the last part of a chain of tasks.
    #[derive(Default)]
    pub enum AsyncEnd {
        /// Nothing that is known.
        #[default]
        Nobody = "nobody",
        /// A part of the chain itself.
        Circle = "circle",
        /// A thread, blocked in Task.Wait.
        Thread = "thread",
        /// A delegate that is to be called.
        Callback = "callback",
        /// Another object.
        Other = "other",
    }
}

words! {
    /// What a part of a chain of tasks is.
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
