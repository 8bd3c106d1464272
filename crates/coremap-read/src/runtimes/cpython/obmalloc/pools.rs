//! Pools: 16 KiB (or 4 KiB) with a header, divided into blocks of one size.

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
    /// Size of the header in bytes. The first block follows.
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

/// State of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Divided into blocks of one size.
    Used,
    /// Was used, and is free now.
    Free,
    /// The header is not in the core, or is invalid.
    Unreadable,
}

/// A pool, with the state of its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// State of the pool.
    pub state: PoolState,
    /// Size of a block in bytes.
    pub block: u64,
    /// Number of blocks that fit into the pool.
    pub blocks: u64,
    /// Number of used blocks, according to the header.
    pub used: u64,
    /// Whether each block is free, by index.
    pub free: Vec<bool>,
    /// Whether the list of free blocks agrees with the header.
    pub sound: bool,
}

/// The pools in an arena's list of free pools, sorted by address. If the list is broken, the result is incomplete; the
/// headers of the missing pools then decide.
pub(crate) fn free_pools(memory: &dyn Memory, shape: &PoolShape, arena: &Arena, walks: &Walks) -> Vec<Addr> {
    let mut out = Vec::new();
    let next = |at: Addr| memory.ptr(at.wrapping_add(shape.next));
    drop(crate::runtimes::cpython::runtime::follow(walks, arena.free_pools, next, |at| out.push(at)));
    out.sort_unstable();
    out
}

/// Reads the pool at `start`, which must not be free. `bytes`: the part of the pool that is in the core.
pub(crate) fn read(shape: &PoolShape, start: Addr, size: u64, bytes: &[[u8; 8]]) -> Pool {
    let word = |at: u64| bytes.get((at >> 3) as usize).map(|w| u64::from_le_bytes(*w));
    let half = |at: u64| Some((word(at & !7)? >> (8 * (at & 4))) & 0xffff_ffff);
    let mut pool = Pool { state: PoolState::Unreadable, block: 0, blocks: 0, used: 0, free: Vec::new(), sound: false };
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
    // Blocks from `nextoffset` on were never allocated. After the last allocation, `nextoffset` exceeds
    // `maxnextoffset`.
    let given = (next.min(last.saturating_add(block)) - shape.header).div_ceil(block).min(pool.blocks);
    pool.free = (0..pool.blocks).map(|i| i >= given).collect();
    let mut count = pool.blocks - given;
    let mut at = first_free;
    let (mut steps, mut sound) = (0, true);
    while !at.is_null() {
        let offset = at.checked_since(start).and_then(|offset| offset.checked_sub(shape.header));
        let index = offset.filter(|offset| offset % block == 0).map(|offset| offset / block);
        let slot = index.and_then(|index| pool.free.get_mut(index as usize));
        // A block that is free already means that the list has a cycle.
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

pub(crate) fn block_at(shape: &PoolShape, pool: Addr, block: u64, index: u64) -> AddrRange {
    AddrRange::sized(pool.wrapping_add(shape.header).wrapping_add(index.wrapping_mul(block)), block)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 4096;
    const START: Addr = Addr::new(0x7f00_0000_4000);
    const SHAPE: PoolShape = PoolShape {
        used: 0,
        free_block: 8,
        next: 16,
        size_index: 36,
        next_offset: 40,
        max_next_offset: 44,
        header: 48,
    };

    /// A pool of 63 blocks of 64 bytes, of which `given` were allocated once. `links`: contents of free blocks, by
    /// block index.
    fn pool(used: u64, given: u64, first: u64, links: &[(u64, u64)]) -> Pool {
        let mut words = vec![0_u64; (SIZE / 8) as usize];
        (words[0], words[1]) = (used, first);
        words[4] = 3 << 32;
        words[5] = (48 + 64 * given) | (SIZE - 64) << 32;
        for &(number, to) in links {
            words[(48 + 64 * number) as usize / 8] = to;
        }
        let bytes: Vec<[u8; 8]> = words.iter().map(|word| word.to_le_bytes()).collect();
        read(&SHAPE, START, SIZE, &bytes)
    }

    fn block(number: u64) -> u64 {
        block_at(&SHAPE, START, 64, number).start.get()
    }

    #[test]
    fn blocks_that_are_free_are_those_of_the_list_and_those_never_given_out() {
        let pool = pool(7, 10, block(4), &[(4, block(9)), (9, block(0))]);
        assert_eq!((pool.state, pool.block, pool.blocks, pool.used, pool.sound), (PoolState::Used, 64, 63, 7, true));
        let in_use: Vec<usize> = (0..63).filter(|&i| !pool.free[i]).collect();
        assert_eq!(in_use, [1, 2, 3, 5, 6, 7, 8]);
    }

    #[test]
    fn a_list_that_is_none_is_told() {
        let odd = [
            ("to itself", block(4)),
            ("in a ring", block(9)),
            ("to what was never given out", block(30)),
            ("out of the pool", START.get() + SIZE),
            ("before it", START.get() - 64),
            ("into the header", START.get()),
            ("between two", block(3) + 16),
            ("nowhere", u64::MAX),
        ];
        for (what, to) in odd {
            let pool = pool(7, 10, block(9), &[(9, block(4)), (4, to)]);
            assert_eq!((pool.state, pool.sound), (PoolState::Used, false), "{what}");
        }
        // Fewer blocks are free than the header says.
        assert!(!pool(6, 10, block(4), &[(4, block(9)), (9, block(0))]).sound);
        assert!(!pool(u64::from(u32::MAX), 10, 0, &[]).sound);
    }

    #[test]
    fn a_header_that_makes_no_sense_is_not_read() {
        let with = |at: usize, word: u64| {
            let mut words = vec![0_u64; (SIZE / 8) as usize];
            (words[4], words[5]) = (3 << 32, 48 | (SIZE - 64) << 32);
            words[at] = word;
            let bytes: Vec<[u8; 8]> = words.iter().map(|word| word.to_le_bytes()).collect();
            read(&SHAPE, START, SIZE, &bytes).state
        };
        assert_eq!(with(0, 0), PoolState::Used);
        // A size class larger than the pool; `nextoffset` inside the header; offsets beyond the pool.
        assert_eq!(with(4, u64::MAX), PoolState::Unreadable);
        assert_eq!(with(5, 0), PoolState::Unreadable);
        assert_eq!(with(5, u64::MAX), PoolState::Unreadable);
        assert_eq!(read(&SHAPE, START, SIZE, &[]).state, PoolState::Unreadable);
    }
}
