//! Where the kernel keeps the registers of what a signal interrupted, counted
//! from the stack pointer that the handler's return address is popped at.
//!
//! asm/sigcontext.h and asm/ucontext.h of x86 and arm64; arch/x86 rt_sigframe
//! begins with the return address, then the ucontext; arch/arm64 rt_sigframe
//! with the siginfo of 128 bytes.

use crate::core::elf::Arch;

/// DWARF numbers in the order of `gregs`: r8 to r15, rdi, rsi, rbp, rbx, rdx,
/// rax, rcx, rsp, rip.
const X86_64: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// x0 to x30, sp, pc.
const AARCH64: [u16; 33] = {
    let mut all = [0; 33];
    let mut i = 0;
    while i < all.len() {
        all[i] = i as u16;
        i += 1;
    }
    all
};

/// uc_flags, uc_link, uc_stack.
const UCONTEXT_HEAD: u64 = 40;

/// Bytes from the stack pointer to the first register.
pub(super) fn registers(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => UCONTEXT_HEAD,
        // siginfo; signal mask of 1,024 bits, aligned to 16; fault_address
        Arch::Aarch64 => 128 + 176 + 8,
    }
}

/// Their DWARF numbers.
pub(super) fn order(arch: Arch) -> &'static [u16] {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}
