//! The dynamic symbol table of an image in memory.
//!
//! Structures: System V ABI, dynamic linking; DT_GNU_HASH as in binutils and glibc's dl-lookup.c. Neither hash table
//! states the number of symbols. DT_HASH has one chain per symbol. In DT_GNU_HASH the last chain ends with the last
//! symbol.

use goblin::elf::dynamic as dy;

use super::Budget;
use super::table::{PlacedSym, Strings};
use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::elf::{ElfImage, dynamic_entry};
use crate::image::symbols::sym;
use crate::limits;
use crate::memory::Memory;

/// Number of symbols per read.
const BLOCK: u64 = 4096;

/// Position and size of the table.
pub(super) struct Dynamic {
    symbols: Addr,
    count: u64,
    /// DT_STRTAB, DT_STRSZ.
    pub(super) strings: AddrRange,
}

impl Dynamic {
    pub(super) fn read(memory: &dyn Memory, image: &ElfImage, budget: &Budget) -> Option<Dynamic> {
        let at = |tag| image.dynamic_addr(memory, tag);
        let (symbols, strings) = (at(dy::DT_SYMTAB)?, at(dy::DT_STRTAB)?);
        let size = dynamic_entry(memory, image.dynamic?, dy::DT_STRSZ)?;
        let count = match at(dy::DT_HASH).and_then(|hash| memory.u32(hash.checked_add(4)?).ok()) {
            Some(chains) => u64::from(chains),
            None => gnu_count(memory, at(dy::DT_GNU_HASH)?, budget)?,
        };
        // Linkers put the names after the symbols, and the two tables do not overlap.
        let room = if strings > symbols { strings.since(symbols) / sym::SIZE } else { u64::MAX };
        let count = count.min(room).min(limits::MAX_MODULE_SYMBOLS as u64);
        let strings = AddrRange::sized(strings, size);
        // Keep all names, since any may be needed. The program stores no text of its own there.
        if let Some(names) = strings.intersect(&image.range) {
            memory.keep(names.start, names.len());
        }
        Some(Dynamic { symbols, count, strings })
    }

    /// Returns the readable entries.
    pub(super) fn entries(&self, memory: &dyn Memory, bias: u64, source: u8, budget: &Budget) -> Vec<PlacedSym> {
        let mut out = Vec::new();
        self.each(memory, budget, &mut |entry| out.extend(PlacedSym::parse(entry, bias, source)));
        out
    }

    /// Returns the names of all readable entries, defined or not.
    pub(super) fn names(&self, memory: &dyn Memory, budget: &Budget) -> Vec<String> {
        let mut places = Vec::new();
        self.each(memory, budget, &mut |entry| places.extend(bytes::u32_at(entry, sym::NAME).filter(|&n| n != 0)));
        let strings = Strings::Memory(self.strings);
        let name = |at| Some(String::from_utf8_lossy(&strings.name(memory, at)?).into_owned());
        places.into_iter().filter_map(name).collect()
    }

    /// Returns the defined entries whose names have a prefix: the rest of each name, and the address.
    pub(super) fn with_prefix(&self, memory: &dyn Memory, bias: u64, prefix: &str) -> Vec<(String, Addr)> {
        let strings = Strings::Memory(self.strings);
        let mut out = Vec::new();
        self.each(memory, &Budget::new(), &mut |entry| {
            let defined = bytes::u16_at(entry, sym::SHNDX).is_some_and(|section| section != 0);
            let name = bytes::u32_at(entry, sym::NAME).filter(|_| defined).and_then(|at| strings.name(memory, at));
            let rest = name.as_deref().and_then(|name| name.strip_prefix(prefix.as_bytes()));
            if let Some((rest, value)) = rest.zip(bytes::u64_at(entry, sym::VALUE)) {
                out.push((String::from_utf8_lossy(rest).into_owned(), Addr::new(bias.wrapping_add(value))));
            }
        });
        out
    }

    fn each(&self, memory: &dyn Memory, budget: &Budget, with: &mut dyn FnMut(&[u8])) {
        let count = budget.take(self.count);
        let mut i = 0u64;
        while i < count {
            let Some(at) = self.symbols.checked_add(i.saturating_mul(sym::SIZE)) else { break };
            let want = (count - i).min(BLOCK) * sym::SIZE;
            let whole = memory.readable(at, want) / sym::SIZE;
            if whole == 0 {
                // Producers leave out whole pages.
                let next = at.align_down(4096).saturating_add(4096);
                i = i.saturating_add(next.since(at).div_ceil(sym::SIZE).max(1));
                continue;
            }
            let Ok(block) = memory.bytes(at, (whole * sym::SIZE) as usize) else { break };
            block.chunks_exact(sym::SIZE as usize).for_each(&mut *with);
            i = i.saturating_add(whole);
        }
    }

    /// Returns the name offset of one entry, defined or not.
    pub(super) fn name_of(&self, memory: &dyn Memory, index: u32) -> Option<u32> {
        let at = self.symbols.checked_add(u64::from(index).checked_mul(sym::SIZE)?)?;
        let entry = memory.bytes(at, sym::SIZE as usize).ok()?;
        bytes::u32_at(&entry, sym::NAME).filter(|&n| n != 0)
    }
}

/// Returns one more than the index of the last symbol of the last chain.
fn gnu_count(memory: &dyn Memory, hash: Addr, budget: &Budget) -> Option<u64> {
    let word = |off: u64| memory.u32(hash.checked_add(off)?).ok();
    let (buckets, offset, bloom) = (u64::from(word(0)?), u64::from(word(4)?), u64::from(word(8)?));
    let buckets_at = 16 + 8 * bloom;
    // A corrupt count must not use up the budget of the other modules.
    if buckets > limits::MAX_MODULE_SYMBOLS as u64 || budget.take(buckets) < buckets {
        return None;
    }
    let table = memory.bytes(hash.checked_add(buckets_at)?, usize::try_from(4 * buckets).ok()?).ok()?;
    let last = (0..).step_by(4).map_while(|at| bytes::u32_at(&table, at)).max().map_or(0, u64::from);
    let Some(first) = last.checked_sub(offset) else { return Some(offset) };
    let chains_at = buckets_at + 4 * buckets;
    // A chain without an end is cut. Chains only go upwards, so none is a cycle.
    let ends = (0..u64::from(limits::MAX_SYMBOL_CHAIN))
        .find(|i| word(chains_at + 4 * (first + i)).is_none_or(|chain| chain & 1 == 1));
    Some(last + ends.unwrap_or(0) + 1)
}
