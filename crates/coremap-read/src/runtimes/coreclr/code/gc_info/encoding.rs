//! Field widths of GC info, by architecture and version.
//!
//! Sources: src/coreclr/inc/gcinfotypes.h: AMD64GcInfoEncoding, ARM64GcInfoEncoding (the same numbers as macros in
//! dotnet/coreclr, release/3.1, and up to .NET 9); inc/gcinfo.h, GCINFO_VERSION; inc/gcinfodecoder.h,
//! GcInfoHeaderFlags; docs/design/datacontracts/GCInfo.md.
//!
//! | version | .NET | |
//! |---|---|---|
//! | 2 | 3.1 to 8 | |
//! | 3 | 9 | the same form; more calls may be interrupted |
//! | 4 | 10 | no kind of return value; offsets of safe points are no longer one less |
//! | 5 | 11 | reads as 4 |
//!
//! A ReadyToRun image has the version of the runtimes that accept it. .NET 9 accepts images of 8 too, since both have
//! the same form. .NET 10 rejects older ones.

use crate::targets::Arch;

/// Differences between the known versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Version {
    /// The header flags are followed by the kind of the return value.
    pub(super) return_kind: bool,
    /// The safe point of a call is the return address minus one, which is within the call. Ranges are queried by that
    /// offset too.
    pub(super) within_call: bool,
    /// A collection may happen while a thread is interrupted right after a call.
    pub(super) interruptible_after_call: bool,
}

const VERSIONS: [(u64, Version); 4] = [
    (2, Version { return_kind: true, within_call: true, interruptible_after_call: false }),
    (3, Version { return_kind: true, within_call: true, interruptible_after_call: true }),
    (4, Version { return_kind: false, within_call: false, interruptible_after_call: true }),
    (5, Version { return_kind: false, within_call: false, interruptible_after_call: true }),
];

/// Number of bits per chunk of each number (`*_ENCBASE`), and scale factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Encoding {
    pub(super) version: Version,
    pub(super) own: Widths,
}

/// Widths for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// log2 of the unit of stack slots and areas.
    pub(super) slot_shift: u32,
    /// log2 of the unit of code lengths and offsets.
    pub(super) code_shift: u32,
    /// Value that is XORed with the number of the stack base register.
    pub(super) base_register: u32,
    /// One bit for each callee-saved register, by the processor's number.
    pub(super) callee_saved: u64,
    pub(super) return_kind_slim: u32,
    pub(super) return_kind_fat: u32,
    pub(super) code_length: u32,
    pub(super) prolog: u32,
    pub(super) epilog: u32,
    /// Slots of security object, GS cookie, PSPSym, generics context and reverse P/Invoke frame.
    pub(super) special_slot: u32,
    pub(super) base_register_bits: u32,
    pub(super) edit_and_continue: u32,
    /// Width of a second size for edit and continue, if there is one.
    pub(super) edit_and_continue_frame: Option<u32>,
    pub(super) stack_area: u32,
    pub(super) safe_points: u32,
    pub(super) ranges: u32,
    pub(super) range_start: u32,
    pub(super) range_length: u32,
    pub(super) registers: u32,
    pub(super) stack_slots: u32,
    pub(super) untracked: u32,
    pub(super) register: u32,
    pub(super) register_delta: u32,
    pub(super) stack_slot: u32,
    pub(super) stack_slot_delta: u32,
    pub(super) pointer_size: u32,
    pub(super) run: u32,
    pub(super) skip: u32,
}

const AMD64: Widths = Widths {
    slot_shift: 3,
    code_shift: 0,
    base_register: 5,
    // rbx, rbp, r12 to r15 (System V ABI)
    callee_saved: 1 << 3 | 1 << 5 | 0xf << 12,
    return_kind_slim: 2,
    return_kind_fat: 4,
    code_length: 8,
    prolog: 5,
    epilog: 3,
    special_slot: 6,
    base_register_bits: 3,
    edit_and_continue: 4,
    edit_and_continue_frame: None,
    stack_area: 3,
    safe_points: 2,
    ranges: 1,
    range_start: 6,
    range_length: 6,
    registers: 2,
    stack_slots: 2,
    untracked: 1,
    register: 3,
    register_delta: 2,
    stack_slot: 6,
    stack_slot_delta: 4,
    pointer_size: 3,
    run: 2,
    skip: 4,
};

const ARM64: Widths = Widths {
    slot_shift: 3,
    code_shift: 2,
    base_register: 29,
    // x19 to x28
    callee_saved: 0x3ff << 19,
    base_register_bits: 2,
    edit_and_continue_frame: Some(4),
    safe_points: 3,
    registers: 3,
    ..AMD64
};

/// Bits of a transition's offset within a chunk (NUM_NORM_CODE_OFFSETS_PER_CHUNK_LOG2).
pub(super) const CHUNK_BITS: u32 = 6;

/// GcInfoHeaderFlags.
pub(super) mod flags {
    /// GC_INFO_FLAGS_BIT_SIZE.
    pub(in super::super) const BITS: u32 = 10;
    pub(in super::super) const SECURITY_OBJECT: u32 = 0x2;
    pub(in super::super) const GS_COOKIE: u32 = 0x4;
    pub(in super::super) const PSP_SYM: u32 = 0x8;
    pub(in super::super) const GENERICS_CONTEXT: u32 = 0x30;
    pub(in super::super) const BASE_REGISTER: u32 = 0x40;
    pub(in super::super) const ONLY_LEAF: u32 = 0x80;
    pub(in super::super) const EDIT_AND_CONTINUE: u32 = 0x100;
    pub(in super::super) const REVERSE_PINVOKE: u32 = 0x200;
    pub(in super::super) const VARARG: u32 = 0x1;
}

impl Encoding {
    /// Encoding for a version (GCINFO_VERSION). `None` if it is unknown.
    pub(in crate::runtimes::coreclr) fn of(arch: Arch, version: u64) -> Option<Encoding> {
        let version = VERSIONS.iter().find(|v| v.0 == version)?.1;
        match arch {
            Arch::X86_64 => Some(Encoding { version, own: AMD64 }),
            // Before version 4, offsets within the call were no multiples of 4, and their scaling differed between
            // releases.
            Arch::Aarch64 => (!version.within_call).then_some(Encoding { version, own: ARM64 }),
        }
    }
}
