//! All threads of a process, stopped for as long as somebody reads.
//!
//! A thread of our own seizes and interrupts them (ptrace answers to the thread that seized only), tells their registers, and waits
//! until it is told to let them go, or until that has lasted as long as the user allows. PTRACE_SEIZE and PTRACE_INTERRUPT send no
//! signal that the process could see. Where coremap is killed, the kernel lets its tracees go by itself, those that were
//! about to get a signal with that signal.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::limits;
use crate::live::How;
use crate::live::ptrace::{self, Found};
use crate::targets::dump_notes::ThreadNotes;
use crate::targets::{Arch, Thread};

/// Rounds in which threads are looked for: one that is just being made is in the list of the next.
const ROUNDS: usize = 64;

/// How long a thread is waited for that does not stop.
const PATIENCE: Duration = Duration::from_millis(500);

/// The same where it is in a wait that can't be interrupted (state `D`: a disk or NFS that hangs, a vfork whose child has not called
/// exec): such a wait is short, or very long.
const PATIENCE_BLOCKED: Duration = Duration::from_millis(20);

/// What was found once all threads stood still.
pub(super) struct Stopped {
    /// Threads with their registers, in the order of the kernel's list: the first thread first.
    pub(super) threads: Vec<Thread>,
    /// Threads that did not stop in time, and whose registers are unknown.
    pub(super) unstopped: Vec<u32>,
    /// What a core holds of the threads, where there is to be one.
    pub(super) notes: BTreeMap<u32, ThreadNotes>,
}

/// How a stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// From the first thread that was asked to stop to the last that was let go.
    pub(super) lasted: Duration,
    /// Whether the time was up before anybody let them go.
    pub(super) timed_out: bool,
}

/// A process whose threads stand still. They are let go when this is dropped, at the latest.
pub(super) struct Stop {
    let_go: Sender<()>,
    thread: Option<JoinHandle<Ended>>,
}

impl Stop {
    /// Stop all threads of `pid`, and let them go whatever happens after as long as `how` says.
    ///
    /// # Errors
    /// That of the first thread that may not be seized (EPERM), ESRCH where there is no such process.
    pub(super) fn begin(pid: u32, arch: Arch, how: How) -> io::Result<(Stop, Stopped)> {
        let (let_go, told) = mpsc::channel();
        let (tell, stopped) = mpsc::channel();
        let body = move || hold(pid, arch, how, &tell, &told);
        let thread = std::thread::Builder::new().name("stop".into()).stack_size(256 << 10).spawn(body)?;
        let stop = Stop { let_go, thread: Some(thread) };
        match stopped.recv() {
            Ok(Ok(stopped)) => Ok((stop, stopped)),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Let them go.
    pub(super) fn end(mut self) -> Option<Ended> {
        self.finish()
    }

    fn finish(&mut self) -> Option<Ended> {
        let _ = self.let_go.send(());
        self.thread.take()?.join().ok()
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Seize, stop, tell, wait, let go: all of it in one thread.
fn hold(pid: u32, arch: Arch, how: How, tell: &Sender<io::Result<Stopped>>, told: &Receiver<()>) -> Ended {
    let begun = Instant::now();
    let mut seized = Seized { threads: Vec::new(), seen: HashSet::new(), unstopped: Vec::new() };
    let mut timed_out = false;
    match seized.all(pid) {
        Err(e) => {
            let _ = tell.send(Err(e));
        }
        Ok(()) => {
            let threads = seized.threads.iter().filter_map(|&(tid, _)| thread(tid, arch)).collect();
            let tids = seized.threads.iter().map(|&(tid, _)| tid).filter(|_| how.to_dump);
            let notes = tids.map(|tid| (tid, thread_notes(tid))).collect();
            let stopped = Stopped { threads, unstopped: seized.unstopped.clone(), notes };
            if tell.send(Ok(stopped)).is_ok() {
                let waited = match how.at_most.map(|most| most.saturating_sub(begun.elapsed())) {
                    Some(left) => told.recv_timeout(left),
                    None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                timed_out = waited == Err(RecvTimeoutError::Timeout);
            }
        }
    }
    drop(seized);
    Ended { lasted: begun.elapsed(), timed_out }
}

fn thread(tid: u32, arch: Arch) -> Option<Thread> {
    let registers = ptrace::registers(tid, arch)?;
    let thread_pointer = registers.thread_pointer().or_else(|| ptrace::thread_pointer(tid));
    Some(Thread { tid, signal: 0, registers, thread_pointer })
}

fn thread_notes(tid: u32) -> ThreadNotes {
    let blocked = ptrace::blocked_signals(tid).unwrap_or(0);
    ThreadNotes { sets: ptrace::more_registers(tid), blocked, ..ThreadNotes::default() }
}

/// Threads that are ours to let go.
struct Seized {
    /// Those that stand still, each with the signal that it was about to get.
    threads: Vec<(u32, i32)>,
    seen: HashSet<u32>,
    /// Seized and asked to stop, but not seen to.
    unstopped: Vec<u32>,
}

impl Seized {
    /// Stop all, until the list of threads has none that was not seen: who stands still makes no new ones.
    fn all(&mut self, pid: u32) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let new: Vec<u32> = tids(pid)?.into_iter().filter(|tid| !self.seen.contains(tid)).collect();
            if new.is_empty() {
                break;
            }
            let mut asked = Vec::with_capacity(new.len());
            for tid in new {
                match ptrace::seize(tid) {
                    Ok(()) => asked.push(tid),
                    // It ended since it was listed; a first thread that ended before the others stays in the list.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) || has_ended(pid, tid) => {}
                    Err(e) => {
                        self.unstopped.append(&mut asked);
                        return Err(e);
                    }
                }
                self.seen.insert(tid);
                // A thread that is gone is told by the wait for it.
                let _ = ptrace::interrupt(tid);
            }
            let asked_at = Instant::now();
            for tid in asked {
                self.await_stop(pid, tid, asked_at);
            }
        }
        if self.threads.is_empty() && self.unstopped.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    }

    fn await_stop(&mut self, pid: u32, tid: u32, asked: Instant) {
        loop {
            match ptrace::wait(tid, false) {
                Ok(Some(Found::Stopped { signal })) => return self.threads.push((tid, signal)),
                Ok(Some(Found::Gone)) | Err(_) => return,
                Ok(None) => {
                    let waited = asked.elapsed();
                    if waited > PATIENCE || waited > PATIENCE_BLOCKED && state(pid, tid) == Some('D') {
                        return self.unstopped.push(tid);
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }
}

impl Drop for Seized {
    fn drop(&mut self) {
        for (tid, signal) in self.threads.drain(..) {
            let _ = ptrace::detach(tid, signal);
        }
        // Who has not stopped can't be let go by a request; it is when the thread that seized it ends, which is now. Where it
        // has stopped in the meantime, its signal goes with it.
        for tid in self.unstopped.drain(..) {
            if let Ok(Some(Found::Stopped { signal })) = ptrace::wait(tid, false) {
                let _ = ptrace::detach(tid, signal);
            }
        }
    }
}

/// The state of a thread: the letter behind its name in stat (proc(5)); `None`: it is gone.
fn state(pid: u32, tid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name stands in parentheses and may hold any.
    text.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether a thread has ended, and is at most waited for.
pub(super) fn has_ended(pid: u32, tid: u32) -> bool {
    matches!(state(pid, tid), None | Some('Z' | 'X'))
}

/// The threads of a process, as listed.
pub(super) fn tids(pid: u32) -> io::Result<Vec<u32>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))?.take(limits::MAX_THREADS) {
        // A thread that ends while the list is read may end the list.
        let Ok(entry) = entry else { break };
        out.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    out.sort_unstable_by_key(|&tid| (tid != pid, tid));
    Ok(out)
}
