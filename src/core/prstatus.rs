//! Threads as NT_PRSTATUS tells of them: tid, signal, registers.
//!
//! Layout: `struct elf_prstatus` (linux/elfcore.h), the same from kernel, gdb and createdump
//! and for all 64-bit machines up to the registers, which are [`Registers`] in their order.

use crate::bytes;
use crate::targets::{Arch, Registers, Thread};

/// Where things stand in an NT_PRSTATUS descriptor, in bytes.
mod at {
    /// `pr_cursig`, i16
    pub(super) const SIGNAL: usize = 12;
    /// `pr_pid`, i32: the thread's id
    pub(super) const TID: usize = 32;
    /// `pr_reg`
    pub(super) const REGISTERS: usize = 112;
}

/// Parse one NT_PRSTATUS descriptor; `None` where it is too short.
pub(super) fn parse(desc: &[u8], arch: Arch) -> Option<Thread> {
    let places = (0..Registers::count(arch)).map(|i| at::REGISTERS + 8 * i);
    let values: Option<Vec<u64>> = places.map(|place| bytes::u64_at(desc, place)).collect();
    let registers = Registers::new(arch, values?)?;
    Some(Thread {
        tid: bytes::u32_at(desc, at::TID)?,
        signal: bytes::u16_at(desc, at::SIGNAL)?,
        thread_pointer: registers.thread_pointer(),
        registers,
    })
}
