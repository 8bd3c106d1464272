//! Names of registers in the runtime's structures, with their DWARF numbers: contexts, callee-saved registers, and the
//! registers of helper Frames.
//!
//! Sources: src/coreclr/pal/inc/pal.h (CONTEXT); src/coreclr/vm, amd64 and arm64: cgencpu.h (CalleeSavedRegisters),
//! gmscpu.h (MachState).

use crate::registers::x86_64::{R12, RBP, RBX};
use crate::targets::Arch;

/// Names of registers for one architecture.
pub(super) struct Names {
    /// Instruction and stack pointer of a context.
    pub(super) ip: &'static str,
    pub(super) sp: &'static str,
    /// Other registers of a context.
    pub(super) context: &'static [(&'static str, u16)],
    /// Fields of CalleeSavedRegisters.
    pub(super) callee_saved: &'static [(&'static str, u16)],
    /// Registers of a MachState, in order.
    pub(super) machine: &'static [u16],
    /// Instruction and stack pointer of the code that made a LazyMachState.
    pub(super) capture: (&'static str, &'static str),
}

pub(super) fn layout_names(arch: Arch) -> &'static Names {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

const X86_64: Names = Names {
    ip: "Rip",
    sp: "Rsp",
    context: &[
        ("Rax", 0),
        ("Rdx", 1),
        ("Rcx", 2),
        ("Rbx", RBX),
        ("Rsi", 4),
        ("Rdi", 5),
        ("Rbp", RBP),
        ("R8", 8),
        ("R9", 9),
        ("R10", 10),
        ("R11", 11),
        ("R12", R12),
        ("R13", 13),
        ("R14", 14),
        ("R15", 15),
    ],
    callee_saved: &[("R12", R12), ("R13", 13), ("R14", 14), ("R15", 15), ("Rbx", RBX), ("Rbp", RBP)],
    machine: &[R12, 13, 14, 15, RBX, RBP],
    capture: ("CaptureRip", "CaptureRsp"),
};

const AARCH64: Names = Names {
    ip: "Pc",
    sp: "Sp",
    context: &[
        ("X0", 0),
        ("X1", 1),
        ("X2", 2),
        ("X3", 3),
        ("X4", 4),
        ("X5", 5),
        ("X6", 6),
        ("X7", 7),
        ("X8", 8),
        ("X9", 9),
        ("X10", 10),
        ("X11", 11),
        ("X12", 12),
        ("X13", 13),
        ("X14", 14),
        ("X15", 15),
        ("X16", 16),
        ("X17", 17),
        ("X18", 18),
        ("X19", 19),
        ("X20", 20),
        ("X21", 21),
        ("X22", 22),
        ("X23", 23),
        ("X24", 24),
        ("X25", 25),
        ("X26", 26),
        ("X27", 27),
        ("X28", 28),
        ("Fp", 29),
        ("Lr", 30),
    ],
    callee_saved: &[
        ("Fp", 29),
        ("Lr", 30),
        ("X19", 19),
        ("X20", 20),
        ("X21", 21),
        ("X22", 22),
        ("X23", 23),
        ("X24", 24),
        ("X25", 25),
        ("X26", 26),
        ("X27", 27),
        ("X28", 28),
    ],
    machine: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    capture: ("CaptureIp", "CaptureSp"),
};
