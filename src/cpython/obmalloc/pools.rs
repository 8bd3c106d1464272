//! Pools: 16 KiB (or 4 KiB) of blocks of one size, with a header.

use super::arenas::{ALIGNMENT, Arena};
use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, LayoutError};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;

/// Offsets in a `pool_header`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolShape {
    used: u64,
    free_block: u64,
    next: u64,
    size_index: u64,
    next_offset: u64,
    max_next_offset: u64,
    /// Bytes of the header: the first block follows.
    pub(crate) header: u64,
}

impl PoolShape {
    pub(crate) fn of(layout: &Layout) -> Result<PoolShape, LayoutError> {
        Ok(PoolShape {
            used: layout.positive("pool_header", "ref")?,
            free_block: layout.positive("pool_header", "freeblock")?,
            next: layout.positive("pool_header", "nextpool")?,
            size_index: layout.positive("pool_header", "szidx")?,
            next_offset: layout.positive("pool_header", "nextoffset")?,
            max_next_offset: layout.positive("pool_header", "maxnextoffset")?,
            header: layout.size("pool_header")?,
        })
    }
}

/// What a pool is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Blocks of one size.
    Used,
    /// It was used, and is free now.
    Free,
    /// Its header is not in the core, or makes no sense.
    Unreadable,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Where it is.
    pub start: Addr,
    /// What it is used for.
    pub state: PoolState,
    /// Bytes of a block.
    pub block: u64,
    /// Blocks that there is room for.
    pub blocks: u64,
    /// Blocks in use, as its header says.
    pub used: u64,
    /// Whether each block is free, by its number.
    pub free: Vec<bool>,
    /// Whether the list of free blocks agrees with the header.
    pub sound: bool,
}

/// Pools of an arena that are free, though they were used: their list.
pub(crate) fn free_pools(memory: &dyn Memory, shape: &PoolShape, arena: &Arena, walks: &Walks) -> (Vec<Addr>, bool) {
    let mut out = Vec::new();
    let next = |at: Addr| memory.ptr(at.wrapping_add(shape.next));
    let mut inside = true;
    let ended = crate::cpython::runtime::follow(walks, arena.free_pools, next, |at| {
        inside &= arena.range.contains(at);
        out.push(at);
    });
    out.sort_unstable();
    (out, inside && ended.is_ok())
}

/// The pool at `start`, which is not free. `bytes`: of it, as far as they are in the core.
pub(crate) fn read(shape: &PoolShape, start: Addr, size: u64, bytes: &[[u8; 8]]) -> Pool {
    let word = |at: u64| bytes.get((at >> 3) as usize).map(|w| u64::from_le_bytes(*w));
    let half = |at: u64| Some((word(at & !7)? >> (8 * (at & 4))) & 0xffff_ffff);
    let mut pool =
        Pool { start, state: PoolState::Unreadable, block: 0, blocks: 0, used: 0, free: Vec::new(), sound: false };
    let header = || {
        let (used, class) = (half(shape.used)?, half(shape.size_index)?);
        let (next, last) = (half(shape.next_offset)?, half(shape.max_next_offset)?);
        Some((used, class, next, last, Addr::new(word(shape.free_block)?)))
    };
    let Some((used, class, next, last, first_free)) = header() else { return pool };
    let block = (class + 1) * ALIGNMENT;
    if block > size - shape.header || next > size || last > size || next < shape.header {
        return pool;
    }
    pool.state = PoolState::Used;
    (pool.block, pool.used) = (block, used);
    pool.blocks = (size - shape.header) / block;
    // Blocks from nextoffset on were never given out; behind the last one it is past maxnextoffset.
    let given = (next.min(last.saturating_add(block)) - shape.header).div_ceil(block).min(pool.blocks);
    pool.free = (0..pool.blocks).map(|i| i >= given).collect();
    let mut count = pool.blocks - given;
    let mut at = first_free;
    let (mut steps, mut sound) = (0, true);
    while !at.is_null() {
        let offset = at.checked_since(start).and_then(|offset| offset.checked_sub(shape.header));
        let index = offset.filter(|offset| offset % block == 0).map(|offset| offset / block);
        let slot = index.and_then(|index| pool.free.get_mut(index as usize));
        // A block that is free twice: the list runs in a cycle.
        let Some(slot) = slot.filter(|slot| !**slot && steps < limits::MAX_PY_POOL_BLOCKS) else {
            sound = false;
            break;
        };
        *slot = true;
        count += 1;
        steps += 1;
        let Some(next) = word(at.since(start)) else {
            sound = false;
            break;
        };
        at = Addr::new(next);
    }
    pool.sound = sound && count + used == pool.blocks;
    pool
}

/// Where a block is.
pub(crate) fn block_at(shape: &PoolShape, pool: Addr, block: u64, index: u64) -> AddrRange {
    AddrRange::sized(pool.wrapping_add(shape.header).wrapping_add(index.wrapping_mul(block)), block)
}
