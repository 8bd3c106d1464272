//! Locks that a function took before its present call, by its x86_64 code.
//!
//! Rust's locks, readers and semaphores record no owner. The code of a function on a stack, from its start to the
//! return address, shows which locks it took and has not released: an inlined lock is `lock cmpxchg`, an inlined unlock
//! `xchg`; others are calls of functions of a library, after the lock's address was computed. The code is taken in the
//! order of addresses, so this is no proof.

use std::cell::Cell;

use crate::addr::Addr;
use crate::bytes;
use crate::memory::Memory;
use crate::registers::Regs;

/// A frame of a function of the program's own.
#[derive(Clone, Debug)]
pub struct CodeFrame {
    /// Name of the function.
    pub name: String,
    /// Start of the function.
    pub start: Addr,
    /// Return address, or the address at which the frame was interrupted.
    pub ip: Addr,
    /// Words of the frame, and the registers of the thread: addresses that the code can use.
    pub words: Vec<u64>,
    /// Registers of the frame that calls preserve, by number in instructions. `None` if the value is not known.
    pub kept: [Option<u64>; 16],
}

/// DWARF numbers of the registers that calls preserve, by their numbers in instructions (System V ABI): rbx, rbp, r12
/// to r15.
const KEPT: [(usize, u16); 6] = [(3, 3), (5, 6), (12, 12), (13, 13), (14, 14), (15, 15)];

/// The registers of a frame that calls preserve.
pub fn kept(regs: &Regs) -> [Option<u64>; 16] {
    let mut out = [None; 16];
    for (number, dwarf) in KEPT {
        if let Some(place) = out.get_mut(number) {
            *place = regs.get(dwarf);
        }
    }
    out
}

/// Longest code of a function that is read, in bytes.
const LONGEST: u64 = 64 << 10;

/// Code at the end of a function to which a lock's slow path is moved, in bytes.
const SLOW_PATH: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Take,
    Give,
    /// Computes the lock's address.
    Name,
}

/// Returns the function that took the lock at `lock` and has not released it. `left`: bytes of code that may still be
/// read; 0 if the answer is incomplete. `name_of` names the function at an
/// address, or the one that a stub there jumps to.
pub fn held_by_code<'f>(
    memory: &dyn Memory,
    lock: Addr,
    frames: &'f [CodeFrame],
    left: &Cell<u64>,
    name_of: &dyn Fn(Addr) -> Option<String>,
) -> Option<&'f str> {
    let spend = |frame: &CodeFrame| {
        let len = frame.ip.checked_since(frame.start).unwrap_or(0);
        let have = left.get();
        left.set(have.saturating_sub(len));
        have > len
    };
    if !frames.iter().all(spend) {
        return None;
    }
    let holds = |frame: &&CodeFrame| last_event(memory, lock, frame, name_of) == Some(Event::Take);
    frames.iter().find(holds).map(|frame| &*frame.name)
}

/// The last thing that the function did with the lock before its present call.
fn last_event(
    memory: &dyn Memory,
    lock: Addr,
    frame: &CodeFrame,
    name_of: &dyn Fn(Addr) -> Option<String>,
) -> Option<Event> {
    let len = frame.ip.checked_since(frame.start).filter(|len| *len <= LONGEST)?;
    let code = memory.bytes(frame.start, usize::try_from(len).ok()?).ok()?;
    let code = before_slow_path(&code);
    let mut named = None;
    let mut swaps = 0u32;
    let mut events: Vec<(usize, Event)> = Vec::new();
    for (at, event, operand) in operands(code) {
        let is_lock = match operand {
            Place::Relative(distance) => frame.start.wrapping_offset(distance) == lock,
            Place::Register(base, displacement) => {
                event != Event::Name && frame.may_be(base, lock.wrapping_offset(-displacement).get())
            }
        };
        if !is_lock {
            continue;
        }
        match event {
            Event::Name => named = named.or(Some(at)),
            Event::Take => {
                // An unlock that must look for parked threads has the same form as a lock.
                swaps = swaps.wrapping_add(1);
                events.push((at, if swaps % 2 == 1 { Event::Take } else { Event::Give }));
            }
            Event::Give => {
                swaps = 0;
                events.push((at, Event::Give));
            }
        }
    }
    if let Some(named) = named {
        let calls = calls(memory, frame.start, code).into_iter().filter(|(at, _)| *at > named);
        events.extend(calls.filter_map(|(at, target)| Some((at, of_function(&name_of(target)?)?))));
    }
    events.into_iter().max_by_key(|(at, _)| *at).map(|(_, event)| event)
}

impl CodeFrame {
    /// Whether a register may have had `value` at an earlier instruction of the function. A register that calls
    /// preserve mostly still has it. Any other was loaded from a word of the frame or from a register.
    fn may_be(&self, base: u8, value: u64) -> bool {
        match self.kept.get(usize::from(base)).copied().flatten() {
            Some(kept) => kept == value,
            None => self.words.contains(&value),
        }
    }
}

/// What a function does with a lock.
fn of_function(name: &str) -> Option<Event> {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    if ["unlock", "destroy", "sem_post"].iter().any(|part| name.contains(part)) {
        return Some(Event::Give);
    }
    let takes = ["rdlock", "wrlock", "mutex_lock", "trylock", "timedlock", "clocklock", "spin_lock", "lock_contended"];
    let last = name.rsplit("::").next().unwrap_or(name);
    let is_take = takes.iter().any(|end| name.ends_with(end)) || ["lock", "lock_shared"].contains(&last);
    (is_take || name.contains("sem_wait")).then_some(Event::Take)
}

/// The code that ran before a call at the end of `code`.
///
/// Compilers move the slow path of a lock to the end of the function. What ran before it is the code before the jump
/// to there.
fn before_slow_path(code: &[u8]) -> &[u8] {
    let end = code.len();
    let target = |at: usize| -> Option<(usize, usize)> {
        let byte = |i| code.get(at.checked_add(i)?).copied();
        let (width, distance) = match byte(0)? {
            0x70..=0x7f | 0xeb => (2, i64::from(byte(1)? as i8)),
            0xe9 => (5, i64::from(bytes::i32_at(code, at.checked_add(1)?)?)),
            0x0f if (0x80..=0x8f).contains(&byte(1)?) => (6, i64::from(bytes::i32_at(code, at.checked_add(2)?)?)),
            _ => return None,
        };
        let next = at.checked_add(width)?;
        Some((usize::try_from(i64::try_from(next).ok()?.checked_add(distance)?).ok()?, next))
    };
    let slow = end.saturating_sub(SLOW_PATH)..end.saturating_sub(4);
    let jumps = (0..end).filter_map(target).filter(|(to, from)| slow.contains(to) && from.saturating_add(24) < *to);
    let last = jumps.max().map_or(end, |(_, from)| from);
    code.get(..last).unwrap_or(code)
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Bytes from the start of the function.
    Relative(i64),
    /// A register by its number in instructions, and the displacement from its value.
    Register(u8, i64),
}

/// Memory operands of `lock cmpxchg`, `xchg` and `lea`, with their positions in the code.
fn operands(code: &[u8]) -> impl Iterator<Item = (usize, Event, Place)> + '_ {
    (0..code.len()).filter_map(move |at| {
        let rest = code.get(at..)?;
        let is_rex = |byte: &u8| (0x40..=0x4f).contains(byte);
        let (event, skip) = match rest {
            [0xf0, 0x0f, 0xb0 | 0xb1, ..] => (Event::Take, 3),
            [0xf0, rex, 0x0f, 0xb0 | 0xb1, ..] if is_rex(rex) => (Event::Take, 4),
            [0x86 | 0x87, ..] => (Event::Give, 1),
            [0x48..=0x4f, 0x8d, ..] => (Event::Name, 2),
            _ => return None,
        };
        let modrm_at = at.checked_add(skip)?;
        let modrm = *code.get(modrm_at)?;
        let (mode, low) = (modrm >> 6, modrm & 7);
        // The REX prefix is before the opcode. The opcode of `xchg` is the first byte of `rest`.
        let rex = match event {
            Event::Give => at.checked_sub(1).and_then(|before| code.get(before)),
            Event::Take => rest.get(1),
            Event::Name => rest.first(),
        };
        let high = rex.filter(|byte| is_rex(byte)).map_or(0, |byte| (byte & 1) << 3);
        let base = if low == 4 { *code.get(modrm_at.checked_add(1)?)? & 7 } else { low } | high;
        let after = modrm_at.checked_add(if low == 4 { 2 } else { 1 })?;
        let place = match (mode, low) {
            (3, _) => return None,
            (0, 5) => {
                let next = i64::try_from(modrm_at.checked_add(5)?).ok()?;
                Place::Relative(next.checked_add(i64::from(bytes::i32_at(code, modrm_at.checked_add(1)?)?))?)
            }
            (1, _) => Place::Register(base, i64::from(*code.get(after)? as i8)),
            (2, _) => Place::Register(base, i64::from(bytes::i32_at(code, after)?)),
            _ => Place::Register(base, 0),
        };
        Some((modrm_at, event, place))
    })
}

/// Direct calls, and calls through a slot of the global offset table, with their targets.
fn calls(memory: &dyn Memory, start: Addr, code: &[u8]) -> Vec<(usize, Addr)> {
    let call = |at: usize| {
        let rest = code.get(at..)?;
        let (skip, through_slot) = match rest {
            [0xe8, ..] => (1, false),
            [0xff, 0x15, ..] => (2, true),
            _ => return None,
        };
        let next = at.checked_add(skip)?.checked_add(4)?;
        let distance = i64::from(bytes::i32_at(code, at.checked_add(skip)?)?);
        let target = start.wrapping_offset(i64::try_from(next).ok()?.checked_add(distance)?);
        let target = if through_slot { memory.peek_u64(target).ok().map(Addr::new)? } else { target };
        Some((at, target))
    };
    (0..code.len()).filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_take_and_give_locks() {
        let take =
            ["pthread_mutex_lock@plt", "pthread_rwlock_rdlock", "std::sys::sync::mutex::futex::Mutex::lock_contended"];
        assert!(take.iter().all(|name| of_function(name) == Some(Event::Take)));
        let give = ["pthread_mutex_unlock@plt", "pthread_mutex_destroy", "std::mutex::unlock()"];
        assert!(give.iter().all(|name| of_function(name) == Some(Event::Give)));
        assert!(["pthread_mutex_init", "malloc", "block_signals"].iter().all(|name| of_function(name).is_none()));
    }

    // By GNU as 2.40, from address 0: lock cmpxchg [rip+0x100], ecx; xchg [rbx+8], eax; lea rdi, [rip+0x200].
    #[test]
    fn operands_of_locks() {
        let code = [0xf0, 0x0f, 0xb1, 0x0d, 0, 1, 0, 0, 0x87, 0x43, 8, 0x48, 0x8d, 0x3d, 0, 2, 0, 0];
        let found: Vec<_> = operands(&code).map(|(_, event, place)| (event, place)).collect();
        assert!(found.contains(&(Event::Take, Place::Relative(0x108))));
        assert!(found.contains(&(Event::Give, Place::Register(3, 8))));
        assert!(found.contains(&(Event::Name, Place::Relative(0x212))));
        for cut in 0..code.len() {
            operands(&code[..cut]).for_each(drop);
            before_slow_path(&code[..cut]);
        }
    }

    // By GNU as 2.40: lock cmpxchg [rdi+0x20], ecx; lock cmpxchg [r14], ecx; xchg [r12], eax. The function of a program
    // of rustc 1.95 has two locks, at r14 and 32 bytes on, and waits for the one at r14.
    #[test]
    fn a_register_that_calls_preserve_distinguishes_two_locks() {
        let code = [0xf0, 0x0f, 0xb1, 0x4f, 0x20, 0xf0, 0x41, 0x0f, 0xb1, 0x0e, 0x41, 0x87, 0x04, 0x24];
        let found: Vec<_> = operands(&code).map(|(_, event, place)| (event, place)).collect();
        assert_eq!(
            found,
            [
                (Event::Take, Place::Register(7, 0x20)),
                (Event::Take, Place::Register(14, 0)),
                (Event::Give, Place::Register(12, 0))
            ]
        );
        let mut kept = [None; 16];
        kept[14] = Some(0x1000);
        let frame = CodeFrame {
            name: "compact".into(),
            start: Addr::new(0),
            ip: Addr::new(0),
            words: vec![0x1000, 0x1020],
            kept,
        };
        // The first is the lock at 0x1020, because a word of the frame is 32 bytes lower; the second is not.
        assert!(frame.may_be(7, 0x1000) && !frame.may_be(14, 0x1020) && frame.may_be(14, 0x1000));
    }
}
