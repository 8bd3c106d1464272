//! System calls of the helper: ptrace requests that change a stopped thread, and those of a process that forks without
//! running another program.
//!
//! No safe crate has these requests with the options needed here. Everything in this file may be called after fork: it
//! takes no lock and allocates nothing.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::process::Pid;

use crate::live::ptrace::{MAX_REGISTERS, NT_PRSTATUS, done, register_set};

/// The general registers of a thread, as many as its machine has.
pub(super) type Words = [u64; MAX_REGISTERS];

/// `PTRACE_O_SUSPEND_SECCOMP` of linux/ptrace.h.
const SUSPEND_SECCOMP: usize = 1 << 21;

/// `PTRACE_GET_RSEQ_CONFIGURATION` of linux/ptrace.h.
const GET_RSEQ_CONFIGURATION: u32 = 0x420f;

/// Set in the signal of a stop at a system call (`PTRACE_O_TRACESYSGOOD`).
const SYSCALL_STOP: i32 = 0x80;

/// `struct ptrace_rseq_configuration` of linux/ptrace.h.
#[repr(C)]
#[derive(Default)]
struct RseqConfiguration {
    pointer: u64,
    size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
}

/// Why a traced thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceEvent {
    /// It enters or leaves a system call.
    Call,
    /// It created a process.
    Cloned,
    /// It was interrupted, or its process is stopped.
    Interrupted,
    /// It is about to receive a signal.
    Signal,
    /// It ended.
    Gone,
}

/// Waits until a traced thread stops.
pub(super) fn next_event(tid: u32) -> TraceEvent {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a local int, which outlives the call.
        let got = unsafe { libc::waitpid(tid as libc::pid_t, &mut status, libc::__WALL) };
        if got < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        if got < 0 || !libc::WIFSTOPPED(status) {
            return TraceEvent::Gone;
        }
        return match status >> 16 {
            libc::PTRACE_EVENT_STOP => TraceEvent::Interrupted,
            libc::PTRACE_EVENT_CLONE => TraceEvent::Cloned,
            _ if libc::WSTOPSIG(status) == libc::SIGTRAP | SYSCALL_STOP => TraceEvent::Call,
            _ => TraceEvent::Signal,
        };
    }
}

/// Lets a stopped thread run, up to the next event. With `to_call`, up to the border of a system call too.
///
/// # Errors
/// ESRCH if the thread is gone.
pub(super) fn run(tid: u32, to_call: bool) -> io::Result<()> {
    let request = if to_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    // SAFETY: no pointer is passed: the last argument is the signal's number, 0.
    done(unsafe { libc::ptrace(request, tid as libc::pid_t, 0usize, 0usize) })
}

/// Options of a traced thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TraceOptions {
    /// Stop at system calls and when a process is created. The new process is traced too.
    pub(super) calls: bool,
    /// System calls pass no seccomp filter.
    pub(super) unfiltered: bool,
    /// The kernel kills it when its tracer ends.
    pub(super) dies_with_tracer: bool,
}

/// Sets the options of a stopped thread.
///
/// # Errors
/// EPERM or EINVAL if the filter may not be suspended.
pub(super) fn set_options(tid: u32, options: TraceOptions) -> io::Result<()> {
    let mut bits = 0;
    if options.calls {
        bits |= (libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE) as usize;
    }
    if options.unfiltered {
        bits |= SUSPEND_SECCOMP;
    }
    if options.dies_with_tracer {
        bits |= libc::PTRACE_O_EXITKILL as usize;
    }
    // SAFETY: no pointer is passed: the last argument is a set of bits.
    done(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, tid as libc::pid_t, 0usize, bits) })
}

/// ID of the process that a thread created, in our namespace. Valid at [`TraceEvent::Cloned`].
pub(super) fn created(tid: u32) -> Option<u32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one long to `message`, which outlives the call.
    let got =
        unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid as libc::pid_t, 0usize, std::ptr::from_mut(&mut message)) };
    u32::try_from(message).ok().filter(|&pid| got == 0 && pid != 0)
}

/// Reads the general registers of a stopped thread into `out`. Returns their number. Needs no memory.
pub(super) fn general_registers(tid: u32, out: &mut Words) -> Option<usize> {
    register_set(tid, NT_PRSTATUS, out)
}

/// Writes the general registers of a stopped thread.
///
/// # Errors
/// ESRCH if the thread is gone.
pub(super) fn set_general_registers(tid: u32, words: &[u64]) -> io::Result<()> {
    let mut from = libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    // SAFETY: the kernel reads at most `iov_len` bytes of `words`, and writes how many into `from`; both outlive the call.
    done(unsafe {
        libc::ptrace(libc::PTRACE_SETREGSET, tid as libc::pid_t, NT_PRSTATUS, std::ptr::from_mut(&mut from))
    })
}

/// Sets the signals that a stopped thread blocks.
///
/// # Errors
/// ESRCH if the thread is gone.
pub(super) fn block_signals(tid: u32, mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the third argument says: those of `mask`, which outlives the call.
    done(unsafe {
        libc::ptrace(libc::PTRACE_SETSIGMASK, tid as libc::pid_t, size_of_val(&mask), std::ptr::from_ref(&mask))
    })
}

/// Address of a stopped thread's `struct rseq`, 0 if it has none.
///
/// # Errors
/// EIO before Linux 5.13.
pub(super) fn rseq(tid: u32) -> io::Result<u64> {
    let mut out = RseqConfiguration::default();
    // SAFETY: the kernel writes as many bytes as the third argument says: those of `out`, which outlives the call.
    done(unsafe {
        libc::ptrace(GET_RSEQ_CONFIGURATION as _, tid as libc::pid_t, size_of_val(&out), std::ptr::from_mut(&mut out))
    })?;
    Ok(out.pointer)
}

/// Starts a process that runs `body`, without running another program. It blocks all signals. `body` may call nothing that
/// takes a lock or allocates: other threads may have held a lock when the process was forked.
///
/// # Errors
/// Errors of fork(2).
pub(super) fn spawn<C>(body: fn(UnixStream, &C) -> !, link: UnixStream, context: &C) -> io::Result<u32> {
    // SAFETY: the sets are initialised by sigfillset and pthread_sigmask, and outlive the calls. The child calls `body`
    // only, which does not return.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let child = libc::fork();
        let error = io::Error::last_os_error();
        if child == 0 {
            body(link, context);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        u32::try_from(child).map_err(|_| error)
    }
}

/// Waits until a child of this process has ended.
pub(super) fn await_exit(pid: u32) {
    while next_event(pid) != TraceEvent::Gone {}
}

/// Ends this process at once.
pub(super) fn exit() -> ! {
    // SAFETY: takes no pointer, and does not return.
    unsafe { libc::_exit(0) }
}

/// Names this process, and closes all of its files but `keep`.
pub(super) fn detach_from_parent(keep: RawFd) {
    let keep = keep as libc::c_uint;
    // SAFETY: the name is a constant; close_range and close take no pointer. No Rust object is used afterwards that owns
    // one of these files.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"coremap-helper".as_ptr());
        let close = |from: libc::c_uint, to: libc::c_uint| libc::syscall(libc::SYS_close_range, from, to, 0);
        let is_closed = (keep == 0 || close(0, keep - 1) == 0) && close(keep + 1, libc::c_uint::MAX) == 0;
        if !is_closed {
            // Before Linux 5.9.
            for file in (0..MAX_FILES).filter(|&file| file != keep as RawFd) {
                libc::close(file);
            }
        }
    }
}

/// Number of files closed one by one where the kernel can't close them at once.
const MAX_FILES: RawFd = 1 << 16;

/// Waits until `file` can be read, until process `pid` (a pidfd, if there is one) ends, or until `millis` are over.
pub(super) fn await_input(file: &impl AsRawFd, pidfd: Option<RawFd>, millis: i32) -> Awaited {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // poll(2) ignores negative numbers.
    let mut files = [entry(file.as_raw_fd()), entry(pidfd.unwrap_or(-1))];
    // SAFETY: the kernel reads and writes two entries of `files`, which outlives the call.
    let got = unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, millis) };
    let [link, process] = files;
    match got {
        0 => Awaited::Nothing,
        _ if link.revents != 0 => Awaited::Input,
        _ if process.revents != 0 => Awaited::End,
        _ => Awaited::Nothing,
    }
}

/// What [`await_input`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The file has bytes, or has ended.
    Input,
    /// The process has ended.
    End,
    /// Neither.
    Nothing,
}

/// Kills a traced process and waits for its end.
pub(super) fn kill(pid: u32) {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let _ = rustix::process::kill_process(raw, rustix::process::Signal::KILL);
    await_exit(pid);
}
