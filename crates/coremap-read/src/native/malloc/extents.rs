//! Heaps of allocators other than the C library's: extents that are one block, and slabs of equal blocks with a bitmap.
//!
//! `foreign` recognises the allocators and reads their structures.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::map::Owner;
use crate::native::malloc::{Slot, SlotState};
use crate::sums::SaturatingSum;
use crate::words::AllocatorName;

/// Number of extents per parallel task.
const TASK: usize = 256;

/// Memory that is one block, or a slab of equal blocks.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The extent's memory.
    pub range: AddrRange,
    /// Address of the first block.
    pub start: Addr,
    /// Size of a block in bytes.
    pub size: u64,
    /// For a slab: a set bit for each free block. `None` if the extent is one block.
    pub slab: Option<Box<[u64]>>,
}

/// A number of blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of blocks.
    pub count: u64,
    /// Size of the blocks in bytes.
    pub bytes: u64,
}

impl Sum {
    fn add(&mut self, count: u64, size: u64) {
        self.count = self.count.saturating_add(count);
        self.bytes = self.bytes.saturating_add(count.saturating_mul(size));
    }
}

/// The heap of one allocator.
#[derive(Clone, Debug)]
pub struct ExtentHeap {
    /// The allocator's name.
    pub name: AllocatorName,
    /// The module that contains the allocator.
    pub owner: Owner,
    /// Bytes of all extents, with free ones.
    pub committed: u64,
    /// Allocated extents, by address, disjoint.
    pub extents: Vec<Extent>,
    /// Blocks in threads' caches. The slab's bits say that they are allocated, but they are free.
    pub cached: HashSet<Addr>,
    /// The allocator's own blocks, which the program does not use: the stacks of these caches.
    pub own: HashSet<Addr>,
    /// Number of threads whose cache was not found. Blocks in such a cache count as used.
    pub without_cache: u64,
    /// Number of structures that are inconsistent or not in the core.
    pub unsound: u64,
    /// Bytes of the extents of such structures. Whether these are in use is unknown.
    pub unknown: u64,
    /// How the heap was found.
    pub evidence: String,
}

impl Extent {
    /// Visits the blocks: the start of each, and whether it is allocated.
    pub fn each(&self, mut visit: impl FnMut(Addr, bool)) {
        let Some(slab) = &self.slab else { return visit(self.start, true) };
        for i in 0..self.range.len().checked_div(self.size).unwrap_or(0) {
            let free = slab.get((i / 64) as usize).is_none_or(|word| word >> (i % 64) & 1 != 0);
            visit(self.start.saturating_add(i.saturating_mul(self.size)), !free);
        }
    }

    /// Returns the start of the block that contains `addr`, if that block is allocated.
    pub fn used_at(&self, addr: Addr) -> Option<Addr> {
        let Some(slab) = &self.slab else { return Some(self.start) };
        let number = addr.checked_since(self.start)?.checked_div(self.size)?;
        let used = slab.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 0);
        used.then(|| self.start.saturating_add(number.saturating_mul(self.size)))
    }
}

impl ExtentHeap {
    /// Returns the bytes of extents in use.
    pub fn active(&self) -> u64 {
        self.extents.iter().map(|e| e.range.len()).saturating_sum()
    }

    /// Returns the bytes of free extents.
    pub fn free_extents(&self) -> u64 {
        self.committed.saturating_sub(self.active()).saturating_sub(self.unknown)
    }

    /// Returns the sums of used blocks, of free blocks in extents in use, and of the free blocks in threads' caches.
    pub fn sums(&self) -> (Sum, Sum, Sum) {
        let (mut used, mut free, mut cached) = (Sum::default(), Sum::default(), Sum::default());
        for extent in &self.extents {
            extent.each(|start, given| {
                let waits = given && self.cached.contains(&start);
                cached.add(waits.into(), extent.size);
                if !self.own.contains(&start) {
                    if given && !waits { &mut used } else { &mut free }.add(1, extent.size);
                }
            });
        }
        (used, free, cached)
    }

    /// Visits the blocks in parallel. Each `task` extents share one `A`.
    pub fn walk<A: Send>(
        &self,
        task: usize,
        make: impl Fn() -> A + Sync,
        visit: impl Fn(&mut A, &Slot) + Sync,
    ) -> Vec<A> {
        let walked = self.extents.par_chunks(task.max(1)).map(|extents| {
            let mut sum = make();
            for extent in extents {
                extent.each(|start, given| {
                    if self.own.contains(&start) {
                        return;
                    }
                    let range = AddrRange::sized(start, extent.size);
                    let used = given && !self.cached.contains(&start);
                    let state = if used { SlotState::Used } else { SlotState::Free };
                    let slot =
                        Slot { range, block: range, state, requested: None, damaged: false, mapped: false, group: 0 };
                    visit(&mut sum, &slot);
                });
            }
            sum
        });
        walked.collect()
    }

    /// Visits the blocks like [`ExtentHeap::walk`], with one `A` for many extents.
    pub fn walk_many<A: Send>(&self, make: impl Fn() -> A + Sync, visit: impl Fn(&mut A, &Slot) + Sync) -> Vec<A> {
        self.walk(TASK, make, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> ExtentHeap {
        let range = |start, len| AddrRange::sized(Addr::new(start), len);
        let slab = |start, size, bits: [u64; 8]| Extent {
            range: range(start, 0x1000),
            start: Addr::new(start),
            size,
            slab: Some(Box::new(bits)),
        };
        let mut bits = [0_u64; 8];
        bits[0] = 0b1010;
        let whole = Extent { range: range(0x8000, 0x4000), start: Addr::new(0x8040), size: 0x3000, slab: None };
        ExtentHeap {
            name: AllocatorName::Jemalloc,
            owner: Owner::None,
            committed: 0x5000,
            extents: vec![slab(0x1000, 1024, bits), whole],
            cached: HashSet::from([Addr::new(0x1000)]),
            own: HashSet::new(),
            without_cache: 0,
            unsound: 0,
            unknown: 0,
            evidence: String::new(),
        }
    }

    #[test]
    fn what_waits_in_a_cache_is_free_and_the_rest_as_the_bits_say() {
        let mut heap = heap();
        let (used, free, cached) = heap.sums();
        assert_eq!(used, Sum { count: 2, bytes: 0x3000 + 1024 });
        assert_eq!((free, cached), (Sum { count: 3, bytes: 3 * 1024 }, Sum { count: 1, bytes: 1024 }));
        let visited = heap.walk_many(Vec::new, |list, slot| list.push((slot.block.start.get(), slot.state)));
        let used: Vec<u64> = visited.concat().into_iter().filter(|s| s.1 == SlotState::Used).map(|s| s.0).collect();
        assert_eq!(used, [0x1800, 0x8040]);
        heap.own.insert(Addr::new(0x1800));
        assert_eq!(heap.sums().0, Sum { count: 1, bytes: 0x3000 });
    }

    #[test]
    fn an_address_leads_to_its_block_where_that_is_given_out() {
        let heap = heap();
        let at = |i: usize, addr| heap.extents[i].used_at(Addr::new(addr)).map(Addr::get);
        assert_eq!((at(0, 0x13ff), at(0, 0x1400), at(0, 0x1810)), (Some(0x1000), None, Some(0x1800)));
        assert_eq!((at(1, 0x9000), at(0, 0xfff)), (Some(0x8040), None));
    }
}
