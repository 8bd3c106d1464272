//! An allocator of small blocks that a runtime has of its own, beside malloc: arenas cut into pools, pools cut into blocks
//! of one size.

use crate::addr::{Addr, AddrRange};

/// Blocks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmallClass {
    /// Bytes of a block.
    pub size: u64,
    /// Pools of such blocks.
    pub pools: u64,
    /// Blocks in use.
    pub used: u64,
    /// Blocks that are free in these pools.
    pub free: u64,
}

impl SmallClass {
    /// Bytes of the blocks in use.
    pub fn used_bytes(&self) -> u64 {
        self.used.saturating_mul(self.size)
    }

    /// Bytes of the free blocks.
    pub fn free_bytes(&self) -> u64 {
        self.free.saturating_mul(self.size)
    }
}

/// What one arena holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallArena {
    /// Where it is.
    pub range: AddrRange,
    /// Bytes of its blocks in use.
    pub used: u64,
    /// Pools that no block in use keeps: free ones, and those never used.
    pub free_pools: u64,
}

/// All of such an allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmallBlockSums {
    /// What the runtime calls it: `obmalloc`.
    pub name: &'static str,
    /// Its arenas, by address.
    pub arenas: Vec<SmallArena>,
    /// Bytes of an arena.
    pub arena_size: u64,
    /// Bytes of a pool.
    pub pool_size: u64,
    /// Pools with blocks.
    pub pools: u64,
    /// Pools that are free; those that were never used are among them.
    pub free_pools: u64,
    /// Pools whose header is not in the core, or makes no sense.
    pub lost_pools: u64,
    /// Bytes of the headers of pools with blocks.
    pub headers: u64,
    /// By size of block.
    pub classes: Vec<SmallClass>,
}

impl SmallBlockSums {
    /// Bytes of all arenas.
    pub fn committed(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.range.len()).fold(0, u64::saturating_add)
    }

    /// Bytes of blocks in use.
    pub fn used_bytes(&self) -> u64 {
        self.classes.iter().map(SmallClass::used_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of free blocks, in pools that other blocks keep.
    pub fn free_bytes(&self) -> u64 {
        self.classes.iter().map(SmallClass::free_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of free pools.
    pub fn free_pool_bytes(&self) -> u64 {
        self.free_pools.saturating_mul(self.pool_size)
    }
}

/// One small block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallBlock {
    /// Where it is.
    pub range: AddrRange,
    /// Whether it is in use.
    pub used: bool,
    /// The pool that it is in.
    pub pool: Addr,
    /// The arena that it is in.
    pub arena: Addr,
}

/// An allocator of small blocks that a runtime has beside malloc.
pub trait SmallBlocks: Sync {
    /// All of it; `None` if it has no arena.
    fn sums(&self) -> Option<&SmallBlockSums>;

    /// The block at `addr`.
    fn block_at(&self, addr: Addr) -> Option<SmallBlock>;
}
