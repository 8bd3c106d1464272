//! Unwind data of arm64: a header, where epilogs are, and codes, each of which is one instruction of a prolog from
//! its end on; or, for plain functions, all of it in the RUNTIME_FUNCTION (`packed`).
//!
//! Microsoft, "ARM64 exception handling" (.xdata records, unwind codes, packed unwind data); which of it the JIT
//! writes: src/coreclr/jit/unwindarmarch.cpp and unwindarm64.cpp.

mod packed;

use crate::addr::Addr;
use crate::memory::{Fault, Memory};
use crate::registers::{Regs, without_signature};
use crate::runtimes::coreclr::code::unwind::{UnwindEntry, UnwindError};

/// DWARF numbers, which are the processor's.
const FP: u16 = 29;
pub(super) const LR: u16 = 30;
/// The first register that a callee saves, in codes number 0.
const FIRST_SAVED: u16 = 19;
/// x0 to x18: a caller's are lost.
const SCRATCH: std::ops::RangeInclusive<u16> = 0..=18;

/// Bytes of an instruction.
const INSTRUCTION: u64 = 4;

/// The low bits of UnwindData: what it is. 0: an RVA.
const KIND: u32 = 3;

/// Bits of the first word of an .xdata record.
mod header {
    /// In instructions.
    pub(super) const LENGTH: u32 = 0x3_ffff;
    pub(super) const VERSION_SHIFT: u32 = 18;
    pub(super) const VERSION: u32 = 3;
    /// One epilog, at the function's end: in place of a count, the index of its first code.
    pub(super) const ONE_EPILOG: u32 = 1 << 21;
    pub(super) const EPILOGS_SHIFT: u32 = 22;
    pub(super) const CODE_WORDS_SHIFT: u32 = 27;
    pub(super) const COUNT: u32 = 0x1f;
    /// Of the second word, where both counts are 0 in the first.
    pub(super) const LONG_EPILOGS: u32 = 0xffff;
    pub(super) const LONG_CODE_WORDS_SHIFT: u32 = 16;
    pub(super) const LONG_CODE_WORDS: u32 = 0xff;
}

/// An epilog's word: where it begins, in instructions, and the index of its first code.
const EPILOG_START: u32 = 0x3_ffff;
const EPILOG_INDEX_SHIFT: u32 = 22;

/// Bytes of the personality routine's RVA.
const PERSONALITY: u64 = 4;

/// An .xdata record, or what stands for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Instructions.
    length: u32,
    /// Where each epilog begins, in instructions, and the index of its first code.
    epilogs: Vec<(u32, usize)>,
    codes: Vec<u8>,
}

/// Counts of an .xdata record.
struct Head {
    first: u32,
    epilogs: u32,
    code_words: u32,
    /// Bytes of the header.
    size: u64,
}

impl Head {
    fn read(memory: &dyn Memory, at: Addr) -> Result<Head, UnwindError> {
        let first = memory.u32(at)?;
        if first >> header::VERSION_SHIFT & header::VERSION != 0 {
            return Err(UnwindError::Bad);
        }
        let epilogs = first >> header::EPILOGS_SHIFT & header::COUNT;
        let code_words = first >> header::CODE_WORDS_SHIFT & header::COUNT;
        if (epilogs, code_words) != (0, 0) {
            return Ok(Head { first, epilogs, code_words, size: 4 });
        }
        let second = memory.u32(at.saturating_add(4))?;
        let code_words = second >> header::LONG_CODE_WORDS_SHIFT & header::LONG_CODE_WORDS;
        Ok(Head { first, epilogs: second & header::LONG_EPILOGS, code_words, size: 8 })
    }

    fn one_epilog(&self) -> bool {
        self.first & header::ONE_EPILOG != 0
    }

    /// Words of epilogs.
    fn scopes(&self) -> u32 {
        if self.one_epilog() { 0 } else { self.epilogs }
    }

    /// From its begin to its codes.
    fn codes_at(&self) -> u64 {
        self.size + 4 * u64::from(self.scopes())
    }
}

impl Record {
    fn read(memory: &dyn Memory, base: Addr, data: u32) -> Result<Record, UnwindError> {
        if data & KIND != 0 {
            return packed::record(data).ok_or(UnwindError::Bad);
        }
        let at = base.saturating_add(u64::from(data));
        let head = Head::read(memory, at)?;
        let codes = memory.bytes(at.saturating_add(head.codes_at()), head.code_words as usize * 4)?;
        let length = head.first & header::LENGTH;
        if head.one_epilog() {
            let index = head.epilogs as usize;
            let size = scope(codes.get(index..).ok_or(UnwindError::Bad)?)? + 1;
            return Ok(Record { length, epilogs: vec![(length.saturating_sub(size), index)], codes });
        }
        let scopes = memory.bytes(at.saturating_add(head.size), head.scopes() as usize * 4)?;
        let scopes = scopes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let epilogs = scopes.map(|word| (word & EPILOG_START, (word >> EPILOG_INDEX_SHIFT) as usize)).collect();
        Ok(Record { length, epilogs, codes })
    }

    /// The codes that are to be undone at instruction `offset`: all those of the prolog, or what of it was done, or
    /// what of an epilog was not.
    fn codes_at(&self, offset: u64) -> Result<&[u8], UnwindError> {
        let skipped = |codes: &[u8], count: u64| {
            let mut at = 0;
            for _ in 0..count {
                match codes.get(at..).and_then(operation) {
                    Some((Operation::End, _)) | None => break,
                    Some((_, size)) => at += size,
                }
            }
            at
        };
        let prolog = u64::from(scope(&self.codes)?);
        if offset < prolog {
            return Ok(self.codes.get(skipped(&self.codes, prolog - offset)..).unwrap_or_default());
        }
        // They are in order and do not overlap.
        let before = self.epilogs.partition_point(|(start, _)| u64::from(*start) <= offset);
        let Some(&(start, index)) = before.checked_sub(1).and_then(|last| self.epilogs.get(last)) else {
            return Ok(&self.codes);
        };
        let (done, codes) = (offset.saturating_sub(u64::from(start)), self.codes.get(index..).ok_or(UnwindError::Bad)?);
        // Its return is no code.
        if done > u64::from(scope(codes)?) {
            return Ok(&self.codes);
        }
        Ok(codes.get(skipped(codes, done)..).unwrap_or_default())
    }
}

/// What an instruction of a prolog did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Moved the stack pointer down by so much.
    Alloc(u64),
    /// Saved registers.
    Save {
        /// The first two of them, by DWARF number; those of floating point count for what they take alone.
        first: u16,
        second: Option<u16>,
        /// From the stack pointer.
        at: u64,
        /// How far it moved that down first.
        down: u64,
    },
    /// The frame pointer is so much above the stack pointer.
    SetFrame(u64),
    /// One more pair is saved behind the next one that is told.
    SaveNext,
    /// Signed the return address.
    Sign,
    Nothing,
    /// The end of a prolog or epilog.
    End,
    /// The end of a prolog that another part of the function has.
    EndOfPart,
}

/// A number that is no register here: one of floating point.
const NONE: u16 = u16::MAX;

/// The first operation of `codes` with its bytes; `None` where it is cut off or not known.
fn operation(codes: &[u8]) -> Option<(Operation, usize)> {
    let first = *codes.first()?;
    let second = codes.get(1).copied();
    let word = second.map(|second| u16::from_be_bytes([first, second]));
    let pair = |first, at, down| Operation::Save { first, second: Some(first + 1), at, down };
    let one = |first, at, down| Operation::Save { first, second: None, at, down };
    let floats = |at, down| Operation::Save { first: NONE, second: None, at, down };
    // Register and distance of the forms with two bytes; stored with writeback, one more.
    let saved = |word: u16, bits: u16| FIRST_SAVED + (word >> bits & 0xf);
    let at = |word: u16| u64::from(word & 0x3f) * 8;
    let down = |word: u16| at(word) + 8;
    Some(match first {
        0x00..=0x1f => (Operation::Alloc(u64::from(first & 0x1f) * 16), 1),
        0x20..=0x3f => (pair(FIRST_SAVED, 0, u64::from(first & 0x1f) * 8), 1),
        0x40..=0x7f => (pair(FP, u64::from(first & 0x3f) * 8, 0), 1),
        0x80..=0xbf => (pair(FP, 0, u64::from(first & 0x3f) * 8 + 8), 1),
        0xc0..=0xc7 => (Operation::Alloc(u64::from(word? & 0x7ff) * 16), 2),
        0xc8..=0xcb => (pair(saved(word?, 6), at(word?), 0), 2),
        0xcc..=0xcf => (pair(saved(word?, 6), 0, down(word?)), 2),
        0xd0..=0xd3 => (one(saved(word?, 6), at(word?), 0), 2),
        0xd4..=0xd5 => (one(saved(word?, 5), 0, u64::from(word? & 0x1f) * 8 + 8), 2),
        0xd6..=0xd7 => {
            let first = FIRST_SAVED + 2 * (word? >> 6 & 7);
            (Operation::Save { first, second: Some(LR), at: at(word?), down: 0 }, 2)
        }
        0xd8..=0xd9 | 0xdc..=0xdd => (floats(at(word?), 0), 2),
        0xda..=0xdb => (floats(0, down(word?)), 2),
        0xde => (floats(0, u64::from(word? & 0x1f) * 8 + 8), 2),
        0xe0 => {
            let [high, middle, low] = *codes.get(1..4)? else { return None };
            (Operation::Alloc(u64::from(u32::from_be_bytes([0, high, middle, low])) * 16), 4)
        }
        0xe1 => (Operation::SetFrame(0), 1),
        0xe2 => (Operation::SetFrame(u64::from(second?) * 8), 2),
        0xe3 => (Operation::Nothing, 1),
        0xe4 => (Operation::End, 1),
        0xe5 => (Operation::EndOfPart, 1),
        0xe6 => (Operation::SaveNext, 1),
        0xe7 => (any_register(second?, *codes.get(2)?)?, 3),
        // The kind of stack frame that was called into was one of a call.
        0xec => (Operation::Nothing, 1),
        0xfc => (Operation::Sign, 1),
        _ => return None,
    })
}

/// save_any_reg: 0pxrrrrr, ssoooooo. p: a pair; x: the stack pointer moved first; s: x, d or q registers.
fn any_register(which: u8, how: u8) -> Option<Operation> {
    let (paired, moved, register) = (which & 0x40 != 0, which & 0x20 != 0, u16::from(which & 0x1f));
    let (kind, distance) = (how >> 6, u64::from(how & 0x3f));
    if which & 0x80 != 0 || kind > 2 || register > LR {
        return None;
    }
    let (at, down) = match moved {
        true => (0, (distance + 1) * 16),
        false => (distance * if paired || kind == 2 { 16 } else { 8 }, 0),
    };
    Some(match kind {
        0 => Operation::Save { first: register, second: paired.then_some(register + 1), at, down },
        _ => Operation::Save { first: NONE, second: None, at, down },
    })
}

/// Operations up to the end: the instructions of a prolog, or of an epilog before its return.
fn scope(codes: &[u8]) -> Result<u32, UnwindError> {
    let (mut at, mut count) = (0, 0);
    while at < codes.len() {
        match codes.get(at..).and_then(operation).ok_or(UnwindError::Bad)? {
            (Operation::End | Operation::EndOfPart, _) => break,
            (_, size) => (at, count) = (at + size, count + 1),
        }
    }
    Ok(count)
}

/// Bytes of a function.
///
/// # Errors
/// Where its unwind data can't be read.
pub(super) fn function_length(memory: &dyn Memory, base: Addr, data: u32) -> Result<u32, Fault> {
    let length = match data & KIND {
        0 => memory.u32(base.saturating_add(u64::from(data)))? & header::LENGTH,
        _ => packed::length(data),
    };
    Ok(length * INSTRUCTION as u32)
}

pub(super) fn behind(memory: &dyn Memory, entry: &UnwindEntry) -> Result<Addr, UnwindError> {
    if entry.data & KIND != 0 {
        return Err(UnwindError::Bad);
    }
    let at = entry.base.saturating_add(u64::from(entry.data));
    let head = Head::read(memory, at)?;
    Ok(at.saturating_add(head.codes_at() + 4 * u64::from(head.code_words) + PERSONALITY))
}

pub(super) fn unwind(memory: &dyn Memory, entry: &UnwindEntry, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
    let record = Record::read(memory, entry.base, entry.data)?;
    // A return address may be the first byte after its function; the call before it was done.
    let at = if exact { regs.ip() } else { regs.ip().saturating_sub(INSTRUCTION) };
    let offset = at.since(entry.begin.min(at)) / INSTRUCTION;
    let mut machine = Machine { memory, regs: regs.clone(), nexts: 0 };
    let mut codes = record.codes_at(offset)?;
    while !codes.is_empty() {
        let (operation, size) = operation(codes).ok_or(UnwindError::Bad)?;
        if operation == Operation::End {
            break;
        }
        machine.undo(operation)?;
        codes = codes.get(size..).unwrap_or_default();
    }
    let back = machine.regs.get(LR).ok_or(UnwindError::Bad)?;
    machine.regs.set_ip(back);
    SCRATCH.for_each(|number| machine.regs.set(number, None));
    Ok(machine.regs)
}

/// A frame on its way to its caller's.
struct Machine<'m> {
    memory: &'m dyn Memory,
    regs: Regs,
    /// Pairs that were saved behind the one that is told next.
    nexts: u16,
}

impl Machine<'_> {
    fn undo(&mut self, operation: Operation) -> Result<(), UnwindError> {
        match operation {
            Operation::Alloc(size) => self.move_up(size)?,
            Operation::SetFrame(distance) => {
                let fp = self.regs.fp().ok_or(UnwindError::Bad)?;
                self.regs.set_sp(fp.checked_sub(distance).ok_or(UnwindError::Bad)?);
            }
            Operation::Save { first, second, at, down } => {
                let nexts = std::mem::take(&mut self.nexts);
                let mut registers: Vec<u16> = [Some(first), second].into_iter().flatten().collect();
                // A pair's followers are numbered on; those of (x, lr) are none.
                if second == first.checked_add(1) {
                    registers.extend((0..2 * nexts).map(|i| first + 2 + i));
                }
                let place = self.regs.sp().checked_add(at).ok_or(UnwindError::Bad)?;
                for (i, number) in registers.into_iter().enumerate().filter(|(_, number)| *number <= LR) {
                    let value = self.memory.u64(place.saturating_add(8 * i as u64))?;
                    self.regs.set(number, Some(value));
                }
                self.move_up(down)?;
            }
            Operation::SaveNext => {
                self.nexts = self.nexts.checked_add(1).filter(|n| *n < LR).ok_or(UnwindError::Bad)?
            }
            Operation::Sign => {
                let link = self.regs.get(LR).map(without_signature);
                self.regs.set(LR, link);
            }
            Operation::Nothing | Operation::EndOfPart | Operation::End => {}
        }
        Ok(())
    }

    fn move_up(&mut self, size: u64) -> Result<(), UnwindError> {
        self.regs.set_sp(self.regs.sp().checked_add(size).ok_or(UnwindError::Bad)?);
        Ok(())
    }
}

#[cfg(test)]
#[path = "arm64_tests.rs"]
mod tests;
