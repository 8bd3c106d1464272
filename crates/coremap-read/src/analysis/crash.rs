//! The thread and the signal that caused the dump, for `info`, `threads` and `stacks`.
//!
//! The kernel puts this thread first (fs/coredump.c), and the signal into the NT_PRSTATUS of every thread. gdb writes
//! an NT_SIGINFO after each thread, and its own signal if it attached to a healthy process. createdump writes SIGABRT
//! into every thread (3.1), or no signal into threads that did not crash.

use crate::process::Process;
use crate::targets::Producer;
use crate::targets::SignalInfo;

/// Why a process was dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The thread that crashed. `None` if the producer does not record it.
    pub tid: Option<u32>,
    /// The signal. `None` if the core does not prove one.
    pub signal: Option<Signal>,
}

/// A signal and its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// Its NT_SIGINFO, if the core has one.
    pub info: Option<SignalInfo>,
}

/// Signals by which gdb stops a process it attaches to: SIGSTOP, SIGTRAP.
const ATTACH_SIGNALS: [i32; 2] = [19, 5];

/// Finds the thread and the signal that caused the dump.
pub fn crash(process: &Process) -> Crash {
    let (notes, producer) = (process.facts(), process.producer());
    let stopped = |number: i32| producer == Producer::Gcore && ATTACH_SIGNALS.contains(&number);
    let info = notes.signal.filter(|s| s.signo != 0 && !stopped(s.signo));
    let mut marked = notes.threads.iter().filter(|t| t.signal != 0 && !stopped(i32::from(t.signal)));
    let first = notes.threads.first().filter(|_| !notes.first_thread_lost);
    let (by_note, tid) = match producer {
        Producer::Kernel => (first.map(|t| i32::from(t.signal)), first.map(|t| t.tid)),
        // If only one of several threads has a signal, it crashed. If all have it, it proves nothing.
        Producer::Createdump | Producer::Gcore => {
            let one = marked.next().filter(|_| marked.next().is_none() && notes.threads.len() > 1);
            (one.map(|t| i32::from(t.signal)), info.and(notes.signal_tid).or(one.map(|t| t.tid)))
        }
        Producer::Unknown => (first.map(|t| i32::from(t.signal)), None),
        Producer::Live | Producer::Coremap => (None, None),
    };
    let number = info.map(|s| s.signo).or(by_note.filter(|&number| number != 0));
    // Without a signal, the first thread did not crash.
    Crash { tid: tid.filter(|_| number.is_some()), signal: number.map(|number| Signal { number, info }) }
}

pub fn name(number: i32) -> String {
    SIGNALS.iter().find(|(n, _)| *n == number).map_or_else(|| format!("signal {number}"), |(_, s)| (*s).into())
}

/// Signal numbers of x86_64 and aarch64 Linux (asm-generic/signal.h).
const SIGNALS: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "SIGSTKFLT"),
    (19, "SIGSTOP"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
    (34, "SIGRTMIN"),
];
