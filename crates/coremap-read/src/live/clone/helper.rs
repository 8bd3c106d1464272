//! The helper: a process that makes a thread of the target create the copy, and that ends the copy.
//!
//! While the thread's registers are changed, only its tracer can restore them. So the tracer is a process of its own: if
//! coremap is killed, the helper still restores the registers, lets the thread run, and ends the copy. It is in no
//! terminal's foreground group, blocks all signals, and has no files but its link to coremap.
//!
//! It runs after fork, so it takes no lock and allocates nothing.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::addr::Addr;
use crate::live::clone::calls::{self, Awaited, TraceEvent, TraceOptions};
use crate::live::clone::machine::{MACHINE, State};
use crate::live::ptrace::{self, MAX_REGISTERS, TraceState};

/// Maximum number of threads that are tried.
pub(super) const MAX_CANDIDATES: usize = 16;

/// Maximum wait for a thread to stop. On a busy machine it must run first. If it takes longer, this process ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// The same at the end, when nothing waits for it, and a zombie would be left.
const REAP_PATIENCE: Duration = Duration::from_secs(10);

/// Time between two looks at a thread that is about to stop.
const PAUSE: Duration = Duration::from_micros(50);

/// How often the threads are tried in order to remove the ended copy from the process's children, and the time between.
const REAP_TRIES: usize = 200;
const REAP_PAUSE: Duration = Duration::from_millis(10);

/// Offset of `rseq_cs` in `struct rseq` (linux/rseq.h).
const RSEQ_CS: u64 = 8;

/// Blocks all signals of a thread.
const ALL_SIGNALS: u64 = u64::MAX;

/// `CLONE_FILES` (linux/sched.h): the copy shares the table of open files, so that a file or socket that the process
/// closes is closed. No signal at its end, so that the process's `wait` does not see it.
const CLONE_FLAGS: u64 = 0x400;

/// Stack pointer of the copy, where no memory is. It never runs, but if it did, it would end at once.
const NO_STACK: u64 = 16;

/// `__WALL` and `WNOHANG` of wait4(2).
const WAIT_FLAGS: u64 = 0x4000_0000 | 1;

/// What the helper needs. Made before the fork.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) pid: u32,
    /// Threads that may make the call, the best first; 0 for none.
    pub(super) candidates: [u32; MAX_CANDIDATES],
    /// Address of an instruction that makes a system call.
    pub(super) instruction: u64,
    /// Whether the process has a seccomp filter, which must be suspended.
    pub(super) is_filtered: bool,
    /// Time from now until the thread is resumed in any case.
    pub(super) max_stop: Option<Duration>,
}

/// Orders from coremap. Each is answered, in this order.
pub(super) mod order {
    /// Creates the copy.
    pub(in crate::live::clone) const CLONE: u8 = 1;
    /// Resumes the thread.
    pub(in crate::live::clone) const RELEASE: u8 = 2;
    /// Ends the copy.
    pub(in crate::live::clone) const END: u8 = 3;
}

/// Answers to coremap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The order was carried out. With the thread that was stopped, or the ID of the copy.
    Done(u32),
    /// No thread can make the call.
    NoThread,
    /// The filter can't be suspended.
    Filtered,
    /// The call failed with this error.
    Failed(i32),
}

/// Length of an answer in bytes: its kind and number, and the registers with their count and two more.
pub(super) const ANSWER: usize = (5 + MAX_REGISTERS) * 8;

impl Answer {
    pub(super) fn encode(self, state: Option<&State>) -> [u8; ANSWER] {
        let (kind, number) = match self {
            Answer::Done(id) => (0, u64::from(id)),
            Answer::NoThread => (1, 0),
            Answer::Filtered => (2, 0),
            Answer::Failed(error) => (3, error as u64),
        };
        let state = state.unwrap_or(&State::EMPTY);
        let mut out = [0; ANSWER];
        let head = [kind, number, state.count as u64].into_iter().chain(state.more);
        let all = head.chain(state.words.iter().copied());
        for (to, from) in out.as_chunks_mut::<8>().0.iter_mut().zip(all) {
            *to = from.to_ne_bytes();
        }
        out
    }

    pub(super) fn decode(bytes: &[u8; ANSWER]) -> (Answer, State) {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let (kind, number, count) = (next(), next(), next());
        let mut state = State { count: (count as usize).min(MAX_REGISTERS), ..State::EMPTY };
        state.more.iter_mut().for_each(|word| *word = next());
        state.words.iter_mut().for_each(|word| *word = next());
        let answer = match kind {
            0 => Answer::Done(number as u32),
            1 => Answer::NoThread,
            2 => Answer::Filtered,
            _ => Answer::Failed(number as i32),
        };
        (answer, state)
    }
}

/// Ends this process whatever happens: it must not return to the code of its parent.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        calls::exit();
    }
}

/// A thread did not stop in time. This process must end.
const BUSY: Answer = Answer::Failed(libc::EBUSY);

/// A thread of the target, stopped by this process.
struct Held {
    tid: u32,
    /// Registers with which it continues.
    state: State,
    /// Signals that it blocks.
    blocked: u64,
    is_filtered: bool,
}

/// Runs the helper. Ends when coremap orders it or ends, or when the target ends.
pub(super) fn run(mut link: UnixStream, plan: &Plan) -> ! {
    let _ending = Ending;
    let began = Instant::now();
    let _ = rustix::process::setsid();
    calls::detach_from_parent(link.as_raw_fd());
    let target = pidfd(plan.pid);
    let mut copy = Copied::default();
    let mut is_asked = false;
    match hold(plan, PATIENCE) {
        Ok(held) => {
            let is_sent = link.write_all(&Answer::Done(held.tid).encode(Some(&held.state))).is_ok();
            if is_sent {
                let left = || plan.max_stop.map(|limit| limit.saturating_sub(began.elapsed()));
                is_asked = serve(&mut link, plan, held, left, &mut copy);
            } else {
                held.release();
            }
        }
        Err(answer) => {
            let _ = link.write_all(&answer.encode(None));
        }
    }
    if let Some(pid) = copy.pid {
        is_asked = is_asked || await_end(&mut link, target.as_ref());
        calls::kill(pid);
        copy.reap(plan);
    }
    if is_asked {
        let _ = link.write_all(&Answer::Done(0).encode(None));
    }
    calls::exit()
}

fn pidfd(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Carries out orders until the thread is resumed. Returns whether coremap asked for the end, and waits for an answer.
fn serve(
    link: &mut UnixStream,
    plan: &Plan,
    held: Held,
    left: impl Fn() -> Option<Duration>,
    copy: &mut Copied,
) -> bool {
    loop {
        let millis = left().map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX));
        if calls::await_input(link, None, millis) == Awaited::Nothing {
            // The time is over, or the wait failed.
            if left().is_some_and(|left| left.is_zero()) {
                held.release();
                return false;
            }
            continue;
        }
        let mut word = [0];
        if link.read_exact(&mut word).is_err() {
            held.release();
            return false;
        }
        let answer = match word {
            [order::CLONE] => held.clone_process(plan.instruction, copy),
            [order::END] => {
                held.release();
                return true;
            }
            _ => {
                held.release();
                let _ = link.write_all(&Answer::Done(0).encode(None));
                return false;
            }
        };
        if link.write_all(&answer.encode(None)).is_err() {
            held.release();
            return false;
        }
    }
}

/// Waits until the copy is not needed any more. Returns whether coremap waits for an answer.
fn await_end(link: &mut UnixStream, target: Option<&OwnedFd>) -> bool {
    loop {
        match calls::await_input(link, target.map(AsRawFd::as_raw_fd), -1) {
            // The copy shares files with the target: sockets would stay open.
            Awaited::End => return false,
            Awaited::Nothing => {}
            Awaited::Input => {
                let mut word = [0];
                if link.read_exact(&mut word).is_err() {
                    return false;
                }
                if word == [order::END] {
                    return true;
                }
                // The thread was resumed already.
                if link.write_all(&Answer::Done(0).encode(None)).is_err() {
                    return false;
                }
            }
        }
    }
}

/// Stops one of the threads at a point where it can make a system call.
fn hold(plan: &Plan, patience: Duration) -> Result<Held, Answer> {
    let mut answer = Answer::NoThread;
    for &tid in plan.candidates.iter().take_while(|&&tid| tid != 0) {
        match Held::stop(plan, tid, patience) {
            Ok(held) => return Ok(held),
            Err(BUSY) => return Err(BUSY),
            Err(refusal) => answer = refusal,
        }
    }
    Err(answer)
}

impl Held {
    fn stop(plan: &Plan, tid: u32, patience: Duration) -> Result<Held, Answer> {
        let failed = |error: std::io::Error| Answer::Failed(error.raw_os_error().unwrap_or(0));
        ptrace::seize(tid).map_err(failed)?;
        // If the thread is gone, the wait for it will notice.
        let _ = ptrace::interrupt(tid);
        let asked = Instant::now();
        loop {
            match ptrace::wait(tid, false) {
                Ok(Some(TraceState::Stopped { signal: 0 })) => break,
                // It goes on with its signal, and another thread is tried.
                Ok(Some(TraceState::Stopped { signal })) => {
                    let _ = ptrace::detach(tid, signal);
                    return Err(Answer::NoThread);
                }
                Ok(Some(TraceState::Gone)) | Err(_) => return Err(Answer::NoThread),
                Ok(None) if asked.elapsed() > patience => {
                    // It can't be released before it stops. The kernel releases it when this process ends.
                    return Err(BUSY);
                }
                Ok(None) => std::thread::sleep(PAUSE),
            }
        }
        let held = Held::read(plan, tid);
        if held.is_err() {
            let _ = ptrace::detach(tid, 0);
        }
        held
    }

    fn read(plan: &Plan, tid: u32) -> Result<Held, Answer> {
        let state = State::read(tid).ok_or(Answer::NoThread)?;
        let blocked = ptrace::blocked_signals(tid).ok_or(Answer::NoThread)?;
        if !state.is_suitable() || may_be_in_sequence(plan.pid, tid, &state) {
            return Err(Answer::NoThread);
        }
        let held = Held { tid, state, blocked, is_filtered: plan.is_filtered };
        if plan.is_filtered && calls::set_options(tid, held.options()).is_err() {
            return Err(Answer::Filtered);
        }
        Ok(held)
    }

    fn options(&self) -> TraceOptions {
        TraceOptions { calls: true, unfiltered: self.is_filtered, dies_with_tracer: false }
    }

    fn release(self) {
        let _ = ptrace::detach(self.tid, 0);
    }

    /// Makes the thread create a copy of its process. The copy is stopped before its first instruction.
    fn clone_process(&self, instruction: u64, copy: &mut Copied) -> Answer {
        let mut created = None;
        let called = self.call(instruction, MACHINE.clone, &[CLONE_FLAGS, NO_STACK, 0, 0, 0, 0], &mut created);
        let Some(pid) = created else {
            return Answer::Failed(called.and_then(i64::checked_neg).map_or(libc::ESRCH, |error| error as i32));
        };
        *copy = Copied { pid: created, theirs: called.and_then(|result| u64::try_from(result).ok()) };
        let dies = TraceOptions { dies_with_tracer: true, ..TraceOptions::default() };
        let is_stopped = calls::next_event(pid) == TraceEvent::Interrupted;
        if is_stopped && calls::set_options(pid, dies).is_ok() {
            Answer::Done(pid)
        } else {
            Answer::Failed(libc::ESRCH)
        }
    }

    /// Makes the thread call the system, and restores its registers. Returns the result, if the call was made. `created`:
    /// the process that the call creates, in our namespace.
    fn call(&self, instruction: u64, number: u64, arguments: &[u64; 6], created: &mut Option<u32>) -> Option<i64> {
        let tid = self.tid;
        calls::set_options(tid, self.options()).ok()?;
        // A handler of a signal would run with registers that are not the thread's.
        calls::block_signals(tid, ALL_SIGNALS).ok()?;
        let state = self.state.for_call(instruction, number, arguments);
        let is_set = calls::set_general_registers(tid, state.get()).is_ok();
        let result = if is_set { self.run_call(created) } else { None };
        self.restore();
        result
    }

    fn run_call(&self, created: &mut Option<u32>) -> Option<i64> {
        let mut is_in_call = false;
        loop {
            calls::run(self.tid, true).ok()?;
            match calls::next_event(self.tid) {
                TraceEvent::Call if is_in_call => break,
                TraceEvent::Call => is_in_call = true,
                TraceEvent::Cloned => *created = calls::created(self.tid),
                // The process is being stopped.
                TraceEvent::Interrupted => {}
                // There is no such instruction, or the call is not allowed.
                TraceEvent::Signal | TraceEvent::Gone => return None,
            }
        }
        State::read(self.tid).map(|state| state.result())
    }

    /// Restores the registers, and brings the thread back to the kind of stop it was in. Only on the way out of such a
    /// stop does the kernel repeat a system call that was interrupted.
    fn restore(&self) {
        let tid = self.tid;
        let _ = calls::set_general_registers(tid, self.state.get());
        let _ = ptrace::interrupt(tid);
        // No instruction runs in between: the kernel looks for an interruption before it returns to the program.
        if calls::run(tid, false).is_ok() {
            calls::next_event(tid);
        }
        let _ = calls::set_general_registers(tid, self.state.get());
        // Now, so that no signal is delivered before this stop.
        let _ = calls::block_signals(tid, self.blocked);
    }
}

/// Whether the thread may be in a restartable sequence (rseq(2)), which must not continue after another call.
fn may_be_in_sequence(pid: u32, tid: u32, state: &State) -> bool {
    if state.is_in_call() == Some(true) {
        return false;
    }
    match calls::rseq(tid) {
        Ok(0) => false,
        Ok(at) => {
            let mut word = [0; 8];
            let have = ptrace::read(pid, Addr::new(at.saturating_add(RSEQ_CS)), &mut word);
            have < word.len() || u64::from_ne_bytes(word) != 0
        }
        Err(_) => true,
    }
}

/// The copy.
#[derive(Clone, Copy, Default)]
struct Copied {
    pid: Option<u32>,
    /// Its ID in the target's namespace.
    theirs: Option<u64>,
}

impl Copied {
    /// Makes a thread of the target take the ended copy from its list of children. No other wait does: the copy sends no
    /// signal at its end.
    fn reap(&self, plan: &Plan) {
        let Some(child) = self.theirs else { return };
        for _ in 0..REAP_TRIES {
            match hold(plan, REAP_PATIENCE) {
                Ok(held) => {
                    let _ = held.call(plan.instruction, MACHINE.wait4, &[child, 0, WAIT_FLAGS, 0, 0, 0], &mut None);
                    return held.release();
                }
                // The target has ended.
                Err(Answer::Failed(libc::ESRCH) | BUSY) => return,
                Err(_) => std::thread::sleep(REAP_PAUSE),
            }
        }
    }
}
