//! Stubs of arm64. A stub's data is in a page of its own, at a distance encoded in the stub's loads: the size of the
//! process's stub pages.
//!
//! Sources: src/coreclr/vm/arm64: thunktemplates.S (StubPrecode, FixupPrecode, CallCountingStub), stubs.cpp and
//! cgencpu.h (ThisPtrRetBufPrecode, up to .NET 9; jump stubs), virtualcallstubcpu.hpp (DispatchStub).

use crate::addr::Addr;
use crate::bytes::{u32_at, u64_at};
use crate::memory::Memory;
use crate::runtimes::coreclr::code::stubs::{Stub, StubKind};

/// Bytes of an instruction.
pub(super) const INSTRUCTION: u64 = 4;

/// Longest stub, in bytes (DispatchStub with its data).
pub(super) const LONGEST: u64 = 56;

/// Opcodes, without operands.
mod op {
    /// `ldr x, label`: register in the low 5 bits, distance in words from bit 5.
    pub(super) const LDR: u32 = 0x5800_0000;
    pub(super) const LDR_MASK: u32 = 0xff00_0000;
    /// `br x`: register from bit 5.
    pub(super) const BR: u32 = 0xd61f_0000;
    /// `dmb ishld`, between the halves of a FixupPrecode from .NET 9 on.
    pub(super) const DMB: u32 = 0xd503_39bf;
}

/// mov x16, x0; mov x0, x1; mov x1, x16; ldr x16, target; br x16
const RET_BUF: [u32; 3] = [0x9100_0010, 0x9100_0020, 0x9100_0201];
/// ldrh w10, [x9]; subs w10, w10, #1; strh w10, [x9]; b.eq threshold; ldr x9, target; br x9
const COUNT: [u32; 4] = [0x7940_012a, 0x7100_054a, 0x7900_012a, 0x5400_0060];
/// ldr x13, [x0]; adr x9, expected; ldp x10, x12, [x9]; cmp x13, x10; b.ne fail; br x12; fail: ldr x9, …; br x9
const DISPATCH: [u32; 6] = [0xf940_000d, 0x1000_00e9, 0xa940_312a, 0xeb0a_01bf, 0x5400_0041, 0xd61f_0180];
/// Offset of the jump target in a DispatchStub.
const DISPATCH_TARGET: usize = 40;

/// Decodes the stub that starts at `start`. Returns it with its size in bytes.
pub(super) fn at(memory: &dyn Memory, start: Addr) -> Option<(Stub, u64)> {
    let len = memory.readable(start, LONGEST) as usize;
    let bytes = memory.bytes(start, len).ok()?;
    let code = Code { memory, start, bytes: &bytes };
    let stub = |kind, parameter, target| Stub { start, kind, parameter, target };
    let first = code.word(0)?;
    if first == DISPATCH[0] {
        let target = u64_at(&bytes, DISPATCH_TARGET).map(Addr::new);
        return code.is(0, &DISPATCH).then(|| (stub(StubKind::Dispatch, None, target), LONGEST));
    }
    if first == RET_BUF[0] {
        let target = code.loaded(3, 16).filter(|_| code.is(0, &RET_BUF) && code.jumps(4, 16))?;
        // The MethodDesc follows the target.
        let parameter = memory.ptr(target.saturating_add(8)).ok();
        return Some((stub(StubKind::ThisPtrRetBufPrecode, parameter, memory.ptr(target).ok()), 40));
    }
    let value = |at: Option<Addr>| at.and_then(|at| memory.ptr(at).ok());
    match (first & 0x1f, code.word(1)?) {
        (11, _) if code.jumps(1, 11) => {
            let next = if code.word(2) == Some(op::DMB) { 3 } else { 2 };
            let (target, parameter) = (code.loaded(0, 11)?, code.loaded(next, 12)?);
            code.loaded(next + 1, 11).filter(|_| code.jumps(next + 2, 11))?;
            Some((stub(StubKind::FixupPrecode, value(Some(parameter)), value(Some(target))), 24))
        }
        (10, _) if code.jumps(2, 10) => {
            let (target, parameter) = (code.loaded(0, 10)?, code.loaded(1, 12)?);
            Some((stub(StubKind::StubPrecode, value(Some(parameter)), value(Some(target))), 24))
        }
        (16, _) if code.jumps(1, 16) && !ends_exchange(memory, start) => {
            Some((stub(StubKind::Jump, None, value(code.loaded(0, 16))), 16))
        }
        (9, _) if code.is(1, &COUNT) && code.jumps(6, 9) => {
            code.loaded(0, 9)?;
            Some((stub(StubKind::CallCounting, None, value(code.loaded(5, 9))), 40))
        }
        _ => None,
    }
}

/// Whether the jump at `start` is the end of a ThisPtrRetBufPrecode.
fn ends_exchange(memory: &dyn Memory, start: Addr) -> bool {
    let before = |back: u64| memory.u32(start.checked_sub(back * INSTRUCTION)?).ok();
    (1..).zip(RET_BUF.iter().rev()).all(|(back, word)| before(back) == Some(*word))
}

/// Instructions from `start` on.
struct Code<'a> {
    memory: &'a dyn Memory,
    start: Addr,
    bytes: &'a [u8],
}

impl Code<'_> {
    fn word(&self, index: usize) -> Option<u32> {
        u32_at(self.bytes, index * INSTRUCTION as usize)
    }

    fn is(&self, index: usize, words: &[u32]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.word(index + i) == Some(*word))
    }

    fn jumps(&self, index: usize, register: u32) -> bool {
        self.word(index) == Some(op::BR | register << 5)
    }

    /// Address from which the instruction at `index` loads `register`.
    fn loaded(&self, index: usize, register: u32) -> Option<Addr> {
        let word = self.word(index).filter(|w| w & op::LDR_MASK == op::LDR && w & 0x1f == register)?;
        // Sign-extends 19 bits.
        let distance = i64::from((word << 8) as i32 >> 13) * 4;
        let from = self.start.checked_add(index as u64 * INSTRUCTION)?;
        from.checked_offset(distance).filter(|at| self.memory.readable(*at, 8) == 8)
    }
}

#[cfg(test)]
#[path = "arm64_tests.rs"]
mod tests;
