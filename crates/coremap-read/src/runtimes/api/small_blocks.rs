//! The interface of a runtime's own small-block allocator: arenas are divided into pools, and pools into blocks of one
//! size.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::Survivors;

/// A size class: blocks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmallClass {
    /// Block size in bytes.
    pub size: u64,
    /// Number of pools with blocks of this size.
    pub pools: u64,
    /// Number of blocks in use.
    pub used: u64,
    /// Number of free blocks in these pools.
    pub free: u64,
}

impl SmallClass {
    /// Bytes in used blocks.
    pub fn used_bytes(&self) -> u64 {
        self.used.saturating_mul(self.size)
    }

    /// Bytes in free blocks.
    pub fn free_bytes(&self) -> u64 {
        self.free.saturating_mul(self.size)
    }
}

/// An arena, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallArena {
    /// Addresses of the arena.
    pub range: AddrRange,
    /// Bytes in used blocks.
    pub used: u64,
    /// Number of pools without a used block. Includes pools that were never used.
    pub free_pools: u64,
}

/// Sums over the whole allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmallBlockSums {
    /// The runtime's name for the allocator, such as `obmalloc`.
    pub name: &'static str,
    /// Arenas, sorted by address.
    pub arenas: Vec<SmallArena>,
    /// Size of an arena in bytes.
    pub arena_size: u64,
    /// Size of a pool in bytes.
    pub pool_size: u64,
    /// Number of pools with used blocks.
    pub pools: u64,
    /// Number of free pools. Includes pools that were never used.
    pub free_pools: u64,
    /// Number of pools whose header is not in the core or is invalid.
    pub lost_pools: u64,
    /// Bytes in the headers of pools with used blocks.
    pub headers: u64,
    /// Size classes.
    pub classes: Vec<SmallClass>,
}

impl SmallBlockSums {
    /// Bytes in all arenas.
    pub fn committed(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.range.len()).fold(0, u64::saturating_add)
    }

    /// Bytes in used blocks.
    pub fn used_bytes(&self) -> u64 {
        self.classes.iter().map(SmallClass::used_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes in free blocks of pools that also contain used blocks.
    pub fn free_bytes(&self) -> u64 {
        self.classes.iter().map(SmallClass::free_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes in free pools.
    pub fn free_pool_bytes(&self) -> u64 {
        self.free_pools.saturating_mul(self.pool_size)
    }
}

/// A block of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallBlock {
    /// Addresses of the block.
    pub range: AddrRange,
    /// Whether the block is in use.
    pub used: bool,
    /// Address of its pool.
    pub pool: Addr,
    /// Address of its arena.
    pub arena: Addr,
}

/// A runtime's own small-block allocator.
pub trait SmallBlocks: Sync {
    /// Sums over the allocator. `None` if it has no arena.
    fn sums(&self) -> Option<&SmallBlockSums>;

    /// Objects in nearly empty arenas, by type, types of the program first.
    fn survivors(&self) -> Vec<Survivors> {
        Vec::new()
    }

    /// The block that contains `addr`.
    fn block_at(&self, addr: Addr) -> Option<SmallBlock>;
}
