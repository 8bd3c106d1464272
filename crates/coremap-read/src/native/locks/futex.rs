//! Futex calls: futex(2), include/uapi/linux/futex.h.

use crate::addr::Addr;
use crate::native::syscalls::SystemCall;

const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const WAIT_BITSET: u64 = 9;
const LOCK_PI2: u64 = 13;

/// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;

/// Bits of a PI futex, and of robust mutexes, that are the owner's thread ID (FUTEX_TID_MASK).
pub(super) const TID_MASK: u32 = 0x3fff_ffff;

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FutexCall {
    /// Address of the futex word.
    pub(super) at: Addr,
    /// The value that the word had. Not used for a lock of the kernel (`kernel_lock`).
    pub(super) value: u32,
    /// Whether only threads of this process may use it.
    pub(super) is_private: bool,
    /// Whether the call has a bit set, as Rust's library and glibc's waits with an optional timeout have.
    pub(super) has_bits: bool,
    /// Whether the kernel manages the lock: a mutex with priority inheritance.
    pub(super) kernel_lock: bool,
}

/// Returns the wait of a system call.
pub(super) fn call(call: &SystemCall) -> Option<FutexCall> {
    let [at, operation, value, ..] = call.arguments;
    let (at, operation) = (Addr::new(at?), operation?);
    let kind = operation & !(PRIVATE | REALTIME);
    let waits = [WAIT, LOCK_PI, WAIT_BITSET, LOCK_PI2].contains(&kind) && at.is_aligned(4) && !at.is_null();
    // restart_syscall restarts an interrupted wait with a timeout, with the same arguments. It also restarts other
    // calls, so require the private flag.
    let is_futex = match call.name? {
        "futex" => true,
        "restart_syscall" => operation & PRIVATE != 0,
        _ => false,
    };
    (waits && is_futex).then_some(FutexCall {
        at,
        value: value.unwrap_or(0) as u32,
        is_private: operation & PRIVATE != 0,
        has_bits: kind == WAIT_BITSET,
        kernel_lock: [LOCK_PI, LOCK_PI2].contains(&kind),
    })
}
