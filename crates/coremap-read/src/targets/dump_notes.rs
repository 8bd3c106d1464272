//! Data that a core of a process contains besides its memory, and that only debuggers and people need.

use std::collections::BTreeMap;
use std::time::Duration;

/// A register set as returned by PTRACE_GETREGSET, which is the contents of its note in a core.
#[derive(Clone, Debug)]
pub struct RegisterSet {
    /// Type of its note: `NT_FPREGSET`, `NT_X86_XSTATE` and others (linux/elf.h).
    pub kind: u32,
    /// The contents of the note.
    pub bytes: Vec<u8>,
}

/// Data of a thread for its notes, besides the general registers.
#[derive(Clone, Debug, Default)]
pub struct ThreadNotes {
    /// Its other register sets, in the order of the notes.
    pub sets: Vec<RegisterSet>,
    /// Signals that it blocks, one bit each.
    pub blocked: u64,
    /// Pending signals, one bit each; only the first 31.
    pub pending: u64,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
}

/// Data of a running process that is needed only for its core.
#[derive(Clone, Debug, Default)]
pub struct DumpNotes {
    /// Threads by thread ID.
    pub threads: BTreeMap<u32, ThreadNotes>,
    /// Process group ID.
    pub group: u32,
    /// Session ID.
    pub session: u32,
    /// Nice value.
    pub nice: i8,
    /// Flags of the kernel's task (`PF_*`).
    pub flags: u64,
    /// Text of /proc/PID/smaps.
    pub smaps: Vec<u8>,
    /// Text of /proc/PID/status.
    pub status: Vec<u8>,
}

/// How coremap wrote a core of a process, from the core's own note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Version of the coremap that wrote it.
    pub version: String,
    /// Commands whose pages were written. Empty for a full core.
    pub kept: Vec<String>,
    /// Time of the dump in seconds since 1970.
    pub time: u64,
    /// How the process was stopped. `None` if this is missing.
    pub stop: Option<DumpStop>,
}

/// How a process was stopped while it was dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpStop {
    /// How long it was stopped.
    pub lasted: Duration,
    /// Whether it was resumed before everything was read.
    pub timed_out: bool,
    /// Whether some of its memory could not be read, and is zero.
    pub lost: bool,
}
