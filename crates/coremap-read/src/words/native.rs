//! Native processes: how they ended.

use super::words;

words! {
    /// How a process ended.
    #[derive(Default)]
    pub enum LastWordsKind {
        /// Another process sent the signal, as `kill` and debuggers do to take a core. Nothing is wrong by that.
        Requested = "requested",
        /// A fault: an access to memory or an instruction that the processor refused.
        Fault = "fault",
        /// A thread used up its stack.
        StackOverflow = "stack-overflow",
        /// A failed assert.
        Assert = "assert",
        /// A failed check of the C library's malloc: damage, or a block that was freed twice.
        Malloc = "malloc",
        /// A failed check of a buffer's length (fortify) or of a stack frame (stack protector).
        Fortify = "fortify",
        /// An exception of C++.
        Exception = "exception",
        /// A panic of Rust.
        Panic = "panic",
        /// Memory could not be allocated.
        OutOfMemory = "out-of-memory",
        /// The process called abort.
        Abort = "abort",
        /// A signal that nothing above explains.
        #[default]
        Signal = "signal",
    }
}

words! {
    /// Kinds of roots that hold malloc blocks.
    pub enum NativeRootKind {
        /// A variable of a module.
        Global = "global",
        /// A thread-local variable.
        Tls = "tls",
        /// A local variable on a thread's stack.
        Stack = "stack",
        /// A register of a thread.
        Register = "register",
        /// An object of a managed runtime.
        Object = "object",
    }
}

words! {
    /// What a fault's address is.
    pub enum FaultCause {
        /// A null pointer, or a field of a structure that is null.
        Null = "null",
        /// No address at all: the upper bits differ (not canonical).
        NotCanonical = "not-canonical",
        /// A pointer into a block that was freed, or read from one.
        FreedBlock = "freed-block",
        /// The tags of pointer and memory differ (aarch64's memory tagging extension): an overflow, or a block that was
        /// freed.
        Tag = "tag",
        /// Below a stack, in its guard.
        StackGuard = "stack-guard",
        /// The instruction pointer is in no code: a call through a bad pointer.
        NotCode = "not-code",
        /// Memory that must not be written.
        ReadOnly = "read-only",
        /// No memory is mapped there.
        Unmapped = "unmapped",
        /// Mapped memory without the access that was tried, or an address that was not recorded.
        Refused = "refused",
    }
}

words! {
    /// Whether the thread that owns a lock is there.
    #[derive(Default)]
    pub enum OwnerState {
        /// A thread of the process.
        #[default]
        Alive = "alive",
        /// No thread of the process, and younger than it: the thread has ended.
        Ended = "ended",
        /// Older than the process: a thread of the parent, which does not exist after fork.
        Inherited = "inherited",
        /// No thread of the process, but threads may be missing from the core.
        Unknown = "unknown",
    }
}

words! {
    /// How a block is related to the end of the process.
    pub enum BlockRole {
        /// Its header was overwritten.
        Damaged = "damaged",
        /// It ends where the damage begins, so a write past its end is the likely cause.
        Before = "before",
        /// The first block after the damage.
        After = "after",
        /// It was free when it was freed, or when it was used.
        Freed = "freed",
    }
}
