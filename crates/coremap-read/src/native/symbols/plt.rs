//! Stubs of the procedure linkage table (PLT), which jump through a slot to a function of another module.
//!
//! A stub is recognised by its instructions. It is accepted only if a relocation of the image fills the slot that it
//! reads. Sources of the instructions: the x86_64 and AArch64 supplements of the System V ABI, and the output of GNU ld
//! and lld, with and without branch tracking (endbr64, bti).

use std::sync::OnceLock;

use goblin::elf::dynamic as dy;
use goblin::elf::reloc as rel;

use super::Budget;
use super::table::Names;
use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::elf::{ElfImage, dynamic_entry};
use crate::limits;
use crate::memory::Memory;
use crate::targets::Arch;

/// Size and offsets of `Elf64_Rela`.
mod rela {
    pub(super) const SIZE: u64 = 24;
    pub(super) const OFFSET: usize = 0;
    pub(super) const INFO: usize = 8;
    pub(super) const ADDEND: usize = 16;
}

/// R_AARCH64_IRELATIVE (ELF for the Arm 64-bit architecture).
const R_AARCH64_IRELATIVE: u32 = 1032;

/// Size in bytes of the longest stub: five instructions and a landing pad on aarch64.
const MAX_STUB: u64 = 24;

/// Bytes of relocations per read.
const BLOCK: u64 = 4096 * rela::SIZE;

/// The value that a relocation puts into a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The address of the symbol with this index in the dynamic table.
    Symbol(u32),
    /// The address that the function here returns (an IFUNC of the module itself).
    Chosen(Addr),
}

pub(super) struct Slot {
    at: Addr,
    pub(super) target: Target,
    pub(super) names: OnceLock<Option<Names>>,
}

/// The relocations that fill slots.
#[derive(Default)]
pub(super) struct Slots {
    /// By address.
    slots: Vec<Slot>,
    /// Slot addresses of DT_JMPREL in its order. Stubs push an index into it.
    in_order: Vec<Addr>,
}

pub(super) struct Stub<'a> {
    pub(super) range: AddrRange,
    pub(super) slot: &'a Slot,
}

impl Slots {
    pub(super) fn read(memory: &dyn Memory, image: &ElfImage, arch: Arch, budget: &Budget) -> Slots {
        let mut out = Slots::default();
        let size = |tag| dynamic_entry(memory, image.dynamic?, tag);
        for (table, len, jumps) in [(dy::DT_JMPREL, dy::DT_PLTRELSZ, true), (dy::DT_RELA, dy::DT_RELASZ, false)] {
            if let (Some(at), Some(len)) = (image.dynamic_addr(memory, table), size(len)) {
                // A length beyond the image is corrupt, and would use up the budget of the other modules.
                let table = AddrRange::sized(at, len).intersect(&image.range).unwrap_or_default();
                out.add(memory, image.bias, table, (arch, jumps), budget);
            }
        }
        out.slots.sort_by_key(|s| s.at);
        out.slots.dedup_by_key(|s| s.at);
        out
    }

    fn add(&mut self, memory: &dyn Memory, bias: u64, table: AddrRange, (arch, jumps): (Arch, bool), budget: &Budget) {
        let (jump, data, chosen) = match arch {
            Arch::X86_64 => (rel::R_X86_64_JUMP_SLOT, rel::R_X86_64_GLOB_DAT, rel::R_X86_64_IRELATIVE),
            Arch::Aarch64 => (rel::R_AARCH64_JUMP_SLOT, rel::R_AARCH64_GLOB_DAT, R_AARCH64_IRELATIVE),
        };
        let count = budget.take((table.len() / rela::SIZE).min(limits::MAX_MODULE_SYMBOLS as u64));
        let end = table.start.saturating_add(count * rela::SIZE);
        let mut at = table.start;
        while at < end {
            let Ok(block) = memory.bytes(at, end.since(at).min(BLOCK) as usize) else { break };
            for entry in block.chunks_exact(rela::SIZE as usize) {
                let field = |off| bytes::u64_at(entry, off).unwrap_or(0);
                let slot = Addr::new(bias.wrapping_add(field(rela::OFFSET)));
                let (kind, symbol) = (field(rela::INFO) as u32, (field(rela::INFO) >> 32) as u32);
                let target = match kind {
                    k if k == chosen => Target::Chosen(Addr::new(bias.wrapping_add(field(rela::ADDEND)))),
                    k if (k == jump || k == data) && symbol != 0 => Target::Symbol(symbol),
                    _ => Target::Symbol(0),
                };
                if jumps {
                    self.in_order.push(slot);
                }
                if target != Target::Symbol(0) {
                    self.slots.push(Slot { at: slot, target, names: OnceLock::new() });
                }
            }
            at = at.saturating_add(BLOCK);
        }
    }

    pub(super) fn stub_at(&self, memory: &dyn Memory, arch: Arch, addr: Addr) -> Option<Stub<'_>> {
        if self.slots.is_empty() {
            return None;
        }
        match arch {
            Arch::X86_64 => self.x86_64(memory, addr),
            Arch::Aarch64 => self.aarch64(memory, addr),
        }
    }

    fn slot(&self, at: Addr) -> Option<&Slot> {
        self.slots.binary_search_by_key(&at, |s| s.at).ok().and_then(|i| self.slots.get(i))
    }

    fn x86_64(&self, memory: &dyn Memory, addr: Addr) -> Option<Stub<'_>> {
        // Stubs are 16 bytes, in .plt.got 8 bytes, and aligned to their size.
        [8u64, 16].into_iter().find_map(|align| {
            let start = addr.align_down(align);
            let code = code(memory, start, 16)?;
            let (slot, len) = match x86_64(&code, start)? {
                SlotReference::Slot(at, len) => (at, len),
                SlotReference::Index(i) => (*self.in_order.get(usize::try_from(i).ok()?)?, 16),
            };
            let range = AddrRange::sized(start, len);
            range.contains(addr).then_some(())?;
            Some(Stub { range, slot: self.slot(slot)? })
        })
    }

    fn aarch64(&self, memory: &dyn Memory, addr: Addr) -> Option<Stub<'_>> {
        (0..MAX_STUB / 4).find_map(|back| {
            let start = addr.align_down(4).saturating_sub(4 * back);
            let (slot, len) = aarch64(&code(memory, start, MAX_STUB)?, start)?;
            let range = AddrRange::sized(start, len);
            range.contains(addr).then_some(())?;
            Some(Stub { range, slot: self.slot(slot)? })
        })
    }
}

fn code(memory: &dyn Memory, at: Addr, limit: u64) -> Option<Vec<u8>> {
    memory.bytes(at, usize::try_from(memory.readable(at, limit)).ok()?).ok()
}

/// How a stub identifies its slot.
#[derive(Debug, PartialEq, Eq)]
enum SlotReference {
    /// By address, with the stub's length.
    Slot(Addr, u64),
    /// By the index of its relocation in the table.
    Index(u32),
}

/// Decodes the code at `start`, if it is a stub.
fn x86_64(code: &[u8], start: Addr) -> Option<SlotReference> {
    let (mut rest, mut at) = (code, 0u64);
    let mut skip = |rest: &mut &[u8], prefix: &[u8]| {
        let stripped = rest.strip_prefix(prefix);
        if let Some(after) = stripped {
            *rest = after;
            at = at.saturating_add(prefix.len() as u64);
        }
        stripped.is_some()
    };
    let tracked = skip(&mut rest, &[0xf3, 0x0f, 0x1e, 0xfa]);
    if tracked && rest.first() == Some(&0x68) {
        // push index; (bnd) jmp: the lazy part of a stub, if .plt.sec has the other part.
        let after = rest.get(5..)?;
        let after = after.strip_prefix(&[0xf2]).unwrap_or(after);
        return (after.first() == Some(&0xe9)).then_some(SlotReference::Index(bytes::u32_at(rest, 1)?));
    }
    skip(&mut rest, &[0xf2]);
    if !skip(&mut rest, &[0xff, 0x25]) {
        return None;
    }
    let distance = i64::from(bytes::i32_at(rest, 0)?);
    let slot = start.wrapping_add(at).wrapping_add(4).wrapping_offset(distance);
    // The bytes after it distinguish a stub from a tail jump: the lazy part, or only padding.
    let len = match rest.get(4..)? {
        [0x68, _, _, _, _, 0xe9, ..] if !tracked => 16,
        [0x66, 0x90, ..] if at == 2 => 8,
        [0x0f, 0x1f, 0x44, 0x00, 0x00, ..] if tracked => 16,
        [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, ..] if tracked => 16,
        [0x90, ..] if at == 3 => 8,
        _ => return None,
    };
    Some(SlotReference::Slot(slot, len))
}

/// Decodes adrp x16; ldr x17, [x16, #]; add x16, x16, #; br x17, with or without bti c before it.
fn aarch64(code: &[u8], start: Addr) -> Option<(Addr, u64)> {
    let word = |i: usize| bytes::u32_at(code, i.checked_mul(4)?);
    let first = usize::from(word(0)? == 0xd503_245f);
    let (adrp, ldr, add) = (word(first)?, word(first + 1)?, word(first + 2)?);
    let stub = adrp & 0x9f00_001f == 0x9000_0010
        && ldr & 0xffc0_03ff == 0xf940_0211
        && add & 0xffc0_03ff == 0x9100_0210
        && word(first + 3)? == 0xd61f_0220;
    stub.then_some(())?;
    let pages = (u64::from(adrp >> 5 & 0x7_ffff) << 2) | u64::from(adrp >> 29 & 3);
    // Sign extension of 21 bits.
    let pages = if pages & (1 << 20) == 0 { pages } else { pages | !((1 << 21) - 1) };
    let page = start.saturating_add(4 * first as u64).align_down(4096).wrapping_add(pages << 12);
    let slot = page.wrapping_add(8 * u64::from(ldr >> 10 & 0xfff));
    Some((slot, if first == 1 { 24 } else { 16 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    // The first stubs that GNU ld 2.40 made for testdata's native.c on aarch64. The stub at 0x1240 reads the slot
    // 0x20000, which is sigaltstack's by `readelf -r`.
    #[test]
    fn aarch64_stubs() {
        let first = [0xf000_00f0, 0xf940_0211, 0x9100_0210, 0xd61f_0220];
        assert_eq!(aarch64(&words(&first), Addr::new(0x1240)), Some((Addr::new(0x2_0000), 16)));
        let second = [0xf000_00f0, 0xf940_0611, 0x9100_2210, 0xd61f_0220];
        assert_eq!(aarch64(&words(&second), Addr::new(0x1250)), Some((Addr::new(0x2_0008), 16)));
        let tracked = [&[0xd503_245f], &second[..]].concat();
        assert_eq!(aarch64(&words(&tracked), Addr::new(0x1250)), Some((Addr::new(0x2_0008), 24)));
        // One page below: adrp of -1.
        let below = [0xf0ff_fff0, 0xf940_0211, 0x9100_0210, 0xd61f_0220];
        assert_eq!(aarch64(&words(&below), Addr::new(0x1240)), Some((Addr::NULL, 16)));
        assert_eq!(aarch64(&words(&first[1..]), Addr::new(0x1244)), None);
    }

    #[test]
    fn x86_64_stubs_end_where_the_bytes_end() {
        let whole = [0xff, 0x25, 0xda, 0x3f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        assert_eq!(x86_64(&whole, Addr::new(0x2020)), Some(SlotReference::Slot(Addr::new(0x6000), 16)));
        for cut in 0..12 {
            assert_eq!(x86_64(&whole[..cut], Addr::new(0x2020)), None, "{cut}");
        }
    }
}
