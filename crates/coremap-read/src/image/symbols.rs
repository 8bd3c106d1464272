//! Finds an exported symbol in an ELF image in memory, by its hash table.
//!
//! Structures: System V ABI, dynamic symbols; DT_GNU_HASH as in binutils and glibc's
//! dl-lookup.c.

use goblin::elf::dynamic as dy;

use crate::addr::Addr;
use crate::bytes;
use crate::image::elf::ElfImage;
use crate::limits;
use crate::memory::Memory;
use crate::targets::reads::Script;

/// Offsets in `Elf64_Sym`.
pub(crate) mod sym {
    pub(crate) const SIZE: u64 = 24;
    pub(crate) const NAME: usize = 0;
    pub(crate) const INFO: usize = 4;
    pub(crate) const SHNDX: usize = 6;
    pub(crate) const VALUE: usize = 8;
    pub(crate) const LEN: usize = 16;
}

/// An exported symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address.
    pub addr: Addr,
    /// Size in bytes.
    pub size: u64,
}

/// Finds the symbol exported as `name`. `None` if there is none, or its table is not in
/// the core.
pub fn find(memory: &dyn Memory, image: &ElfImage, name: &str) -> Option<Symbol> {
    let placed = |tag| image.dynamic_addr(memory, tag);
    let table = Table { memory, bias: image.bias, symbols: placed(dy::DT_SYMTAB)?, strings: placed(dy::DT_STRTAB)? };
    match placed(dy::DT_GNU_HASH) {
        Some(hash) => table.by_gnu_hash(hash, name),
        None => table.by_hash(placed(dy::DT_HASH)?, name),
    }
}

struct Table<'a> {
    memory: &'a dyn Memory,
    bias: u64,
    symbols: Addr,
    strings: Addr,
}

impl Table<'_> {
    fn by_gnu_hash(&self, hash: Addr, name: &str) -> Option<Symbol> {
        let word = |off: u64| self.memory.u32(hash.saturating_add(off)).ok();
        let (buckets, offset, bloom) = (word(0)?, word(4)?, word(8)?);
        let buckets_at = 16 + 8 * u64::from(bloom);
        let wanted = gnu_hash(name);
        let mut index = word(buckets_at + 4 * u64::from(wanted.checked_rem(buckets)?))?;
        let chains_at = buckets_at + 4 * u64::from(buckets);
        for _ in 0..limits::MAX_SYMBOL_CHAIN {
            let chain = word(chains_at + 4 * u64::from(index.checked_sub(offset)?))?;
            if chain | 1 == wanted | 1
                && let Some(found) = self.symbol(index, name)
            {
                return Some(found);
            }
            if chain & 1 == 1 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    /// Looks the name up in the ABI's own hash table: nbucket, nchain, buckets, chains.
    fn by_hash(&self, hash: Addr, name: &str) -> Option<Symbol> {
        let word = |i: u64| self.memory.u32(hash.saturating_add(4 * i)).ok();
        let buckets = word(0)?;
        let mut index = word(2 + u64::from(sysv_hash(name).checked_rem(buckets)?))?;
        for _ in 0..limits::MAX_SYMBOL_CHAIN {
            if index == 0 {
                return None;
            }
            if let Some(found) = self.symbol(index, name) {
                return Some(found);
            }
            index = word(2 + u64::from(buckets) + u64::from(index))?;
        }
        None
    }

    /// Returns the symbol with this index, if it is defined and has this name.
    fn symbol(&self, index: u32, name: &str) -> Option<Symbol> {
        let at = self.symbols.checked_add(sym::SIZE * u64::from(index))?;
        let entry = self.memory.bytes(at, sym::SIZE as usize).ok()?;
        let text = self.strings.checked_add(u64::from(bytes::u32_at(&entry, sym::NAME)?))?;
        let defined = bytes::u16_at(&entry, sym::SHNDX)? != 0;
        let found = defined && self.memory.text(text, name.len() + 1).ok()? == name;
        if found {
            // A symbol that coremap finds by name must keep it.
            self.memory.keep_name(text, name.len() as u64 + 1, Script::Public);
        }
        found.then_some(Symbol {
            addr: Addr::new(self.bias.wrapping_add(bytes::u64_at(&entry, sym::VALUE)?)),
            size: bytes::u64_at(&entry, sym::LEN)?,
        })
    }
}

/// Computes the hash of DT_HASH.
fn sysv_hash(name: &str) -> u32 {
    name.bytes().fold(0, |h: u32, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        let high = h & 0xf000_0000;
        (h ^ (high >> 24)) & !high
    })
}

/// Computes the hash of DT_GNU_HASH.
fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |h: u32, b| h.wrapping_mul(33).wrapping_add(u32::from(b)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_hashes() {
        // From a test of this function in binutils.
        assert_eq!(super::gnu_hash("printf"), 0x156b_2bb8);
        assert_eq!(super::gnu_hash(""), 5381);
        // The example in the System V ABI.
        assert_eq!(super::sysv_hash("printf"), 0x077_905a6);
    }
}
