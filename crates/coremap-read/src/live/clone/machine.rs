//! Registers and instructions of a system call, by machine.

use crate::addr::Addr;
use crate::live::clone::calls::{self, Words};
use crate::live::ptrace::{self, MAX_REGISTERS};

/// What a machine needs for a system call.
pub(super) struct Machine {
    /// The instruction that makes a system call.
    pub(super) instruction: &'static [u8],
    /// Alignment of instructions in bytes.
    pub(super) alignment: usize,
    /// Number of `clone` (asm/unistd_64.h, asm-generic/unistd.h).
    pub(super) clone: u64,
    /// Number of `wait4`.
    pub(super) wait4: u64,
    /// Indices into the general registers (`struct user_regs_struct`, `struct user_pt_regs`).
    number: usize,
    arguments: [usize; 6],
    result: usize,
    ip: usize,
    /// Index of the number of the call that was interrupted, on machines that have it.
    interrupted: Option<usize>,
    /// Index of the flags, and the bits to clear: single-step, and the kind of branch that led here.
    flags: (usize, u64),
    /// Index of a register with a fixed value in 64-bit code, and this value.
    mode: Option<(usize, u64)>,
    /// Calls that can't be repeated once another call was made.
    unrepeatable: &'static [u64],
}

#[cfg(target_arch = "x86_64")]
pub(super) static MACHINE: Machine = Machine {
    instruction: &[0x0f, 0x05],
    alignment: 1,
    clone: 56,
    wait4: 61,
    number: 10,
    arguments: [14, 13, 12, 7, 9, 8],
    result: 10,
    ip: 16,
    interrupted: Some(15),
    // TF.
    flags: (18, 1 << 8),
    // __USER_CS. 32-bit code in a 64-bit process has another.
    mode: Some((17, 0x33)),
    unrepeatable: &[],
};

#[cfg(target_arch = "aarch64")]
pub(super) static MACHINE: Machine = Machine {
    instruction: &[0x01, 0x00, 0x00, 0xd4],
    alignment: 4,
    clone: 220,
    wait4: 260,
    number: 8,
    arguments: [0, 1, 2, 3, 4, 5],
    result: 0,
    ip: 32,
    interrupted: None,
    // SS and BTYPE.
    flags: (33, 1 << 21 | 3 << 10),
    mode: None,
    // The kernel continues these with restart_syscall(2), and a stopped thread's registers don't show it: futex,
    // nanosleep, clock_nanosleep, restart_syscall.
    unrepeatable: &[98, 101, 115, 128],
};

/// The general registers of a stopped thread.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) words: Words,
    pub(super) count: usize,
    /// Thread pointer and the bits of signed addresses, on machines that have registers of their own for them; or 0.
    pub(super) more: [u64; 2],
}

impl State {
    pub(super) const EMPTY: State = State { words: [0; MAX_REGISTERS], count: 0, more: [0; 2] };

    /// Reads the registers of a stopped thread. `None` if that fails.
    pub(super) fn read(tid: u32) -> Option<State> {
        let mut out = State::EMPTY;
        out.count = calls::general_registers(tid, &mut out.words)?;
        let pointer = ptrace::thread_pointer(tid).map_or(0, Addr::get);
        out.more = [pointer, ptrace::signature(tid).unwrap_or(0)];
        Some(out)
    }

    pub(super) fn get(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }

    fn at(&self, index: usize) -> u64 {
        self.get().get(index).copied().unwrap_or(0)
    }

    fn set(&mut self, index: usize, value: u64) {
        if let Some(word) = self.words.get_mut(index) {
            *word = value;
        }
    }

    /// The registers for a system call by the instruction at `ip`.
    pub(super) fn for_call(&self, ip: u64, number: u64, arguments: &[u64; 6]) -> State {
        let mut out = *self;
        for (&index, &value) in MACHINE.arguments.iter().zip(arguments) {
            out.set(index, value);
        }
        out.set(MACHINE.number, number);
        out.set(MACHINE.ip, ip);
        // Otherwise the kernel would repeat the interrupted call here.
        MACHINE.interrupted.into_iter().for_each(|index| out.set(index, u64::MAX));
        let (flags, cleared) = MACHINE.flags;
        out.set(flags, self.at(flags) & !cleared);
        out
    }

    /// The result of a system call: a number, or a negative error.
    pub(super) fn result(&self) -> i64 {
        self.at(MACHINE.result) as i64
    }

    /// Whether the thread was stopped in a system call. `None` if this machine's registers don't show it.
    pub(super) fn is_in_call(&self) -> Option<bool> {
        MACHINE.interrupted.map(|index| self.at(index) as i64 >= 0)
    }

    /// Whether the registers are of 64-bit code, and the thread can continue from them after another call.
    pub(super) fn is_suitable(&self) -> bool {
        let is_mode = MACHINE.mode.is_none_or(|(index, value)| self.at(index) == value);
        is_mode && !MACHINE.unrepeatable.contains(&self.at(MACHINE.number))
    }
}
