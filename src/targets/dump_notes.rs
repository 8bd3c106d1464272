//! What a core of a process holds beside its memory and no answer asks for: debuggers and people do.

use std::collections::BTreeMap;
use std::time::Duration;

/// A set of registers as the kernel gives it (PTRACE_GETREGSET), which is what a note of a core holds.
#[derive(Clone, Debug)]
pub struct RegisterSet {
    /// Type of its note: `NT_FPREGSET`, `NT_X86_XSTATE` and others (linux/elf.h).
    pub kind: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Of a thread, what answers need no more than its general registers of.
#[derive(Clone, Debug, Default)]
pub struct ThreadNotes {
    /// Its other registers, in the order of the notes.
    pub sets: Vec<RegisterSet>,
    /// Signals that it blocks, a bit each.
    pub blocked: u64,
    /// Signals that wait for it, a bit each; of the first 31 only.
    pub pending: u64,
    /// Processor time it took in its own code.
    pub user: Duration,
    /// Processor time that the kernel took for it.
    pub system: Duration,
}

/// What is known of a process that runs for the sake of its core alone.
#[derive(Clone, Debug, Default)]
pub struct DumpNotes {
    /// Threads, by thread id.
    pub threads: BTreeMap<u32, ThreadNotes>,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: u32,
    /// Its nice value.
    pub nice: i8,
    /// Flags of the kernel's task (`PF_*`).
    pub flags: u64,
    /// Text of /proc/PID/smaps.
    pub smaps: Vec<u8>,
    /// Text of /proc/PID/status.
    pub status: Vec<u8>,
}

/// What a core that coremap wrote of a process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Version of the coremap that wrote it.
    pub version: String,
    /// Commands whose pages were kept; empty: all that a core of the kernel would hold.
    pub kept: Vec<String>,
    /// When, in seconds since 1970.
    pub time: u64,
    /// How the process stood; `None`: that is missing.
    pub stood: Option<Standstill>,
}

/// How a process stood still while it was dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standstill {
    /// How long.
    pub lasted: Duration,
    /// Whether it was let go before all was read.
    pub timed_out: bool,
    /// Whether some of its memory could not be read, and is zero.
    pub lost: bool,
}
