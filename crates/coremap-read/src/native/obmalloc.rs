//! Arenas of obmalloc, CPython's allocator of small blocks: their sizes, and checks of an `arena_object`.
//!
//! There are two readers. The Python runtime finds the array of arenas by the layout of its version. The recogniser
//! finds it by its shape, in versions without a layout. Source: Objects/obmalloc.c and pycore_obmalloc.h of CPython 3.6
//! to 3.14.

use crate::addr::{Addr, AddrRange, PAGE};

/// Sizes in bytes of an arena and of a pool: first since 3.10, then before (ARENA_BITS, POOL_BITS in
/// pycore_obmalloc.h).
pub(crate) const SIZES: [(u64, u64); 2] = [(1 << 20, 16 << 10), (256 << 10, 4 << 10)];

/// An entry of the array of arenas (`struct arena_object`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaObject {
    /// Start of the arena. Null if the entry is not in use.
    pub(crate) address: Addr,
    /// First pool that was never used.
    pub(crate) pool_address: Addr,
    /// Number of free pools, including pools that were never used.
    pub(crate) free_pools: u64,
    /// Number of pools.
    pub(crate) pools: u64,
    /// First pool that was used and is free again. Null if there is none.
    pub(crate) first_free: Addr,
}

/// An arena whose `arena_object` is consistent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arena {
    pub(crate) range: AddrRange,
    /// First pool. An arena need not begin at a multiple of the pool size.
    pub(crate) first_pool: Addr,
    /// Number of pools that were used at least once.
    pub(crate) carved: u64,
}

impl ArenaObject {
    /// Decodes the first four words of an entry.
    pub(crate) fn from_words([address, pool_address, pools, first_free]: [u64; 4]) -> ArenaObject {
        ArenaObject {
            address: Addr::new(address),
            pool_address: Addr::new(pool_address),
            free_pools: pools & 0xffff_ffff,
            pools: pools >> 32,
            first_free: Addr::new(first_free),
        }
    }

    /// Returns the arena if the entry is consistent for the given sizes of an arena and of a pool.
    pub(crate) fn arena(&self, (size, pool): (u64, u64)) -> Option<Arena> {
        let range = AddrRange::sized(self.address, size);
        let first_pool = self.address.align_up(pool);
        let carved = self.pool_address.checked_since(first_pool)? / pool;
        let is_sound = self.address.is_aligned(PAGE)
            && range.len() == size
            && self.pool_address.is_aligned(pool)
            && self.pool_address <= range.end
            && self.free_pools <= self.pools
            && carved <= self.pools
            // Pools that were never used are free. Arenas of both sizes have 64 pools; this check distinguishes them.
            && self.free_pools.saturating_add(carved) >= self.pools
            && (size / pool - 1..=size / pool).contains(&self.pools)
            && (self.first_free.is_null() || range.contains(self.first_free));
        is_sound.then_some(Arena { range, first_pool, carved })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_of_either_size_is_told_by_its_numbers() {
        let start = 0x7f00_0010_0000;
        let entry = |pool_address, free: u64| ArenaObject::from_words([start, pool_address, free | 64 << 32, 0]);
        let large = entry(start + (2 << 14), 62);
        assert_eq!(large.arena(SIZES[0]).map(|arena| (arena.range.len(), arena.carved)), Some((1 << 20, 2)));
        assert!(large.arena(SIZES[1]).is_some_and(|arena| arena.carved == 8));
        let small = entry(start + (2 << 12), 62);
        assert!(small.arena(SIZES[0]).is_none());
        assert_eq!(small.arena(SIZES[1]).map(|arena| arena.carved), Some(2));
        assert!(entry(start + (2 << 14), 65).arena(SIZES[0]).is_none());
    }
}
