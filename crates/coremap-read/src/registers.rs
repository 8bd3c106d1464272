//! Registers during unwinding. Each may be unknown.
//!
//! Numbers follow the System V ABI for x86_64, figure 3.36 (DWARF register number mapping), and DWARF for the Arm
//! 64-bit architecture, table 4.

use crate::addr::Addr;
use crate::targets::{Arch, Registers};

/// Number of registers stored: one more than the highest DWARF number.
const COUNT: usize = 33;

/// Register names of x86_64 by DWARF number, as in NT_PRSTATUS.
const X86_64: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
];

/// Register names of aarch64 by DWARF number, as in NT_PRSTATUS.
const AARCH64: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
    "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc",
];

fn names(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

/// The name of a register by its DWARF number.
pub fn name(arch: Arch, number: u16) -> Option<&'static str> {
    names(arch).get(usize::from(number)).copied()
}

/// DWARF numbers of the x86_64 registers that unwinding uses.
pub mod x86_64 {
    /// The rbx register.
    pub const RBX: u16 = 3;
    /// The frame pointer.
    pub const RBP: u16 = 6;
    /// The stack pointer.
    pub const RSP: u16 = 7;
    /// The r12 register.
    pub const R12: u16 = 12;
    /// The return address.
    pub const RIP: u16 = 16;
}

/// DWARF numbers of the aarch64 registers that unwinding uses.
mod aarch64 {
    pub(super) const FP: u16 = 29;
    pub(super) const LR: u16 = 30;
    pub(super) const SP: u16 = 31;
    pub(super) const PC: u16 = 32;
}

/// Bits of an aarch64 code address that may contain its signature (PAC), if the thread's mask is not known. Linux gives
/// a process 48 bits of address space by default.
const AARCH64_SIGNATURE: u64 = !((1 << 48) - 1);
/// The byte above the signature, which is 0 in addresses of a process.
const AARCH64_TOP: u64 = 0xff << 56;

/// Registers at one frame, by DWARF number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regs {
    arch: Arch,
    values: [u64; COUNT],
    /// One bit for each register whose value is known.
    known: u64,
    /// Bits of code addresses that are no part of the address.
    signature: u64,
}

impl Regs {
    /// Registers of which only the instruction pointer and the stack pointer are known.
    pub fn new(arch: Arch, ip: Addr, sp: Addr) -> Regs {
        let signature = if arch == Arch::Aarch64 { AARCH64_SIGNATURE } else { 0 };
        Regs { arch, values: [0; COUNT], known: 0, signature }.with(ip, sp)
    }

    /// Creates registers of another frame of the same thread. Only `ip` and `sp` are known.
    pub(crate) fn of_frame(&self, ip: Addr, sp: Addr) -> Regs {
        Regs { values: [0; COUNT], known: 0, ..*self }.with(ip, sp)
    }

    fn with(self, ip: Addr, sp: Addr) -> Regs {
        let mut regs = self;
        regs.set(regs.ip_number(), Some(ip.get()));
        regs.set(regs.sp_number(), Some(sp.get()));
        regs
    }

    /// Registers of a thread when it was dumped.
    pub fn of_thread(arch: Arch, registers: &Registers) -> Regs {
        let mut regs = Regs::new(arch, registers.ip(), registers.sp());
        if let Some(mask) = registers.signature() {
            regs.signature = mask | AARCH64_TOP;
        }
        for (name, value) in registers.known() {
            if let Some(number) = names(arch).iter().position(|n| *n == name) {
                regs.set(number as u16, Some(value));
            }
        }
        regs
    }

    /// The machine type.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The register with this DWARF number. `None` if its value is unknown.
    pub fn get(&self, number: u16) -> Option<u64> {
        let known = usize::from(number) < COUNT && self.known >> number & 1 != 0;
        self.values.get(usize::from(number)).copied().filter(|_| known)
    }

    /// Names and values of the known registers, without the instruction pointer.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = names(self.arch).iter().enumerate().filter(|(i, _)| *i != usize::from(self.ip_number()));
        all.filter_map(|(i, name)| Some((*name, self.get(i as u16)?)))
    }

    /// Sets a register. Ignores numbers outside the table.
    pub fn set(&mut self, number: u16, value: Option<u64>) {
        let Some(slot) = self.values.get_mut(usize::from(number)) else { return };
        *slot = value.unwrap_or(0);
        self.known = if value.is_some() { self.known | 1 << number } else { self.known & !(1 << number) };
    }

    /// The instruction pointer.
    pub fn ip(&self) -> Addr {
        Addr::new(self.get(self.ip_number()).unwrap_or(0))
    }

    /// The stack pointer.
    pub fn sp(&self) -> Addr {
        Addr::new(self.get(self.sp_number()).unwrap_or(0))
    }

    /// The frame pointer register, which may contain any value.
    pub fn fp(&self) -> Option<Addr> {
        self.get(self.fp_number()).map(Addr::new)
    }

    pub(crate) fn set_ip(&mut self, ip: u64) {
        self.set(self.ip_number(), Some(self.without_signature(ip)));
    }

    /// Removes the signature from the upper bits of a code address.
    pub(crate) fn without_signature(&self, address: u64) -> u64 {
        address & !self.signature
    }

    pub(crate) fn set_sp(&mut self, sp: Addr) {
        self.set(self.sp_number(), Some(sp.get()));
    }

    pub(crate) fn fp_number(&self) -> u16 {
        match self.arch {
            Arch::X86_64 => x86_64::RBP,
            Arch::Aarch64 => aarch64::FP,
        }
    }

    pub(crate) fn sp_number(&self) -> u16 {
        match self.arch {
            Arch::X86_64 => x86_64::RSP,
            Arch::Aarch64 => aarch64::SP,
        }
    }

    pub(crate) fn ip_number(&self) -> u16 {
        match self.arch {
            Arch::X86_64 => x86_64::RIP,
            Arch::Aarch64 => aarch64::PC,
        }
    }

    /// The link register, which has the return address in a leaf function. `None` on x86_64.
    pub(crate) fn link(&self) -> Option<u64> {
        match self.arch {
            Arch::X86_64 => None,
            Arch::Aarch64 => self.get(aarch64::LR),
        }
    }
}
