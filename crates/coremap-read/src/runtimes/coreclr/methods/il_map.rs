//! The JIT's debug info: maps native offsets of a method to IL offsets.
//!
//! Numbers are stored in nibbles of three bits, highest first; bit 3 says that more follow. The low nibble of a byte
//! comes first. From .NET 6 on, a byte of flags precedes the data of jitted code, followed by what the flags announce.
//! Sources: src/coreclr/vm/debuginfostore.cpp (CompressDebugInfo), inc/nibblestream.h.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::coreclr::runtime::Runtime;
use crate::sums::SaturatingSum;

/// EXTRA_DEBUG_INFO_PATCHPOINT and EXTRA_DEBUG_INFO_RICH.
const PATCHPOINT: u8 = 1;
const RICH: u8 = 2;

/// ICorDebugInfo::MAX_MAPPING_VALUE. It is subtracted from IL offsets before they are stored.
const LOWEST: i64 = -3;

/// Maximum bytes of the two lengths (NibbleReader of RestoreBoundsAndVars).
const LENGTHS: usize = 12;

/// Number of sizes in a complete header (docs/design/datacontracts/DebugInfo.md), the maximum bytes they take, and the
/// bits of source flags in a step. The sizes are those of Bounds, Vars, UninstrumentedBounds, PatchpointInfo,
/// RichDebugInfo and AsyncInfo, which follow in this order.
const FAT_SIZES: usize = 6;
const FAT_LENGTHS: usize = 48;
const SOURCE_BITS: u32 = 3;

/// A step of the map: code from this native offset on belongs to this IL offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IlStep {
    /// Offset from the method's start, in bytes.
    pub native: u32,
    /// IL offset in bytes; -1 no mapping, -2 prolog, -3 epilog (ICorDebugInfo::MappingTypes).
    pub il: i64,
    /// Flags of the source (ICorDebugInfo::SourceTypes), as far as the format has them.
    pub source: u8,
}

/// Reads the map at `debug_info`. `jitted`: it belongs to jitted code, not to an image.
pub(super) fn read(memory: &dyn Memory, runtime: &Runtime, debug_info: Addr, jitted: bool) -> Option<Vec<IlStep>> {
    if debug_info.is_null() {
        return None;
    }
    let layout = &runtime.layout;
    // After .NET 10, where the contract has a version, all sizes come first. Another version has another form.
    if let Some(version) = layout.contract("DebugInfo") {
        if version != "c1" {
            return None;
        }
        let ([bounds, ..], start) = fat_header(memory, debug_info)?;
        return packed::decode(&bounds_at(memory, start, bounds)?, SOURCE_BITS);
    }
    let mut at = debug_info;
    // The byte of flags was introduced with on-stack replacement, and so was the layout's entry.
    if let (true, Ok(size)) = (jitted, layout.size("PatchpointInfo")) {
        let flags = *memory.bytes(at, 1).ok()?.first()?;
        at = at.saturating_add(1);
        if flags & PATCHPOINT != 0 {
            let locals =
                memory.u32(at.saturating_add(layout.positive("PatchpointInfo", "NumberOfLocals").ok()?)).ok()?;
            at = at.saturating_add(size + u64::from(locals.min(limits::MAX_IL_MAP)) * 4);
        }
        if flags & RICH != 0 {
            let len = memory.u32(at).ok()?;
            at = at.saturating_add(4 + u64::from(len));
        }
    }
    let head = memory.look(at, memory.readable(at, LENGTHS as u64) as usize).ok()?;
    let mut lengths = Nibbles { bytes: &head, at: 0 };
    let (bounds, _vars) = (lengths.number()?, lengths.number()?);
    let start = end_of_numbers(memory, at, &lengths);
    let bytes = bounds_at(memory, start, bounds)?;
    match layout.constant("DebugInfo", "source_type_bits") {
        Ok(bits) => packed::decode(&bytes, bits.min(8) as u32),
        Err(_) => decode(&bytes),
    }
}

/// Address after the numbers that begin at `at`. Records only these as structure: the debug info of dynamic methods is
/// in malloc blocks (dynamicmethod.cpp, ChunkAllocator), so what follows may belong to others.
fn end_of_numbers(memory: &dyn Memory, at: Addr, numbers: &Nibbles<'_>) -> Addr {
    let len = numbers.at.div_ceil(2) as u64;
    memory.keep(at, len);
    at.saturating_add(len)
}

fn bounds_at(memory: &dyn Memory, start: Addr, len: u32) -> Option<Vec<u8>> {
    let len = len.min(limits::MAX_IL_MAP);
    // Recorded because packed numbers may look like text.
    memory.keep(start, u64::from(len));
    memory.bytes(start, len as usize).ok()
}

/// Sizes of the parts, and the address of the first. If the first number is 0, all sizes follow; otherwise it is the
/// size of the bounds, and that of the variables follows.
fn fat_header(memory: &dyn Memory, at: Addr) -> Option<([u32; FAT_SIZES], Addr)> {
    let head = memory.look(at, memory.readable(at, FAT_LENGTHS as u64) as usize).ok()?;
    let mut numbers = Nibbles { bytes: &head, at: 0 };
    let mut sizes = [0; FAT_SIZES];
    let first = numbers.number()?;
    let given = if first == 0 { FAT_SIZES } else { 2 };
    for (i, size) in sizes.iter_mut().enumerate().take(given) {
        *size = if i == 0 && first != 0 { first } else { numbers.number()? };
    }
    Some((sizes, end_of_numbers(memory, at, &numbers)))
}

/// The variables that a method keeps while it is suspended at the await with this native offset: number and offset in
/// its continuation, in bytes from the object's start. `None` before .NET 11, or if the method has no such part.
///
/// AsyncInfo: number of awaits, number of variables; for each await the native offset from the one before, with its
/// sign in bit 0, and how many variables it keeps; then all variables (debuginfostore.cpp, CompressDebugInfo).
pub(super) fn kept_at(memory: &dyn Memory, runtime: &Runtime, debug_info: Addr, native: u64) -> Option<Vec<KeptVar>> {
    if debug_info.is_null() || runtime.layout.contract("DebugInfo") != Some("c1") {
        return None;
    }
    let (sizes, start) = fat_header(memory, debug_info)?;
    let (info, before) = sizes.split_last()?;
    let before: u64 = before.iter().map(|size| u64::from(*size)).saturating_sum();
    decode_kept(&bounds_at(memory, start.checked_add(before)?, *info)?, native)
}

/// A variable in a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptVar {
    /// Arguments first, with `this`, then IL locals. Below 0: the runtime's own (ICorDebugInfo::ILNUM).
    pub(super) number: i64,
    /// From the start of the object, in bytes.
    pub(super) offset: u32,
}

/// ICorDebugInfo::MAX_ILNUM, which is subtracted from numbers of variables before they are stored.
const LOWEST_VAR: i64 = -6;

fn decode_kept(bytes: &[u8], native: u64) -> Option<Vec<KeptVar>> {
    let mut numbers = Nibbles { bytes, at: 0 };
    let (awaits, vars) = (numbers.number()?.min(limits::MAX_IL_MAP), numbers.number()?.min(limits::MAX_IL_MAP));
    let (mut at, mut first, mut own) = (0_i64, 0_u32, None);
    for _ in 0..awaits {
        let delta = numbers.number()?;
        let distance = i64::from(delta >> 1);
        at += if delta & 1 == 0 { distance } else { -distance };
        let count = numbers.number()?;
        if u64::try_from(at) == Ok(native) {
            own = own.or(Some((first, count)));
        }
        first = first.saturating_add(count);
    }
    let (first, count) = own?;
    let mut out = Vec::new();
    for i in 0..vars.min(first.saturating_add(count)) {
        let (number, offset) = (i64::from(numbers.number()?) + LOWEST_VAR, numbers.number()?);
        if i >= first {
            out.push(KeptVar { number, offset });
        }
    }
    Some(out)
}

/// The format from .NET 10 on: the count, two widths, then entries of equal width, lowest bits first: source flags,
/// native offset from the previous entry, IL offset.
///
/// docs/design/datacontracts/DebugInfo.md, "Bounds Entry Encoding".
mod packed {
    use super::{IlStep, LOWEST, Nibbles, special};
    use crate::limits;

    pub(super) fn decode(bytes: &[u8], source_bits: u32) -> Option<Vec<IlStep>> {
        let mut numbers = Nibbles { bytes, at: 0 };
        let count = numbers.number()?.min(limits::MAX_IL_MAP);
        let (native_bits, il_bits) = (numbers.number()?.checked_add(1)?, numbers.number()?.checked_add(1)?);
        if native_bits > 32 || il_bits > 32 || source_bits > 8 {
            return None;
        }
        let data = bytes.get(numbers.at.div_ceil(2)..)?;
        let mut bits = Bits { data, at: 0 };
        let mut steps = Vec::new();
        let mut native = 0u32;
        for _ in 0..count {
            let Some(source) = bits.take(source_bits) else { break };
            let (Some(delta), Some(il)) = (bits.take(native_bits), bits.take(il_bits)) else { break };
            native = native.saturating_add(delta as u32);
            steps.push(IlStep { native, il: special(il as i64 + LOWEST), source: source as u8 });
        }
        Some(steps)
    }

    struct Bits<'a> {
        data: &'a [u8],
        at: usize,
    }

    impl Bits<'_> {
        fn take(&mut self, count: u32) -> Option<u64> {
            let mut value = 0u64;
            for i in 0..count {
                let byte = *self.data.get(self.at / 8)?;
                value |= u64::from(byte >> (self.at % 8) & 1) << i;
                self.at += 1;
            }
            Some(value)
        }
    }
}

/// Values like 0xffffffff represent the special values, which are negative.
fn special(il: i64) -> i64 {
    if il > i64::from(u32::MAX) + LOWEST { il - (1 << 32) } else { il }
}

/// Decodes the count, then for each step: native offset from the previous step, IL offset, source flags.
fn decode(bytes: &[u8]) -> Option<Vec<IlStep>> {
    let mut nibbles = Nibbles { bytes, at: 0 };
    let count = nibbles.number()?;
    let mut steps = Vec::new();
    let mut native = 0u32;
    for _ in 0..count.min(limits::MAX_IL_MAP) {
        let Some(delta) = nibbles.number() else { break };
        native = native.saturating_add(delta);
        let il = special(i64::from(nibbles.number()?) + LOWEST);
        let source = nibbles.number()? as u8;
        steps.push(IlStep { native, il, source });
    }
    Some(steps)
}

/// SourceTypes.ASYNC: an await at which the method may suspend.
const AWAIT: u8 = 4;

/// Returns the step of the await at which a method is suspended, by the native offset in its continuation: the await
/// itself, or its statement. Optimised code may have neither.
pub(crate) fn await_at(steps: &[IlStep], native: u64) -> Option<IlStep> {
    let here = || steps.iter().filter(move |s| u64::from(s.native) == native && s.il >= 0);
    here().find(|s| s.source & AWAIT != 0).or_else(|| here().next()).copied()
}

/// Returns the last step that begins at or before a native offset.
pub(crate) fn step_at(steps: &[IlStep], native: u64) -> Option<IlStep> {
    let after = steps.partition_point(|s| u64::from(s.native) <= native);
    steps.get(after.checked_sub(1)?).copied()
}

struct Nibbles<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Nibbles<'_> {
    fn nibble(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at / 2)?;
        let nibble = if self.at.is_multiple_of(2) { byte & 0xf } else { byte >> 4 };
        self.at += 1;
        Some(nibble)
    }

    fn number(&mut self) -> Option<u32> {
        let mut value = 0u32;
        // A 32-bit number takes at most eleven nibbles.
        for _ in 0..11 {
            let nibble = self.nibble()?;
            value = value.wrapping_shl(3).wrapping_add(u32::from(nibble & 7));
            if nibble & 8 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};
    use std::sync::Mutex;

    /// Memory from address 0 on, and the ranges that were recorded as structure.
    struct Recorded(Vec<u8>, Mutex<Vec<(u64, u64)>>);

    impl Recorded {
        fn copy(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let from = addr.get() as usize;
            let bytes = from.checked_add(buf.len()).and_then(|end| self.0.get(from..end));
            buf.copy_from_slice(bytes.ok_or(Fault { addr, kind: FaultKind::Unmapped })?);
            Ok(())
        }

        fn end(&self) -> u64 {
            self.1.lock().map_or(0, |all| all.iter().map(|(at, len)| at + len).max().unwrap_or(0))
        }
    }

    impl Memory for Recorded {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            self.keep(addr, buf.len() as u64);
            self.copy(addr, buf)
        }

        fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
            let mut out = vec![0; len];
            self.copy(addr, &mut out).map(|()| out)
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            (self.0.len() as u64).saturating_sub(addr.get()).min(max)
        }

        fn keep(&self, addr: Addr, len: u64) {
            if let Ok(mut all) = self.1.lock() {
                all.push((addr.get(), len));
            }
        }
    }

    #[test]
    fn what_follows_its_sizes_is_no_structure() {
        // All sizes follow: bounds of 3 bytes, and five sizes of 1; then unrelated numbers.
        let memory = Recorded([&[0x30, 0x11, 0x11, 0x01][..], &[0x5a; 64]].concat(), Mutex::default());
        assert_eq!(fat_header(&memory, Addr::new(0)), Some(([3, 1, 1, 1, 1, 1], Addr::new(4))));
        assert_eq!(memory.end(), 4);
    }

    #[test]
    fn variables_of_an_await() {
        // Two awaits and three variables: at 4, one variable; 2 further back, two. Then -3 at 8, 0 at 0x10, 1 at 0x18.
        let nibbles = [2, 3, 0x9, 0, 1, 5, 2, 3, 0x9, 0, 6, 0xa, 0, 7, 0xb, 0];
        let bytes: Vec<u8> = nibbles.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
        let var = |number, offset| KeptVar { number, offset };
        assert_eq!(decode_kept(&bytes, 4), Some(vec![var(-3, 8)]));
        assert_eq!(decode_kept(&bytes, 2), Some(vec![var(0, 16), var(1, 24)]));
        assert_eq!(decode_kept(&bytes, 3), None);
        assert_eq!(decode_kept(&bytes[..7], 2), None);
    }

    #[test]
    fn numbers_in_nibbles() {
        // 0x8 | 1, then 2: 1 * 8 + 2. The low nibble comes first.
        let mut nibbles = Nibbles { bytes: &[0x29, 0x07], at: 0 };
        assert_eq!((nibbles.number(), nibbles.number()), (Some(10), Some(7)));
        assert_eq!(Nibbles { bytes: &[0xff; 20], at: 0 }.number(), None);
        assert_eq!(Nibbles { bytes: &[0x99], at: 0 }.number(), None);
    }

    #[test]
    fn steps() {
        // Two steps: native 0, prolog (1 - 3), flags 0; native +5, IL 0 (3 - 3), flags 1.
        let steps = decode(&[0x02, 0x01, 0x35, 0x01]);
        let step = |native, il, source| IlStep { native, il, source };
        assert_eq!(steps, Some(vec![step(0, -2, 0), step(5, 0, 1)]));
        let steps = steps.unwrap_or_default();
        assert_eq!(step_at(&steps, 4).map(|s| s.il), Some(-2));
        assert_eq!(step_at(&steps, 400).map(|s| s.il), Some(0));
        assert_eq!(step_at(&[], 4), None);
        // Of two steps at one offset, the await counts. Without a step at the offset, the line is not known.
        let steps = [step(0, -2, 0), step(9, 3, 2), step(9, 7, 4), step(12, 9, 0)];
        assert_eq!(await_at(&steps, 9), Some(step(9, 7, 4)));
        assert_eq!(await_at(&steps, 12), Some(step(12, 9, 0)));
        assert_eq!(await_at(&steps, 10), None);
    }
}
