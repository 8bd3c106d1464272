//! The system call that a thread is in, with its arguments.
//!
//! x86_64: `orig_rax` has the number, and -1 after an interrupt or a fault (arch/x86/entry/entry_64.S). The kernel
//! preserves the argument registers. aarch64: x8 has the number. NT_ARM_SYSTEM_CALL, or a system call instruction, says
//! that there is a call.

mod names;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::process::Process;
use crate::targets::{Arch, CALL_ARGUMENTS, Thread};

/// A system call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Number of the call.
    pub number: u64,
    /// Name of the call. `None` if the number is in no table.
    pub name: Option<&'static str>,
    /// The argument registers, in order; a call uses the first ones. `None` if a value is not known.
    pub arguments: [Option<u64>; CALL_ARGUMENTS],
}

/// Upper bound of system call numbers. The highest one of Linux 6.18 is below 500.
const MAX_NUMBER: u64 = 4096;

/// Argument registers of x86_64.
const X86_64: [&str; CALL_ARGUMENTS] = ["rdi", "rsi", "rdx", "r10", "r8", "r9"];

/// Argument registers of aarch64.
const AARCH64: [&str; CALL_ARGUMENTS] = ["x0", "x1", "x2", "x3", "x4", "x5"];

/// Returns the system call that `thread` is in. `None` if it is in none, or if that is not known.
pub fn of_thread(process: &Process, thread: &Thread) -> Option<SystemCall> {
    let arch = process.arch();
    let register = |name: &str| thread.registers.get(name);
    let at_call = call_instruction(process, thread);
    let (number, mut arguments) = match arch {
        Arch::X86_64 => (register("orig_rax"), X86_64.map(register)),
        // Without the note, only the instruction shows that x8 is the number of a call.
        Arch::Aarch64 => (register("x8").filter(|_| at_call == Some(true)), AARCH64.map(register)),
    };
    // Some writers of cores store another register in place of `orig_rax`.
    let number = number.filter(|_| arch != Arch::X86_64 || at_call != Some(false));
    let number = match (thread.call, arch) {
        // Before a call is restarted, the kernel forgets its number (arch/arm64/kernel/signal.c `do_signal`).
        (Some(call), Arch::Aarch64) => call.number.or(number),
        (Some(call), Arch::X86_64) => call.number,
        (None, _) => number,
    };
    if let Some(recorded) = thread.call.and_then(|call| call.arguments) {
        arguments = recorded.map(Some);
    }
    if arch == Arch::Aarch64 && has_result(process, thread) {
        // x0 has the result already, unless the call is to be restarted.
        arguments[0] = None;
    }
    // In a scrubbed core, 0 replaces all values that are no addresses.
    if process.facts().second_views.is_some() {
        arguments = arguments.map(|value| value.filter(|&value| value != 0));
    }
    let number = number.filter(|&number| number < MAX_NUMBER)?;
    Some(SystemCall { number, name: names::name(arch, number), arguments })
}

/// Whether the thread is at a system call instruction. `None` if its code cannot be read.
fn call_instruction(process: &Process, thread: &Thread) -> Option<bool> {
    let ip = thread.registers.ip();
    match process.arch() {
        // `syscall`, and `int 0x80`. The instruction pointer is after it.
        Arch::X86_64 => before(process, ip, 2).map(|code| code == [0x0f, 0x05] || code == [0xcd, 0x80]),
        // `svc #0`. The instruction pointer is after it, or at it if the kernel is to restart the call.
        Arch::Aarch64 => {
            let at = before(process, ip.checked_add(4)?, 4).map(|code| code == SVC);
            if at == Some(true) { at } else { before(process, ip, 4).map(|code| code == SVC).or(at) }
        }
    }
}

/// `svc #0` of aarch64.
const SVC: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// Whether the call of an aarch64 thread has returned: the instruction pointer is after the instruction, or its code
/// cannot be read.
fn has_result(process: &Process, thread: &Thread) -> bool {
    let next = thread.registers.ip().checked_add(4);
    next.and_then(|next| before(process, next, 4)).is_none_or(|code| code != SVC)
}

/// The bytes before an address.
fn before(process: &Process, at: Addr, len: u64) -> Option<Vec<u8>> {
    process.memory.bytes(at.checked_sub(len)?, usize::try_from(len).ok()?).ok()
}
