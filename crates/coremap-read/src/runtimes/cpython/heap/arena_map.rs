//! Classification of the blocks of an arena, one byte of state per block.

use super::owned::OwnedKind;
use crate::addr::Addr;
use crate::runtimes::cpython::obmalloc::pools::PoolShape;
use crate::runtimes::cpython::obmalloc::{ALIGNMENT, Arena, PoolState};

/// Content of a block. `prefix` is the distance in bytes from the block's start to the object; it is a multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Free,
    Other,
    Object { prefix: u64 },
    Owned(OwnedKind),
}

pub(super) const FREE: u8 = 0;
pub(super) const OTHER_BLOCK: u8 = 1;
const OBJECT: u8 = 2;
pub(super) const OWNED: u8 = 16;

/// Flag in a state byte: the collector tracks the object.
pub(super) const TRACKED: u8 = 0x80;

impl Block {
    #[inline(always)]
    pub(super) fn of(state: u8) -> Block {
        match state & !TRACKED {
            FREE => Block::Free,
            state if state >= OWNED => OwnedKind::of_number(state - OWNED).map_or(Block::Other, Block::Owned),
            OTHER_BLOCK => Block::Other,
            state => Block::Object { prefix: u64::from(state - OBJECT) * ALIGNMENT },
        }
    }

    pub(super) fn object(prefix: u64) -> u8 {
        OBJECT + (prefix / ALIGNMENT).min(u64::from(OWNED - OBJECT - 1)) as u8
    }
}

/// A pool, with the position of its blocks' states.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolMap {
    pub(super) start: Addr,
    /// Block size in bytes. 0 for a pool that is free or can't be read.
    pub(super) block: u32,
    /// Number of blocks that fit into the pool.
    pub(super) blocks: u32,
    /// Index in `states` of the first block's state.
    pub(super) first: u32,
    pub(super) state: PoolState,
    pub(super) sound: bool,
}

/// An arena with the states of its blocks.
pub(super) struct ArenaMap {
    pub(super) arena: Arena,
    pub(super) pool: u64,
    pub(super) pools: Vec<PoolMap>,
    pub(super) states: Vec<u8>,
    /// Number of blocks in the arenas before it.
    pub(super) first_number: usize,
}

impl ArenaMap {
    /// Iterates the blocks of a pool, in address order.
    pub(super) fn blocks(&self, pool: &PoolMap) -> impl Iterator<Item = Block> {
        let states = self.states.get(pool.first as usize..).unwrap_or_default();
        states.iter().take(pool.blocks as usize).map(|state| Block::of(*state))
    }

    pub(super) fn pool_size(&self) -> u64 {
        self.pool
    }

    #[inline(always)]
    pub(super) fn locate_block(&self, shape: &PoolShape, at: Addr) -> Option<(&PoolMap, u64, usize)> {
        let index = at.checked_since(self.arena.first_pool)? / self.pool;
        let pool = self.pools.get(index as usize)?;
        let offset = at.checked_since(pool.start)?.checked_sub(shape.header)?;
        let block = (offset as u32).checked_div(pool.block).filter(|block| *block < pool.blocks)?;
        let inside = offset - u64::from(block) * u64::from(pool.block);
        Some((pool, inside, pool.first as usize + block as usize))
    }
}
