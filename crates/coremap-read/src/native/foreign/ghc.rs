//! GHC (Haskell): megablocks of its heap.
//!
//! A megablock of 1 MiB begins with block descriptors (`bdescr`, 64 bytes), one per block of 4 KiB. The blocks with the
//! descriptors themselves have none. Each descriptor begins with its block's address. In a group of several megablocks,
//! only the first has descriptors, and the first descriptor has the number of blocks. Source:
//! rts/include/rts/storage/Block.h, rts/sm/BlockAlloc.c of GHC 8 to 9.

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::{Kind, Owner};

/// MBLOCK_SIZE, BLOCK_SIZE, and the padded size of `bdescr`, in bytes.
const MEGABLOCK: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const DESCRIPTION: u64 = 64;

/// Number of blocks with descriptors (FIRST_BLOCK), and of all blocks.
const FIRST: u64 = DESCRIPTION * MEGABLOCK / BLOCK / BLOCK;
const BLOCKS: u64 = MEGABLOCK / BLOCK;

/// Offset of `bdescr.blocks`, 32 bits.
const COUNT: u64 = 48;

/// Indexes of the descriptors that are checked in each megablock.
const TRIED: [u64; 4] = [FIRST, FIRST + 1, FIRST + 2, BLOCKS - 1];

/// Minimum number of megablock groups. Even a small program has several.
const ENOUGH: usize = 2;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    if !scene.starts(MEGABLOCK).into_iter().any(|at| megablocks(scene, at).is_some()) {
        return;
    }
    let mut list = Vec::new();
    scene.each_aligned(MEGABLOCK, |at| {
        list.extend(megablocks(scene, at));
        list.len() < limits::MAX_FOREIGN_RANGES
    });
    if list.len() < ENOUGH {
        return;
    }
    let owner = scene.images.iter().find(|i| i.is_program).map_or(Owner::None, |i| i.owner);
    let evidence = format!("{} megablock groups that begin with block descriptors", list.len());
    found.add(list, &Label::derived(Kind::RuntimeHeap, owner, "GHC: heap megablocks", evidence));
}

/// Returns the megablock at `at`, with the following ones of its group.
fn megablocks(scene: &Scene<'_>, at: Addr) -> Option<AddrRange> {
    let open = scene.unclaimed_at(at)?;
    let describes = |block: u64| {
        let start = scene.memory.peek_u64(at.saturating_add(block * DESCRIPTION)).map(Addr::new);
        start.is_ok_and(|start| start == at.saturating_add(block * BLOCK))
    };
    if !TRIED.into_iter().all(describes) {
        return None;
    }
    let count_at = at.saturating_add(FIRST * DESCRIPTION + COUNT);
    let count = scene.memory.peek_u64(count_at).ok()? & 0xffff_ffff;
    scene.keep(count_at, 1);
    // BLOCKS_TO_MBLOCKS: only the first megablock uses blocks for descriptors.
    let behind = count.saturating_sub(BLOCKS - FIRST).div_ceil(BLOCKS);
    AddrRange::sized(at, (1 + behind) * MEGABLOCK).intersect(&open)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const A: u64 = 0x42_0000_0000;

    fn recognise(count: u64, wrong: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64).map(A, 4 << 20);
        for i in 0..count {
            let at = A + i * MEGABLOCK;
            for block in FIRST..BLOCKS {
                lab.put(at + block * DESCRIPTION, &[at + block * BLOCK + wrong, 0, 0, 0, 0, 0, 1]);
            }
        }
        // The last one is the first of a group of two.
        lab.put(A + (count - 1) * MEGABLOCK + FIRST * DESCRIPTION + COUNT, &[BLOCKS - FIRST + 3]);
        lab.recognise(find, ("any-program", range(0x1_0000, 64)), &[range(A, 4 << 20)])
    }

    #[test]
    fn megablocks_describe_their_blocks() {
        let found = recognise(2, 0);
        assert_eq!((found.len(), found[0].0), (1, range(A, 3 * MEGABLOCK)));
        assert!(recognise(2, BLOCK).is_empty());
        assert!(recognise(1, 0).is_empty());
    }
}
