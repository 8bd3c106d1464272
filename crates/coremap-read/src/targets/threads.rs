//! Threads and their registers.
//!
//! Names and order of the registers follow `elf_gregset_t` of each machine (sys/user.h `user_regs_struct`, asm/ptrace.h
//! `user_pt_regs`).

use std::time::Duration;

use crate::addr::Addr;
use crate::targets::Arch;

/// The general registers of a machine, each 64 bits.
struct RegisterSet {
    /// Index of the instruction pointer.
    ip: usize,
    /// Index of the stack pointer.
    sp: usize,
    /// Index of the frame pointer.
    fp: usize,
    /// Index of the thread pointer, if it is a general register.
    tls: Option<usize>,
    /// Names, in the kernel's order.
    names: &'static [&'static str],
    /// Registers of a system call: its number, and its arguments (syscall(2)).
    call_number: &'static str,
    call_arguments: [&'static str; 6],
}

/// `user_regs_struct` of x86_64: r15 first, fs_base at 21.
const X86_64: RegisterSet = RegisterSet {
    ip: 16,
    sp: 19,
    fp: 4,
    tls: Some(21),
    names: &[
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
        "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
    ],
    call_number: "orig_rax",
    call_arguments: ["rdi", "rsi", "rdx", "r10", "r8", "r9"],
};

/// `user_pt_regs` of aarch64: x0..x30, sp, pc, pstate. Does not contain the thread pointer.
const AARCH64: RegisterSet = RegisterSet {
    ip: 32,
    sp: 31,
    fp: 29,
    tls: None,
    names: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc",
        "pstate",
    ],
    call_number: "x8",
    call_arguments: ["x0", "x1", "x2", "x3", "x4", "x5"],
};

fn set(arch: Arch) -> &'static RegisterSet {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

/// General registers of a thread.
#[derive(Clone, Debug)]
pub struct Registers {
    arch: Arch,
    values: Vec<u64>,
    /// One bit for each register whose value is known.
    known: u64,
    /// Bits of code addresses that contain the signature (NT_ARM_PAC_MASK), if the thread's mask is known.
    signature: Option<u64>,
}

impl Registers {
    /// Number of general registers of a machine.
    pub fn count(arch: Arch) -> usize {
        set(arch).names.len()
    }

    /// Wraps all registers, in the kernel's order. `None` if their number is not [`Registers::count`].
    pub fn new(arch: Arch, values: Vec<u64>) -> Option<Registers> {
        (values.len() == Registers::count(arch)).then_some(Registers { arch, values, known: u64::MAX, signature: None })
    }

    /// Registers of a thread that waits in the kernel and was not stopped. Only the instruction and stack pointers are
    /// known, and the number and arguments of its system call; all others are 0.
    pub fn in_call(arch: Arch, ip: Addr, sp: Addr, number: Option<u64>, arguments: &[u64]) -> Option<Registers> {
        let set = set(arch);
        let mut out = Registers { arch, values: vec![0; Registers::count(arch)], known: 0, signature: None };
        out.learn(set.ip, ip.get())?;
        out.learn(set.sp, sp.get())?;
        let call = number.map(|number| (set.call_number, number));
        let arguments = set.call_arguments.iter().copied().zip(arguments.iter().copied());
        for (name, value) in call.into_iter().chain(arguments) {
            out.learn(set.names.iter().position(|n| *n == name)?, value)?;
        }
        Some(out)
    }

    /// Whether only the instruction and stack pointers and the arguments of a system call are known.
    pub fn is_partial(&self) -> bool {
        self.known != u64::MAX
    }

    /// The bits of a code address that contain its signature (pointer authentication of aarch64).
    pub fn signature(&self) -> Option<u64> {
        self.signature
    }

    /// Sets these bits: the second mask of NT_ARM_PAC_MASK (`struct user_pac_mask`, asm/ptrace.h).
    pub(crate) fn set_signature(&mut self, mask: u64) {
        self.signature = Some(mask);
    }

    fn learn(&mut self, index: usize, value: u64) -> Option<()> {
        *self.values.get_mut(index)? = value;
        self.known |= 1 << index;
        Some(())
    }

    /// The known registers with their names, in the kernel's order.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.iter().enumerate().filter(|(i, _)| self.known >> i & 1 != 0).map(|(_, register)| register)
    }

    /// The thread pointer, if it is a general register. glibc and musl never leave it 0 in a running thread.
    pub fn thread_pointer(&self) -> Option<Addr> {
        set(self.arch).tls.map(|i| Addr::new(self.values[i])).filter(|a| !a.is_null())
    }

    /// The value of a register by its name. `None` if there is no such register, or its value is not known.
    pub fn get(&self, name: &str) -> Option<u64> {
        let index = set(self.arch).names.iter().position(|n| *n == name)?;
        self.values.get(index).copied().filter(|_| self.known >> index & 1 != 0)
    }

    /// The instruction pointer.
    pub fn ip(&self) -> Addr {
        Addr::new(self.values[set(self.arch).ip])
    }

    /// The stack pointer.
    pub fn sp(&self) -> Addr {
        Addr::new(self.values[set(self.arch).sp])
    }

    /// The frame pointer (rbp, x29). May be any value in code built without frame pointers.
    pub fn fp(&self) -> Addr {
        Addr::new(self.values[set(self.arch).fp])
    }

    /// All registers with their names, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        set(self.arch).names.iter().copied().zip(self.values.iter().copied())
    }
}

/// First number for threads without a thread ID of their own. The kernel's IDs are below 2²² (PID_MAX_LIMIT).
pub const UNNUMBERED: u32 = 1 << 31;

/// A thread ID as text: `#2` for the second thread of a core without thread IDs.
pub fn tid_text(tid: u32) -> String {
    match tid.checked_sub(UNNUMBERED) {
        Some(position) => format!("#{}", u64::from(position) + 1),
        None => tid.to_string(),
    }
}

/// Number of argument registers of a system call.
pub const CALL_ARGUMENTS: usize = 6;

/// A system call that a thread is in, as the target records it beside the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// Number of the call. `None` if the thread is in none.
    pub number: Option<u64>,
    /// The argument registers, if the target has them beside the thread's registers.
    pub arguments: Option<[u64; CALL_ARGUMENTS]>,
}

/// Processor time that a thread used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Time in user mode and in the kernel.
    pub fn total(&self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// A thread of the process.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Kernel thread ID. If the core has none for this thread, 2³¹ plus its position, from 0.
    pub tid: u32,
    /// Signal that the thread was stopped by. 0 if the producer writes none.
    pub signal: u16,
    /// Registers at the time of the dump.
    pub registers: Registers,
    /// Thread pointer: fs_base or tpidr_el0. `None` if it is not known.
    pub thread_pointer: Option<Addr>,
    /// Processor time that the thread itself used. In a kernel's core, the first thread's includes threads that ended.
    /// `None` if the target does not record it.
    pub cpu: Option<CpuTime>,
    /// Its system call, if the target records it beside the registers.
    pub call: Option<RecordedCall>,
}
