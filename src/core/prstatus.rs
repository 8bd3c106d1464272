//! Threads as NT_PRSTATUS tells of them: tid, signal, registers.
//!
//! Layouts: `struct elf_prstatus` (linux/elfcore.h) with the machine's
//! `elf_gregset_t` (sys/user.h `user_regs_struct`, asm/ptrace.h
//! `user_pt_regs`), the same from kernel, gdb and createdump.

use crate::addr::Addr;
use crate::bytes;
use crate::core::elf::Arch;

/// Where things stand in an NT_PRSTATUS descriptor, in bytes.
struct PrStatusLayout {
    /// `pr_cursig`, i16
    signal: usize,
    /// `pr_pid`, i32: the thread's id
    tid: usize,
    /// `pr_reg`
    registers: usize,
    /// Number of 64-bit registers in `pr_reg`
    count: usize,
    /// Index of the instruction pointer in `pr_reg`
    ip: usize,
    /// Index of the stack pointer
    sp: usize,
    /// Index of the frame pointer
    fp: usize,
    /// Index of the thread pointer, where it is among these registers
    tls: Option<usize>,
    /// Names in `pr_reg` order
    names: &'static [&'static str],
}

/// `user_regs_struct` of x86_64: r15 first, fs_base at 21.
const X86_64: PrStatusLayout = PrStatusLayout {
    signal: 12,
    tid: 32,
    registers: 112,
    count: 27,
    ip: 16,
    sp: 19,
    fp: 4,
    tls: Some(21),
    names: &[
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
        "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
    ],
};

/// `user_pt_regs` of aarch64: x0..x30, sp, pc, pstate. The thread pointer
/// comes in a note of its own (NT_ARM_TLS).
const AARCH64: PrStatusLayout = PrStatusLayout {
    signal: 12,
    tid: 32,
    registers: 112,
    count: 34,
    ip: 32,
    sp: 31,
    fp: 29,
    tls: None,
    names: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc",
        "pstate",
    ],
};

fn layout(arch: Arch) -> &'static PrStatusLayout {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

/// General registers of one thread.
#[derive(Clone, Debug)]
pub struct Registers {
    arch: Arch,
    values: Vec<u64>,
}

impl Registers {
    /// Instruction pointer.
    pub fn ip(&self) -> Addr {
        Addr::new(self.values[layout(self.arch).ip])
    }

    /// Stack pointer.
    pub fn sp(&self) -> Addr {
        Addr::new(self.values[layout(self.arch).sp])
    }

    /// Frame pointer (rbp, x29); may hold anything in code built without one.
    pub fn fp(&self) -> Addr {
        Addr::new(self.values[layout(self.arch).fp])
    }

    /// All registers with their names, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        layout(self.arch).names.iter().copied().zip(self.values.iter().copied())
    }
}

/// One thread of the dumped process.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Kernel thread id.
    pub tid: u32,
    /// Signal this thread was stopped by (0 where the producer writes none).
    pub signal: u16,
    /// Registers at the dump.
    pub registers: Registers,
    /// Thread pointer: fs_base or tpidr_el0; `None` where the core has none.
    pub thread_pointer: Option<Addr>,
}

/// Parse one NT_PRSTATUS descriptor; `None` where it is too short.
pub fn parse(desc: &[u8], arch: Arch) -> Option<Thread> {
    let l = layout(arch);
    let values: Option<Vec<u64>> = (0..l.count).map(|i| bytes::u64_at(desc, l.registers + 8 * i)).collect();
    let values = values?;
    Some(Thread {
        tid: bytes::u32_at(desc, l.tid)?,
        signal: bytes::u16_at(desc, l.signal)?,
        // glibc and musl never leave it 0 in a running thread.
        thread_pointer: l.tls.map(|i| Addr::new(values[i])).filter(|&a| a != Addr::NULL),
        registers: Registers { arch, values },
    })
}
