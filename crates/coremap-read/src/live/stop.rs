//! Stops all threads of a process while it is read.
//!
//! A thread of our own seizes and interrupts them, since ptrace obeys only the thread that seized. It sends their
//! registers, and then waits until it should resume them, or until the time allowed by the user is over. It does
//! nothing else, so it resumes them in time whatever other threads wait for. PTRACE_SEIZE and PTRACE_INTERRUPT send no
//! signal that the process could notice. If coremap is killed, the kernel resumes its tracees. If a tracee was about to
//! receive a signal, it gets that signal.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::limits;
use crate::live::AttachOptions;
use crate::live::ptrace::{self, TraceState};
use crate::live::stops::Entry;
use crate::targets::dump_notes::ThreadNotes;
use crate::targets::{Arch, Thread};

/// Maximum number of times that the threads are listed. A thread that is just being created is in the next list.
const ROUNDS: usize = 64;

/// Maximum wait for a thread to stop.
const PATIENCE: Duration = Duration::from_millis(500);

/// Maximum wait for a thread in an uninterruptible wait: state `D`, as with a hung disk or NFS, or a vfork whose child
/// has not called exec. Such waits are either short or very long.
const PATIENCE_BLOCKED: Duration = Duration::from_millis(20);

pub(super) struct Stopped {
    /// Threads with their registers, in the kernel's order, the first thread first.
    pub(super) threads: Vec<Thread>,
    /// IDs of threads that did not stop in time; their registers are unknown.
    pub(super) unstopped: Vec<u32>,
    /// Data of each thread for its core, if the process is to be dumped.
    pub(super) notes: BTreeMap<u32, ThreadNotes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopSummary {
    /// Time from the first thread asked to stop to the last one resumed.
    pub(super) lasted: Duration,
    /// Whether the allowed time was over before the threads were released.
    pub(super) timed_out: bool,
}

/// A process whose threads are stopped. Dropping this resumes them, if they were not resumed before.
pub(super) struct Stop {
    release: Sender<()>,
    thread: Option<JoinHandle<StopSummary>>,
}

impl Stop {
    /// Stops all threads of `pid`. They are resumed after the time in `attach`, whatever happens.
    ///
    /// # Errors
    /// EPERM if a thread may not be seized; ESRCH if there is no such process.
    pub(super) fn begin(pid: u32, arch: Arch, attach: AttachOptions) -> io::Result<(Stop, Stopped)> {
        let (release, released) = mpsc::channel();
        let (report, stopped) = mpsc::channel();
        let entry = Entry::new(release.clone());
        let body = move || trace_until_released(pid, arch, attach, &report, &released, entry);
        let thread = std::thread::Builder::new().name("stop".into()).stack_size(256 << 10).spawn(body)?;
        let stop = Stop { release, thread: Some(thread) };
        match stopped.recv() {
            Ok(Ok(stopped)) => Ok((stop, stopped)),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Resumes the threads.
    pub(super) fn end(mut self) -> Option<StopSummary> {
        self.finish()
    }

    fn finish(&mut self) -> Option<StopSummary> {
        let _ = self.release.send(());
        self.thread.take()?.join().ok()
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Body of the tracing thread: seizes, stops, reports, waits, resumes.
fn trace_until_released(
    pid: u32,
    arch: Arch,
    attach: AttachOptions,
    report: &Sender<io::Result<Stopped>>,
    released: &Receiver<()>,
    entry: Entry,
) -> StopSummary {
    let begun = Instant::now();
    let mut seized = Seized { threads: Vec::new(), seen: HashSet::new(), unstopped: Vec::new() };
    let mut timed_out = false;
    match seized.all(pid) {
        Err(e) => {
            let _ = report.send(Err(e));
        }
        Ok(()) => {
            let threads = seized.threads.iter().filter_map(|&(tid, _)| thread(tid, arch)).collect();
            let tids = seized.threads.iter().map(|&(tid, _)| tid).filter(|_| attach.to_dump);
            let notes = tids.map(|tid| (tid, thread_notes(tid))).collect();
            let stopped = Stopped { threads, unstopped: seized.unstopped.clone(), notes };
            if report.send(Ok(stopped)).is_ok() {
                let waited = match attach.max_stop.map(|most| most.saturating_sub(begun.elapsed())) {
                    Some(left) => released.recv_timeout(left),
                    None => released.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                timed_out = waited == Err(RecvTimeoutError::Timeout);
            }
        }
    }
    drop(seized);
    drop(entry);
    StopSummary { lasted: begun.elapsed(), timed_out }
}

fn thread(tid: u32, arch: Arch) -> Option<Thread> {
    let mut registers = ptrace::registers(tid, arch)?;
    if let Some(mask) = ptrace::signature(tid) {
        registers.set_signature(mask);
    }
    let thread_pointer = registers.thread_pointer().or_else(|| ptrace::thread_pointer(tid));
    Some(Thread { tid, signal: 0, registers, thread_pointer, cpu: None, call: None })
}

fn thread_notes(tid: u32) -> ThreadNotes {
    let blocked = ptrace::blocked_signals(tid).unwrap_or(0);
    ThreadNotes { sets: ptrace::more_registers(tid), blocked, ..ThreadNotes::default() }
}

/// Seized threads, which must be resumed.
struct Seized {
    /// Stopped threads, each with the signal that it was about to receive, or 0.
    threads: Vec<(u32, i32)>,
    seen: HashSet<u32>,
    /// Seized threads that have not stopped.
    unstopped: Vec<u32>,
}

impl Seized {
    /// Stops all threads. Repeats until the list has no new ones; stopped threads create none.
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
                    // The thread ended after it was listed. A first thread that ended before the others stays in the
                    // list.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) || has_ended(pid, tid) => {}
                    Err(e) => {
                        self.unstopped.append(&mut asked);
                        return Err(e);
                    }
                }
                self.seen.insert(tid);
                // If the thread is gone, the wait below notices.
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
                Ok(Some(TraceState::Stopped { signal })) => return self.threads.push((tid, signal)),
                Ok(Some(TraceState::Gone)) | Err(_) => return,
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
        // A thread that has not stopped can't be resumed by a request. It is resumed when the thread that seized it
        // ends, which happens now. If it has stopped meanwhile, pass on its signal.
        for tid in self.unstopped.drain(..) {
            if let Ok(Some(TraceState::Stopped { signal })) = ptrace::wait(tid, false) {
                let _ = ptrace::detach(tid, signal);
            }
        }
    }
}

/// Returns the state of a thread: the letter after its name in stat (proc(5)). `None` if the thread is gone.
fn state(pid: u32, tid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name is in parentheses, and may contain parentheses.
    text.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether a thread has ended, even if it still waits for its parent.
pub(super) fn has_ended(pid: u32, tid: u32) -> bool {
    matches!(state(pid, tid), None | Some('Z' | 'X'))
}

/// Returns the IDs of a process's threads, the first thread first.
pub(super) fn tids(pid: u32) -> io::Result<Vec<u32>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))?.take(limits::MAX_THREADS) {
        // A thread that ends during the listing may end the list.
        let Ok(entry) = entry else { break };
        out.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    out.sort_unstable_by_key(|&tid| (tid != pid, tid));
    Ok(out)
}
