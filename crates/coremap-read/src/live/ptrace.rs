//! System calls that stop a thread, read its registers and resume it. Some others read memory, and one finds the pages
//! in memory.
//!
//! They are called directly, because no safe crate has what is needed. A thread may be stopped while a real-time signal
//! is delivered. It must then be resumed with this signal. Runtimes send each other such signals: CoreCLR to suspend
//! threads, glibc for setuid and for cancellation. `nix` knows only the 31 named signals and would lose it. No safe
//! crate has NT_ARM_TLS either. So this is the second place with `unsafe` code, besides the room that maps memory.
//!
//! ptrace(2): all requests for a thread must come from the thread that seized it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::addr::{Addr, AddrRange};
use crate::targets::dump_notes::RegisterSet;
use crate::targets::{Arch, Registers};

/// `NT_PRSTATUS` (linux/elf.h): the general registers.
const NT_PRSTATUS: usize = 1;

/// `NT_ARM_TLS` (linux/elf.h): the register tpidr_el0.
#[cfg(target_arch = "aarch64")]
const NT_ARM_TLS: usize = 0x401;

/// `NT_ARM_PAC_MASK` (linux/elf.h): the bits of addresses that contain signatures.
#[cfg(target_arch = "aarch64")]
const NT_ARM_PAC_MASK: usize = 0x406;

/// Register sets that a core contains besides the general registers, in the kernel's order (linux/elf.h): NT_FPREGSET
/// and NT_X86_XSTATE.
#[cfg(target_arch = "x86_64")]
const MORE_SETS: [usize; 2] = [2, 0x202];

/// NT_FPREGSET, NT_ARM_TLS, NT_ARM_SVE, NT_ARM_PAC_MASK. Without the last, gdb can't follow signed return addresses.
#[cfg(target_arch = "aarch64")]
const MORE_SETS: [usize; 4] = [2, NT_ARM_TLS, 0x405, NT_ARM_PAC_MASK];

/// NT_FPREGSET.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MORE_SETS: [usize; 1] = [2];

/// Maximum length of a register set in words. AMX on x86_64 takes 11 KiB, vectors of 2,048 bits on aarch64 take 17 KiB.
const MAX_SET_WORDS: usize = 4096;

/// Maximum number of general registers of any machine. x86_64 has 27, aarch64 34.
const MAX_REGISTERS: usize = 64;

/// Maximum number of addresses in one process_vm_readv(2) call (`UIO_MAXIOV`).
pub(super) const MAX_ADDRESSES: usize = 1024;

/// `PAGEMAP_SCAN` of linux/fs.h: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = 3 << 30 | (size_of::<PageScan>() as u32) << 16 | (b'f' as u32) << 8 | 16;

/// `PAGE_IS_PRESENT` and `PAGE_IS_SWAPPED` of linux/fs.h.
const PRESENT_OR_SWAPPED: u64 = 1 << 3 | 1 << 4;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct PageScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// State of a thread that was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceState {
    /// The thread stopped. If it was about to receive a signal, it must be resumed with this signal.
    Stopped {
        /// The signal, or 0.
        signal: i32,
    },
    /// The thread has ended, or is about to end.
    Gone,
}

/// Becomes the tracer of a thread. The thread continues to run.
///
/// # Errors
/// EPERM if this is not allowed, ESRCH if there is no such thread.
pub(super) fn seize(tid: u32) -> io::Result<()> {
    // SAFETY: no pointer is passed: PTRACE_SEIZE takes options as its last argument.
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid as libc::pid_t, 0usize, 0usize) })
}

/// Asks a seized thread to stop.
///
/// # Errors
/// ESRCH if the thread is gone.
pub(super) fn interrupt(tid: u32) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    done(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid as libc::pid_t, 0usize, 0usize) })
}

/// Resumes a stopped thread, with the signal that it was about to receive.
///
/// # Errors
/// ESRCH if the thread is gone, which is harmless.
pub(super) fn detach(tid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: no pointer is passed: the last argument is the signal's number.
    done(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid as libc::pid_t, 0usize, signal as usize) })
}

/// Returns the state of a thread that was asked to stop. `None` if it has not stopped yet and `patient` is false.
///
/// # Errors
/// Errors of waitpid(2).
pub(super) fn wait(tid: u32, patient: bool) -> io::Result<Option<TraceState>> {
    let flags = libc::__WALL | if patient { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` is a local int, which outlives the call.
        let got = unsafe { libc::waitpid(tid as libc::pid_t, &mut status, flags) };
        if got == 0 {
            return Ok(None);
        }
        if got < 0 {
            match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => continue,
                e => return Err(e),
            }
        }
        if !libc::WIFSTOPPED(status) {
            return Ok(Some(TraceState::Gone));
        }
        // The upper half is the ptrace event. If there is none, the thread is about to receive a signal.
        let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
        return Ok(Some(TraceState::Stopped { signal }));
    }
}

/// Returns the general registers of a stopped thread. `None` if they can't be read, or if the program is a 32-bit
/// program.
pub(super) fn registers(tid: u32, arch: Arch) -> Option<Registers> {
    let mut values = [0u64; MAX_REGISTERS];
    let count = register_set(tid, NT_PRSTATUS, &mut values)?;
    Registers::new(arch, values.get(..count)?.to_vec())
}

/// Returns the thread pointer of a stopped thread, on machines where it is not a general register.
#[cfg(target_arch = "aarch64")]
pub(super) fn thread_pointer(tid: u32) -> Option<Addr> {
    let mut values = [0u64; 2];
    register_set(tid, NT_ARM_TLS, &mut values)?;
    values.first().copied().filter(|&v| v != 0).map(Addr::new)
}

/// Returns `None`: on this machine, the thread pointer is a general register, or there is none.
#[cfg(not(target_arch = "aarch64"))]
pub(super) fn thread_pointer(_: u32) -> Option<Addr> {
    None
}

/// Returns the bits of a stopped thread's code addresses that contain a signature.
#[cfg(target_arch = "aarch64")]
pub(super) fn signature(tid: u32) -> Option<u64> {
    let mut masks = [0u64; 2];
    register_set(tid, NT_ARM_PAC_MASK, &mut masks)?;
    masks.get(1).copied()
}

/// Returns `None`: code addresses have no signature on this machine.
#[cfg(not(target_arch = "aarch64"))]
pub(super) fn signature(_: u32) -> Option<u64> {
    None
}

/// Returns the further register sets of a stopped thread that cores contain, if the machine has them.
pub(super) fn more_registers(tid: u32) -> Vec<RegisterSet> {
    let mut words = vec![0u64; MAX_SET_WORDS];
    let mut set = |kind: usize| {
        let count = register_set(tid, kind, &mut words)?;
        let bytes = words.get(..count)?.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Some(RegisterSet { kind: kind as u32, bytes })
    };
    MORE_SETS.into_iter().filter_map(&mut set).collect()
}

/// Returns the signals that a stopped thread blocks, one bit each.
pub(super) fn blocked_signals(tid: u32) -> Option<u64> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes as many bytes as the third argument says: those of `mask`, which outlives the call.
    let got = unsafe {
        libc::ptrace(libc::PTRACE_GETSIGMASK, tid as libc::pid_t, size_of_val(&mask), std::ptr::from_mut(&mut mask))
    };
    (got == 0).then_some(mask)
}

/// Reads a register set. Returns its length in words.
fn register_set(tid: u32, set: usize, out: &mut [u64]) -> Option<usize> {
    let mut place = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: size_of_val(out) };
    // SAFETY: the kernel writes at most `iov_len` bytes to `out`, and how many into `place`; both outlive the call.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid as libc::pid_t, set, std::ptr::from_mut(&mut place)) };
    (got == 0).then_some(place.iov_len / 8)
}

/// Reads the words at `addrs`, up to the first that is not readable. One system call reads up to [`MAX_ADDRESSES`]
/// words, at a tenth of the cost of a call per word.
pub(super) fn words(pid: u32, addrs: &[Addr]) -> Vec<u64> {
    let asked = addrs.get(..addrs.len().min(MAX_ADDRESSES)).unwrap_or_default();
    let mut out = vec![0u64; asked.len()];
    let word = size_of::<u64>();
    let theirs: Vec<libc::iovec> = asked
        .iter()
        .map(|addr| libc::iovec { iov_base: std::ptr::without_provenance_mut(addr.get() as usize), iov_len: word })
        .collect();
    let ours = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() * word };
    // SAFETY: the kernel writes at most `iov_len` bytes to `out`. The other addresses are of the other process, and
    // only numbers here. All of it outlives the call.
    let got = unsafe { libc::process_vm_readv(pid as libc::pid_t, &ours, 1, theirs.as_ptr(), theirs.len() as _, 0) };
    out.truncate(usize::try_from(got).unwrap_or(0) / word);
    out
}

/// Reads the bytes from `addr` on. Returns the number of bytes read.
pub(super) fn read(pid: u32, addr: Addr, out: &mut [u8]) -> usize {
    let ours = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(addr.get() as usize), iov_len: out.len() };
    // SAFETY: the kernel writes at most `iov_len` bytes to `out`, which outlives the call. The other address is of the
    // other process, and only a number here.
    let got = unsafe { libc::process_vm_readv(pid as libc::pid_t, &ours, 1, &theirs, 1, 0) };
    usize::try_from(got).unwrap_or(0)
}

/// Finds the runs of pages in `range` that are in memory or in swap. Fills `out` from its start. Returns the number of
/// runs, and the address up to which pages were visited: the end of `range`, or less if `out` is full. The kernel steps
/// over memory without page tables, so this takes time in proportion to resident memory.
///
/// # Errors
/// ENOTTY before Linux 6.7, which has no such call.
pub(super) fn scan_pages(pagemap: &File, range: AddrRange, out: &mut [PageRegion]) -> io::Result<(usize, Addr)> {
    let mut scan = PageScan {
        size: size_of::<PageScan>() as u64,
        start: range.start.get(),
        end: range.end.get(),
        vec: out.as_mut_ptr().expose_provenance() as u64,
        vec_len: out.len() as u64,
        category_anyof_mask: PRESENT_OR_SWAPPED,
        return_mask: PRESENT_OR_SWAPPED,
        ..PageScan::default()
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in it, and writes at most `vec_len` regions to
    // `vec`; both outlive the call.
    let got = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, std::ptr::from_mut(&mut scan)) };
    let count = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    Ok((count, Addr::new(scan.walk_end)))
}

impl PageRegion {
    pub(super) fn range(self) -> AddrRange {
        AddrRange::new(Addr::new(self.start), Addr::new(self.end))
    }
}

fn done(got: libc::c_long) -> io::Result<()> {
    if got == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
