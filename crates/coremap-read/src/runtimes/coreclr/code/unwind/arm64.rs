//! Unwind data of arm64.
//!
//! An .xdata record has a header, the positions of epilogs, and codes. Each code is one instruction of a prolog, last
//! one first. For simple functions everything is packed into the RUNTIME_FUNCTION (`packed`).
//!
//! Sources: Microsoft, "ARM64 exception handling" (.xdata records, unwind codes, packed unwind data). For what the JIT
//! writes: src/coreclr/jit/unwindarmarch.cpp and unwindarm64.cpp.

mod packed;

use crate::addr::Addr;
use crate::memory::{Fault, Memory};
use crate::registers::Regs;
use crate::runtimes::coreclr::code::unwind::{UnwindEntry, UnwindError};

/// DWARF numbers, which are the processor's register numbers.
const FP: u16 = 29;
pub(super) const LR: u16 = 30;
/// First callee-saved register, number 0 in codes.
const FIRST_SAVED: u16 = 19;
/// x0 to x18: the caller's values are lost.
const SCRATCH: std::ops::RangeInclusive<u16> = 0..=18;

/// Bytes of an instruction.
const INSTRUCTION: u64 = 4;

/// Mask for the kind of UnwindData. 0: an RVA.
const KIND: u32 = 3;

/// Bits of the first word of an .xdata record.
mod header {
    /// Function length in instructions.
    pub(super) const LENGTH: u32 = 0x3_ffff;
    pub(super) const VERSION_SHIFT: u32 = 18;
    pub(super) const VERSION: u32 = 3;
    /// A single epilog at the function's end. The epilog count then is the index of its first code.
    pub(super) const ONE_EPILOG: u32 = 1 << 21;
    pub(super) const EPILOGS_SHIFT: u32 = 22;
    pub(super) const CODE_WORDS_SHIFT: u32 = 27;
    pub(super) const COUNT: u32 = 0x1f;
    /// Fields of the second word, which is present if both counts in the first are 0.
    pub(super) const LONG_EPILOGS: u32 = 0xffff;
    pub(super) const LONG_CODE_WORDS_SHIFT: u32 = 16;
    pub(super) const LONG_CODE_WORDS: u32 = 0xff;
}

/// Word of an epilog: its start, in instructions, and the index of its first code.
const EPILOG_START: u32 = 0x3_ffff;
const EPILOG_INDEX_SHIFT: u32 = 22;

/// Bytes of the personality routine's RVA.
const PERSONALITY: u64 = 4;

/// An .xdata record, or the equivalent of packed data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Number of instructions.
    length: u32,
    /// Start of each epilog, in instructions, and the index of its first code.
    epilogs: Vec<(u32, usize)>,
    codes: Vec<u8>,
}

/// Numbers in the header of an .xdata record.
struct Head {
    first: u32,
    epilogs: u32,
    code_words: u32,
    /// Size of the header in bytes.
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

    /// Number of epilog words.
    fn scopes(&self) -> u32 {
        if self.one_epilog() { 0 } else { self.epilogs }
    }

    /// Offset of the codes in the record.
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

    /// Codes to undo at instruction `offset`: the whole prolog, the part of it that has run, or the part of an epilog
    /// that has not run.
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
        // Epilogs are in order and do not overlap.
        let before = self.epilogs.partition_point(|(start, _)| u64::from(*start) <= offset);
        let Some(&(start, index)) = before.checked_sub(1).and_then(|last| self.epilogs.get(last)) else {
            return Ok(&self.codes);
        };
        let (done, codes) = (offset.saturating_sub(u64::from(start)), self.codes.get(index..).ok_or(UnwindError::Bad)?);
        // An epilog's return has no code.
        if done > u64::from(scope(codes)?) {
            return Ok(&self.codes);
        }
        Ok(codes.get(skipped(codes, done)..).unwrap_or_default())
    }
}

/// Effect of an instruction in a prolog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Moved the stack pointer down by this many bytes.
    Alloc(u64),
    /// Saved registers.
    Save {
        /// DWARF numbers of the first one or two registers. Floating-point registers only count for their space.
        first: u16,
        second: Option<u16>,
        /// Offset from the stack pointer, in bytes.
        at: u64,
        /// Bytes by which the stack pointer was moved down first.
        down: u64,
    },
    /// Set the frame pointer this many bytes above the stack pointer.
    SetFrame(u64),
    /// Saves one more pair after the pair of the next code.
    SaveNext,
    /// Signed the return address.
    Sign,
    Nothing,
    /// The end of a prolog or epilog.
    End,
    /// The end of a prolog that is in another part of the function.
    EndOfPart,
}

/// Placeholder number for a floating-point register.
const NONE: u16 = u16::MAX;

/// The first operation of `codes` and its size in bytes. `None` if it is truncated or unknown.
fn operation(codes: &[u8]) -> Option<(Operation, usize)> {
    let first = *codes.first()?;
    let second = codes.get(1).copied();
    let word = second.map(|second| u16::from_be_bytes([first, second]));
    let pair = |first, at, down| Operation::Save { first, second: Some(first + 1), at, down };
    let one = |first, at, down| Operation::Save { first, second: None, at, down };
    let floats = |at, down| Operation::Save { first: NONE, second: None, at, down };
    // Register and offset in two-byte codes. With writeback the size is stored minus one.
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
        // clear_unwound_to_call: no effect on registers.
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

/// Number of operations up to the end code: instructions of a prolog, or of an epilog before its return.
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

/// Size of a function in bytes.
///
/// # Errors
/// If its unwind data can't be read.
pub(super) fn function_length(memory: &dyn Memory, base: Addr, data: u32) -> Result<u32, Fault> {
    let length = match data & KIND {
        0 => memory.u32(base.saturating_add(u64::from(data)))? & header::LENGTH,
        _ => packed::length(data),
    };
    Ok(length * INSTRUCTION as u32)
}

pub(super) fn gc_info_address(memory: &dyn Memory, entry: &UnwindEntry) -> Result<Addr, UnwindError> {
    if entry.data & KIND != 0 {
        return Err(UnwindError::Bad);
    }
    let at = entry.base.saturating_add(u64::from(entry.data));
    let head = Head::read(memory, at)?;
    Ok(at.saturating_add(head.codes_at() + 4 * u64::from(head.code_words) + PERSONALITY))
}

pub(super) fn unwind(memory: &dyn Memory, entry: &UnwindEntry, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
    let record = Record::read(memory, entry.base, entry.data)?;
    // A return address may be just past the end of the function, so use the call before it.
    let at = if exact { regs.ip() } else { regs.ip().saturating_sub(INSTRUCTION) };
    let offset = at.since(entry.begin.min(at)) / INSTRUCTION;
    let mut machine = Machine { memory, regs: regs.clone(), following_pairs: 0 };
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

/// Registers of a frame while it is being unwound.
struct Machine<'m> {
    memory: &'m dyn Memory,
    regs: Regs,
    /// Number of pairs saved after the pair of the next code.
    following_pairs: u16,
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
                let following_pairs = std::mem::take(&mut self.following_pairs);
                let mut registers: Vec<u16> = [Some(first), second].into_iter().flatten().collect();
                // Pairs that follow a pair have consecutive numbers. None follow (x, lr).
                if second == first.checked_add(1) {
                    registers.extend((0..2 * following_pairs).map(|i| first + 2 + i));
                }
                let addr = self.regs.sp().checked_add(at).ok_or(UnwindError::Bad)?;
                for (i, number) in registers.into_iter().enumerate().filter(|(_, number)| *number <= LR) {
                    let value = self.memory.u64(addr.saturating_add(8 * i as u64))?;
                    self.regs.set(number, Some(value));
                }
                self.move_up(down)?;
            }
            Operation::SaveNext => {
                self.following_pairs =
                    self.following_pairs.checked_add(1).filter(|n| *n < LR).ok_or(UnwindError::Bad)?
            }
            Operation::Sign => {
                let link = self.regs.get(LR).map(|link| self.regs.without_signature(link));
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
