//! Unwind data of x86_64: codes for the prolog. Epilogs are recognised by their instructions.
//!
//! Sources: Microsoft x64 exception handling, "Unwind data for exception handling" (UNWIND_INFO, UNWIND_CODE, epilogs);
//! src/coreclr/inc/win64unwind.h for UWOP_SET_FPREG_LARGE, which only Unix has.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::registers::Regs;
use crate::registers::x86_64::{RIP, RSP};
use crate::runtimes::coreclr::code::unwind::{UnwindEntry, UnwindError};

/// UNWIND_OP_CODES.
mod op {
    pub(super) const PUSH_NONVOL: u8 = 0;
    pub(super) const ALLOC_LARGE: u8 = 1;
    pub(super) const ALLOC_SMALL: u8 = 2;
    pub(super) const SET_FPREG: u8 = 3;
    pub(super) const SAVE_NONVOL: u8 = 4;
    pub(super) const SAVE_NONVOL_FAR: u8 = 5;
    pub(super) const EPILOG: u8 = 6;
    pub(super) const SPARE_CODE: u8 = 7;
    pub(super) const SAVE_XMM128: u8 = 8;
    pub(super) const SAVE_XMM128_FAR: u8 = 9;
    pub(super) const PUSH_MACHFRAME: u8 = 10;
    pub(super) const SET_FPREG_LARGE: u8 = 11;
}

/// UNW_FLAG_CHAININFO: a RUNTIME_FUNCTION follows the codes.
const CHAINED: u8 = 4;

/// RUNTIME_FUNCTION_INDIRECT: UnwindData is the RVA of another RUNTIME_FUNCTION.
const INDIRECT: u32 = 1;

/// Offset of UnwindData in a RUNTIME_FUNCTION.
const UNWIND_DATA: u64 = 8;

/// Bytes of the personality routine's RVA.
const PERSONALITY: u64 = 4;

/// DWARF numbers of registers, by their number in instructions.
pub(super) const DWARF: [u16; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// UNWIND_INFO.
struct Info {
    chained: Option<u32>,
    prolog: u8,
    /// Frame pointer as DWARF number, and its distance above the stack pointer from which it was set.
    frame: Option<(u16, u64)>,
    codes: Vec<u16>,
}

/// One operation of a prolog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Push(u16),
    Alloc(u64),
    SetFrame(Option<u64>),
    Save(u16, u64),
    MachineFrame(bool),
    Nothing,
}

impl Info {
    fn read(memory: &dyn Memory, base: Addr, data: u32) -> Result<Info, UnwindError> {
        let mut at = base.saturating_add(u64::from(data & !INDIRECT));
        if data & INDIRECT != 0 {
            at = base.saturating_add(u64::from(memory.u32(at.saturating_add(UNWIND_DATA))?));
        }
        let mut head = [0; 4];
        memory.read(at, &mut head)?;
        let [first, prolog, count, frame] = head;
        let bytes = memory.bytes(at.saturating_add(4), usize::from(count) * 2)?;
        let codes = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        let chained = match (first >> 3) & CHAINED {
            0 => None,
            // Padded to an even number of codes.
            _ => Some(memory.u32(at.saturating_add(4 + u64::from(count).next_multiple_of(2) * 2 + UNWIND_DATA))?),
        };
        let register = DWARF.get(usize::from(frame & 0xf)).copied().filter(|_| frame & 0xf != 0);
        Ok(Info { chained, prolog, frame: register.map(|r| (r, u64::from(frame >> 4) * 16)), codes })
    }

    /// Operations of the prolog with their code offsets, last one first.
    fn operations(&self) -> Result<Vec<(u8, Code)>, UnwindError> {
        let mut out = Vec::new();
        let mut rest = self.codes.as_slice();
        let word = |rest: &mut &[u16]| -> Result<u64, UnwindError> {
            let (first, more) = rest.split_first().ok_or(UnwindError::Bad)?;
            *rest = more;
            Ok(u64::from(*first))
        };
        let double = |rest: &mut &[u16]| -> Result<u64, UnwindError> { Ok(word(rest)? | word(rest)? << 16) };
        while let Ok(slot) = word(&mut rest) {
            let (offset, kind, info) = (slot as u8, (slot >> 8) as u8 & 0xf, (slot >> 12) as u8);
            let register = DWARF.get(usize::from(info)).copied().ok_or(UnwindError::Bad)?;
            let code = match kind {
                op::PUSH_NONVOL => Code::Push(register),
                op::ALLOC_LARGE if info == 0 => Code::Alloc(word(&mut rest)? * 8),
                op::ALLOC_LARGE => Code::Alloc(double(&mut rest)?),
                op::ALLOC_SMALL => Code::Alloc(u64::from(info) * 8 + 8),
                op::SET_FPREG => Code::SetFrame(None),
                op::SET_FPREG_LARGE => Code::SetFrame(Some(double(&mut rest)? * 16)),
                op::SAVE_NONVOL => Code::Save(register, word(&mut rest)? * 8),
                op::SAVE_NONVOL_FAR => Code::Save(register, double(&mut rest)?),
                op::SAVE_XMM128 | op::EPILOG => {
                    word(&mut rest)?;
                    Code::Nothing
                }
                op::SAVE_XMM128_FAR | op::SPARE_CODE => {
                    double(&mut rest)?;
                    Code::Nothing
                }
                op::PUSH_MACHFRAME => Code::MachineFrame(info != 0),
                _ => return Err(UnwindError::Bad),
            };
            out.push((offset, code));
        }
        Ok(out)
    }
}

/// Registers of a frame while it is being unwound.
struct Machine<'m> {
    memory: &'m dyn Memory,
    regs: Regs,
    /// Whether the frame pointer is ignored.
    from_sp: bool,
}

impl Machine<'_> {
    fn sp(&self) -> u64 {
        self.regs.sp().get()
    }

    fn set_sp(&mut self, sp: u64) {
        self.regs.set(RSP, Some(sp));
    }

    fn pop(&mut self) -> Result<u64, UnwindError> {
        let value = self.memory.u64(self.regs.sp())?;
        self.set_sp(self.sp().wrapping_add(8));
        Ok(value)
    }

    /// Undoes the operations of a prolog that had run before `offset`.
    fn undo(&mut self, info: &Info, offset: u64) -> Result<bool, UnwindError> {
        let operations = info.operations()?;
        let done = |at: u8| u64::from(at) <= offset;
        let distance = |own: Option<u64>| own.or(info.frame.map(|f| f.1)).unwrap_or(0);
        // Saved registers are at offsets from the stack pointer after the prolog. With a frame pointer, that value can
        // only be derived from it.
        let set = operations.iter().find_map(|(at, code)| match code {
            Code::SetFrame(own) if done(*at) => Some(distance(*own)),
            _ => None,
        });
        let base = match (info.frame, set) {
            (Some((register, _)), Some(distance)) if !self.from_sp => {
                self.regs.get(register).ok_or(UnwindError::Bad)?.wrapping_sub(distance)
            }
            _ => self.sp(),
        };
        for (_, code) in operations.into_iter().filter(|(at, _)| done(*at)) {
            match code {
                Code::Push(register) => {
                    let value = self.pop()?;
                    self.regs.set(register, Some(value));
                }
                Code::Alloc(size) => self.set_sp(self.sp().wrapping_add(size)),
                Code::SetFrame(_) => self.set_sp(base),
                Code::Save(register, at) => {
                    let value = self.memory.u64(Addr::new(base.wrapping_add(at)))?;
                    self.regs.set(register, Some(value));
                }
                Code::MachineFrame(error_code) => {
                    let at = self.sp().wrapping_add(if error_code { 8 } else { 0 });
                    let (ip, sp) = (self.memory.u64(Addr::new(at))?, self.memory.u64(Addr::new(at.wrapping_add(24)))?);
                    self.regs.set(RIP, Some(ip));
                    self.set_sp(sp);
                    return Ok(true);
                }
                Code::Nothing => {}
            }
        }
        Ok(false)
    }
}

pub(super) fn unwind(memory: &dyn Memory, entry: &UnwindEntry, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
    undo_all(Machine { memory, regs: regs.clone(), from_sp: false }, entry, exact)
}

/// Unwinds a call by the stack pointer alone. Wrong if the function allocated more than its prolog does.
pub(super) fn unwind_from_sp(memory: &dyn Memory, entry: &UnwindEntry, regs: &Regs) -> Result<Regs, UnwindError> {
    undo_all(Machine { memory, regs: regs.clone(), from_sp: true }, entry, false)
}

fn undo_all(mut machine: Machine<'_>, entry: &UnwindEntry, exact: bool) -> Result<Regs, UnwindError> {
    let (memory, regs) = (machine.memory, &machine.regs);
    let ip = regs.ip();
    if exact && let Some(above) = epilog(memory, regs, entry) {
        return Ok(above);
    }
    let mut offset = ip.since(entry.begin.min(ip));
    let mut data = entry.data;
    for _ in 0..limits::MAX_UNWIND_CHAIN {
        let info = Info::read(memory, entry.base, data)?;
        // After the prolog, and in chained data, all operations have run.
        if offset >= u64::from(info.prolog) {
            offset = u64::MAX;
        }
        if machine.undo(&info, offset)? {
            return Ok(machine.regs);
        }
        let Some(next) = info.chained else {
            let back = machine.pop()?;
            machine.regs.set(RIP, Some(back));
            return Ok(machine.regs);
        };
        data = next;
        offset = u64::MAX;
    }
    Err(UnwindError::Bad)
}

pub(super) fn gc_info_address(memory: &dyn Memory, entry: &UnwindEntry) -> Result<Addr, UnwindError> {
    let at = entry.base.saturating_add(u64::from(entry.data & !INDIRECT));
    let mut head = [0; 4];
    memory.read(at, &mut head)?;
    let [_, _, count, _] = head;
    let size = (4 + u64::from(count) * 2 + PERSONALITY).next_multiple_of(4);
    Ok(at.saturating_add(size))
}

/// Maximum bytes of an epilog that are read. An instruction takes at most 8 bytes.
const LONGEST_EPILOG: u64 = 96;

/// Unwinds by the code that remains to run, if that is an epilog: it restores the stack pointer, pops registers, and
/// returns or jumps out.
fn epilog(memory: &dyn Memory, regs: &Regs, entry: &UnwindEntry) -> Option<Regs> {
    let ip = regs.ip();
    let len = memory.readable(ip, LONGEST_EPILOG) as usize;
    let code = memory.bytes(ip, len).ok()?;
    let mut rest = code.as_slice();
    let mut machine = Machine { memory, regs: regs.clone(), from_sp: false };
    match rest {
        // add rsp, imm8; add rsp, imm32
        [0x48, 0x83, 0xc4, n, more @ ..] => {
            machine.set_sp(machine.sp().wrapping_add_signed(i64::from(*n as i8)));
            rest = more;
        }
        [0x48, 0x81, 0xc4, a, b, c, d, more @ ..] => {
            machine.set_sp(machine.sp().wrapping_add_signed(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))));
            rest = more;
        }
        // lea rsp, [rbp+disp8]; lea rsp, [rbp+disp32]
        [0x48, 0x8d, 0x65, n, more @ ..] => {
            machine.set_sp(regs.fp()?.wrapping_offset(i64::from(*n as i8)).get());
            rest = more;
        }
        [0x48, 0x8d, 0xa5, a, b, c, d, more @ ..] => {
            machine.set_sp(regs.fp()?.wrapping_offset(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))).get());
            rest = more;
        }
        _ => {}
    }
    loop {
        let (register, more) = match rest {
            [n @ 0x58..=0x5f, more @ ..] => (n - 0x58, more),
            [0x41, n @ 0x58..=0x5f, more @ ..] => (n - 0x58 + 8, more),
            // vzeroupper
            [0xc5, 0xf8, 0x77, more @ ..] => {
                rest = more;
                continue;
            }
            _ => break,
        };
        let value = machine.pop().ok()?;
        machine.regs.set(*DWARF.get(usize::from(register))?, Some(value));
        rest = more;
    }
    let leaves = match rest {
        [0xc3, ..] | [0xf3, 0xc3, ..] => true,
        // jmp rel32 out of the function
        [0xe9, a, b, c, d, ..] => {
            let after = ip.wrapping_add((code.len() - rest.len()) as u64 + 5);
            let target = after.wrapping_offset(i64::from(i32::from_le_bytes([*a, *b, *c, *d])));
            target < entry.begin || target >= entry.end
        }
        // jmp [rip+disp32], with or without REX.W; rex.w jmp register
        [0xff, 0x25, ..] | [0x48, 0xff, 0x25, ..] => true,
        [0x48, 0xff, modrm, ..] => modrm >> 3 & 7 == 4 && *modrm >= 0xc0,
        _ => false,
    };
    if !leaves {
        return None;
    }
    let back = machine.pop().ok()?;
    machine.regs.set(RIP, Some(back));
    Some(machine.regs)
}

#[cfg(test)]
#[path = "amd64_tests.rs"]
mod tests;
