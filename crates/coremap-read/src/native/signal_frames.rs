//! Signal frames: what the kernel puts on a stack when it calls a signal handler.
//!
//! A frame has the registers of the interrupted code, and the alternate signal stack that was set. Frames are also
//! found by their shape, for handlers whose code and unwind data are not in the core.
//!
//! Sources: arch/x86/include/asm/sigframe.h and uapi/asm/{sigcontext,ucontext}.h, arch/arm64/kernel/signal.c and
//! uapi/asm/{sigcontext,ucontext}.h. An `rt_sigframe` is return address, `ucontext`, `siginfo` on x86_64, and
//! `siginfo`, `ucontext` on arm64. Both are part of the kernel's ABI and do not change.

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::memory::Memory;
use crate::registers::Regs;
use crate::targets::Arch;

/// Offsets in bytes from the start of the `ucontext`. The fields of [`ucontext`] are equal on both machines.
struct SignalLayout {
    /// Offset of the `ucontext` in bytes from the stack pointer with which the handler returns.
    above_return: u64,
    /// Offset of the first general register in `uc_mcontext`.
    registers: u64,
    /// DWARF numbers of the registers, in their order from there.
    order: &'static [u16],
    /// Offsets of the interrupted stack pointer and instruction pointer.
    sp: u64,
    ip: u64,
    /// Bytes to read.
    len: u64,
    /// Alignment of the frame in both kernels.
    align: u64,
    /// Checks the fields that only this machine has.
    fits: fn(&[u8], Addr, AddrRange) -> bool,
}

mod ucontext {
    pub(super) const FLAGS: usize = 0;
    pub(super) const LINK: usize = 8;
    pub(super) const STACK_SP: usize = 16;
    pub(super) const STACK_FLAGS: usize = 24;
    pub(super) const STACK_SIZE: usize = 32;
}

mod x86 {
    /// DWARF numbers in the order of `gregs`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    pub(super) const ORDER: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    pub(super) const EFLAGS: usize = 176;
    pub(super) const CS: usize = 184;
    pub(super) const FPSTATE: usize = 224;
    /// `__USER_CS`, the code segment of every 64-bit process.
    pub(super) const USER_CS: u16 = 0x33;
    /// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
    pub(super) const KNOWN_FLAGS: u64 = 7;
    /// Bit 1 is always set. Bits above 21 never are.
    pub(super) const EFLAGS_SET: u64 = 2;
    pub(super) const EFLAGS_CLEAR: u64 = !0x3f_ffff;
}

mod arm64 {
    /// x0 to x30, sp, pc.
    pub(super) const ORDER: [u16; 33] = {
        let mut all = [0; 33];
        let mut i = 0;
        while i < all.len() {
            all[i] = i as u16;
            i += 1;
        }
        all
    };
    /// Offset of the first record of `__reserved`, with its FPSIMD_MAGIC and size.
    pub(super) const RECORD: usize = 464;
    pub(super) const FPSIMD_MAGIC: u32 = 0x4650_8001;
    pub(super) const FPSIMD_SIZE: u32 = 528;
}

/// `SS_DISABLE`: no alternate stack was set.
const SS_DISABLE: u32 = 2;
/// `SS_ONSTACK`, `SS_DISABLE`, `SS_AUTODISARM`.
const KNOWN_STACK_FLAGS: u32 = 1 | SS_DISABLE | 1 << 31;

const X86_64: SignalLayout = SignalLayout {
    above_return: 0,
    registers: 40,
    order: &x86::ORDER,
    sp: 160,
    ip: 168,
    len: 304,
    align: 16,
    fits: |uc, at, stack| {
        let word = |offset| bytes::u64_at(uc, offset).unwrap_or(u64::MAX);
        let fpstate = Addr::new(word(x86::FPSTATE));
        word(ucontext::FLAGS) & !x86::KNOWN_FLAGS == 0
            && bytes::u16_at(uc, x86::CS) == Some(x86::USER_CS)
            && word(x86::EFLAGS) & (x86::EFLAGS_SET | x86::EFLAGS_CLEAR) == x86::EFLAGS_SET
            && (fpstate.is_null() || fpstate > at && stack.contains(fpstate))
    },
};

const AARCH64: SignalLayout = SignalLayout {
    above_return: 128,
    registers: 184,
    order: &arm64::ORDER,
    sp: 432,
    ip: 440,
    len: 472,
    align: 16,
    fits: |uc, _, _| {
        bytes::u64_at(uc, ucontext::FLAGS) == Some(0)
            && bytes::u32_at(uc, arm64::RECORD) == Some(arm64::FPSIMD_MAGIC)
            && bytes::u32_at(uc, arm64::RECORD + 4) == Some(arm64::FPSIMD_SIZE)
    },
};

fn layout(arch: Arch) -> &'static SignalLayout {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

/// The frame that the kernel made for a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalFrame {
    /// Address of its `ucontext`.
    pub at: Addr,
    /// Interrupted stack pointer.
    pub sp: Addr,
    /// Interrupted instruction pointer.
    pub ip: Addr,
    /// The alternate signal stack that the thread had set (sigaltstack), whether or not the handler runs on it. Empty
    /// if there was none.
    pub alternate: AddrRange,
}

/// Returns the bytes of a `ucontext` that identify it and the interrupted position, as (offset, length). Values of
/// other registers are not included.
pub fn shape(arch: Arch) -> &'static [(u64, u64)] {
    match arch {
        // Flags, link and stack_t; stack and instruction pointer; eflags, cs and the other segments; the fpstate
        // pointer.
        Arch::X86_64 => &[(0, 40), (X86_64.sp, 16), (x86::EFLAGS as u64, 16), (x86::FPSTATE as u64, 8)],
        Arch::Aarch64 => &[(0, 40), (AARCH64.sp, 16), (arm64::RECORD as u64, 8)],
    }
}

/// Reads the interrupted registers from the `ucontext` at an address.
pub fn registers(memory: &dyn Memory, arch: Arch, ucontext: Addr) -> Option<Regs> {
    let layout = layout(arch);
    let first = ucontext.checked_add(layout.registers)?;
    let mut regs = Regs::new(arch, Addr::NULL, Addr::NULL);
    for (i, &number) in layout.order.iter().enumerate() {
        // Read as in a search: most registers are values of the program, not structures.
        regs.set(number, Some(memory.peek_u64(first.checked_add(8 * i as u64)?).ok()?));
    }
    Some(regs)
}

/// Returns the `ucontext` of a handler that is about to return with the stack pointer `sp`.
pub fn above_return(arch: Arch, sp: Addr) -> Option<Addr> {
    sp.checked_add(layout(arch).above_return)
}

/// Offset in arm64's `ucontext` of the interrupted frame pointer and link register.
const RECORDED: usize = 184 + 29 * 8;

/// Finds the `ucontext` that the kernel put below a frame record.
///
/// Only arm64's kernel makes such a record: {x29, x30} of the interrupted code, above the `rt_sigframe`. The frame's
/// size depends on what the machine has to save. The handler's frame pointers lead to the record, not to the stack
/// pointer. The `ucontext` is searched from the record down to `low`, by its shape and by the same two registers.
pub fn below_record(memory: &dyn Memory, arch: Arch, record: Addr, low: Addr) -> Option<Addr> {
    let layout = layout(arch);
    if arch != Arch::Aarch64 || !record.is_aligned(layout.align) {
        return None;
    }
    let recorded = memory.look(record, 16).ok()?;
    let start = record.saturating_sub(limits::MAX_SIGNAL_FRAME).max(low.align_up(layout.align));
    let bytes = memory.look(start, usize::try_from(record.checked_since(start)?).ok()?).ok()?;
    let (len, step) = (usize::try_from(layout.len).ok()?, usize::try_from(layout.align).ok()?);
    let stack = AddrRange::new(start, record);
    (0..=bytes.len().checked_sub(len)?).rev().filter(|i| i.is_multiple_of(step)).find_map(|i| {
        let uc = bytes.get(i..i.checked_add(len)?)?;
        let at = start.checked_add(i as u64)?;
        let same = uc.get(RECORDED..RECORDED + 16) == Some(recorded.as_slice());
        (same && parse(layout, uc, at, stack).is_some()).then_some(at)
    })
}

/// Whether there is a `ucontext` at `at`, by its shape.
pub fn is_ucontext(memory: &dyn Memory, arch: Arch, at: Addr) -> bool {
    let layout = layout(arch);
    let stack = AddrRange::sized(at, limits::MAX_SIGNAL_SEARCH);
    memory.look(at, layout.len as usize).is_ok_and(|uc| parse(layout, &uc, at, stack).is_some())
}

/// Returns the first signal frame on `stack` at or above `sp`, which is the running handler's. At most
/// [`limits::MAX_SIGNAL_SEARCH`] bytes are searched.
pub fn find(memory: &dyn Memory, arch: Arch, sp: Addr, stack: AddrRange) -> Option<SignalFrame> {
    let layout = layout(arch);
    let start = sp.align_up(layout.align);
    let len = memory.readable(start, stack.end.since(start).min(limits::MAX_SIGNAL_SEARCH));
    let bytes = memory.look(start, usize::try_from(len).ok()?).ok()?;
    let step = usize::try_from(layout.align).ok()?;
    (0..bytes.len()).step_by(step).find_map(|i| {
        let uc = bytes.get(i..i.checked_add(layout.len as usize)?)?;
        parse(layout, uc, start.checked_add(i as u64)?, stack)
    })
}

fn parse(layout: &SignalLayout, uc: &[u8], at: Addr, stack: AddrRange) -> Option<SignalFrame> {
    let word = |offset: usize| bytes::u64_at(uc, offset);
    // Most candidates fail here.
    if word(ucontext::LINK) != Some(0) || word(ucontext::FLAGS)? > u64::from(u8::MAX) {
        return None;
    }
    let flags = bytes::u32_at(uc, ucontext::STACK_FLAGS)?;
    // The siginfo is no evidence: it is written only if the handler asks for it.
    if flags & !KNOWN_STACK_FLAGS != 0 || !(layout.fits)(uc, at, stack) {
        return None;
    }
    let set = flags & SS_DISABLE == 0;
    let size = if set { word(ucontext::STACK_SIZE)? } else { 0 };
    let ip = Addr::new(word(layout.ip as usize)?);
    (!ip.is_null()).then_some(SignalFrame {
        at,
        sp: Addr::new(word(layout.sp as usize)?),
        ip,
        alternate: AddrRange::sized(Addr::new(word(ucontext::STACK_SP)?), size),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};

    const BASE: u64 = 0x7000_0000;
    /// Bytes from the `rt_sigframe` to the frame record above it, as in arm64's kernel: siginfo, ucontext, 4 KiB of
    /// records.
    const SIZE: u64 = 128 + 464 + 4096;

    struct Stack(Vec<u8>);

    impl Memory for Stack {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let fault = Fault { addr, kind: FaultKind::Unmapped };
            let from = addr.checked_since(Addr::new(BASE)).ok_or(fault)? as usize;
            buf.copy_from_slice(self.0.get(from..from + buf.len()).ok_or(fault)?);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let from = addr.checked_since(Addr::new(BASE));
            from.map_or(0, |from| (self.0.len() as u64).saturating_sub(from).min(max))
        }
    }

    /// Makes a stack with a signal frame at `at`. The frame record, {x29, x30} of the code interrupted at `ip`, is
    /// `size` bytes above it.
    fn stack(at: u64, size: u64, registers: (u64, u64), ip: u64) -> Stack {
        let mut bytes = vec![0; 0x8000];
        let mut put = |at: u64, word: u64| bytes[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
        let uc = at + 128;
        put(uc + 24, SS_DISABLE.into());
        put(uc + 184 + 8 * 29, registers.0);
        put(uc + 184 + 8 * 30, registers.1);
        put(uc + 432, BASE + 0x7000);
        put(uc + 440, ip);
        put(uc + 464, u64::from(arm64::FPSIMD_MAGIC) | u64::from(arm64::FPSIMD_SIZE) << 32);
        put(at + size, registers.0);
        put(at + size + 8, registers.1);
        Stack(bytes)
    }

    #[test]
    fn a_record_of_the_kernels_leads_to_what_was_interrupted() {
        let (at, low) = (0x1000, Addr::new(BASE + 0x800));
        // Wider vectors take more room below the record.
        for size in [SIZE, SIZE + 0x900] {
            let memory = stack(at, size, (BASE + 0x7100, 0x40_1000), 0x40_2344);
            let record = Addr::new(BASE + at + size);
            let found = below_record(&memory, Arch::Aarch64, record, low);
            assert_eq!(found, Some(Addr::new(BASE + at + 128)), "{size}");
            let regs = found.and_then(|uc| registers(&memory, Arch::Aarch64, uc)).map(|r| (r.ip(), r.sp()));
            assert_eq!(regs, Some((Addr::new(0x40_2344), Addr::new(BASE + 0x7000))));
            assert_eq!(below_record(&memory, Arch::X86_64, record, low), None, "that kernel makes none");
            assert_eq!(below_record(&memory, Arch::Aarch64, record.saturating_add(8), low), None, "not aligned");
            assert_eq!(
                below_record(&memory, Arch::Aarch64, record, Addr::new(BASE + 0x1800)),
                None,
                "below the handler"
            );
        }
    }

    #[test]
    fn a_record_of_a_function_leads_to_no_signal() {
        let (at, low) = (0x1000, Addr::new(BASE + 0x800));
        let mut memory = stack(at, SIZE, (BASE + 0x7100, 0x40_1000), 0x40_2344);
        // Another x29 than the interrupted one: a record above a signal frame left from earlier.
        memory.0[(at + SIZE) as usize] ^= 0x10;
        assert_eq!(below_record(&memory, Arch::Aarch64, Addr::new(BASE + at + SIZE), low), None);
        let empty = Stack(vec![0; 0x2000]);
        assert_eq!(below_record(&empty, Arch::Aarch64, Addr::new(BASE + 0x1f00), low), None);
        assert_eq!(below_record(&empty, Arch::Aarch64, Addr::new(BASE + 0x1ff8), low), None, "at the end");
        assert!(!is_ucontext(&empty, Arch::Aarch64, Addr::new(BASE)));
    }
}
