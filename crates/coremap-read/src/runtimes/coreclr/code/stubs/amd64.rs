//! Stubs of x86_64.
//!
//! Sources: src/coreclr/vm/amd64: cgencpu.h (StubPrecode, FixupPrecode, JumpStub), and thunktemplates.S from .NET 7 on,
//! with code and data in neighbouring pages.

use crate::addr::Addr;
use crate::bytes::{i32_at, u64_at};
use crate::memory::Memory;
use crate::runtimes::coreclr::code::stubs::{Stub, StubKind};

/// Longest stub, in bytes (FixupPrecode of .NET 7 and later).
pub(super) const LONGEST: u64 = 24;

/// `jmp [rip+d]`, `mov r10, [rip+d]`, `mov r10, imm64`, `mov rax, imm64`.
const JMP_MEMORY: &[u8] = &[0xff, 0x25];
const MOV_R10_MEMORY: &[u8] = &[0x4c, 0x8b, 0x15];
const MOV_R10: &[u8] = &[0x49, 0xba];
const MOV_RAX: &[u8] = &[0x48, 0xb8];
/// `jmp rax`; and `jmp rel32` after a prefix without effect.
const JMP_RAX: &[u8] = &[0xff, 0xe0];
const REX_JMP: &[u8] = &[0x40, 0xe9];
const CALL: u8 = 0xe8;
const JMP: u8 = 0xe9;
/// FixupPrecode::Type before and after the fixup (up to .NET 6).
const OLD_FIXUP: [u8; 2] = [0x5e, 0x5f];

/// Decodes the stub that starts at `start`. Returns it with its size in bytes.
pub(super) fn at(memory: &dyn Memory, start: Addr) -> Option<(Stub, u64)> {
    let len = memory.readable(start, LONGEST) as usize;
    let code = memory.bytes(start, len).ok()?;
    let word = |d: i32, end: u64| memory.ptr(start.wrapping_add(end).wrapping_offset(i64::from(d))).ok();
    let stub = |kind, parameter, target| Stub { start, kind, parameter, target };
    if code.starts_with(JMP_MEMORY) && code.get(6..)?.starts_with(MOV_R10_MEMORY) {
        let (target, parameter) = (word(i32_at(&code, 2)?, 6), word(i32_at(&code, 9)?, 13));
        return Some((stub(StubKind::FixupPrecode, parameter, target), 24));
    }
    if code.starts_with(MOV_R10_MEMORY) && code.get(7..)?.starts_with(JMP_MEMORY) {
        let (parameter, target) = (word(i32_at(&code, 3)?, 7), word(i32_at(&code, 9)?, 13));
        return Some((stub(StubKind::StubPrecode, parameter, target), 13));
    }
    if code.starts_with(MOV_R10) && code.get(10..)?.starts_with(REX_JMP) {
        let target = start.wrapping_add(16).wrapping_offset(i64::from(i32_at(&code, 12)?));
        return Some((stub(StubKind::StubPrecode, u64_at(&code, 2).map(Addr::new), Some(target)), 16));
    }
    if code.starts_with(MOV_RAX) && code.get(10..)?.starts_with(JMP_RAX) {
        return Some((stub(StubKind::Jump, None, u64_at(&code, 2).map(Addr::new)), 12));
    }
    old_fixup(memory, start, &code)
}

/// FixupPrecode up to .NET 6: call or jump, type, index of the MethodDesc in its chunk, and index of this stub counted
/// from the end of its own chunk. The address of the first MethodDesc is at that end.
fn old_fixup(memory: &dyn Memory, start: Addr, code: &[u8]) -> Option<(Stub, u64)> {
    let (op, kind) = (*code.first()?, *code.get(5)?);
    if !matches!(op, CALL | JMP) || !OLD_FIXUP.contains(&kind) || !start.is_aligned(8) {
        return None;
    }
    let (desc, back) = (u64::from(*code.get(6)?), u64::from(*code.get(7)?));
    let base = memory.ptr(start.saturating_add((back + 1) * 8)).ok()?;
    let target = start.wrapping_add(5).wrapping_offset(i64::from(i32_at(code, 1)?));
    let parameter = Some(base.saturating_add(desc * 8));
    Some((Stub { start, kind: StubKind::FixupPrecode, parameter, target: Some(target) }, 8))
}
