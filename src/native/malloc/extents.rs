//! Heaps of allocators that are no C library's, as `foreign` finds them: extents that are given out whole, and slabs of
//! blocks of one size with a bit for each. What allocator it is, and how it was read, is known there.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::map::Owner;
use crate::native::malloc::{Slot, SlotState};
use crate::words::AllocatorName;

/// Extents that a thread walks at once.
const TASK: usize = 256;

/// Memory that is given out in one piece, or as a slab.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Its memory.
    pub range: AddrRange,
    /// Its first block.
    pub start: Addr,
    /// Bytes of a block.
    pub size: u64,
    /// Of a slab: a bit for each block that is free.
    pub slab: Option<Box<[u64]>>,
}

/// Number and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Blocks.
    pub count: u64,
    /// Their bytes.
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
    /// Which one.
    pub name: AllocatorName,
    /// The module it is in.
    pub owner: Owner,
    /// Bytes of all its extents, with those that are free.
    pub committed: u64,
    /// Those that are given out, by address, none over another.
    pub extents: Vec<Extent>,
    /// Blocks that are given out by the bits and wait in a thread's cache: they are free.
    pub cached: HashSet<Addr>,
    /// Its own blocks, which the program knows nothing of: stacks of these caches.
    pub own: HashSet<Addr>,
    /// Threads whose cache was not found: what is in these counts as used.
    pub without_cache: u64,
    /// Structures whose parts do not agree.
    pub unsound: u64,
    /// How it is known.
    pub evidence: String,
}

impl Extent {
    /// Visit its blocks: where they begin, and whether they are given out.
    pub fn each(&self, mut visit: impl FnMut(Addr, bool)) {
        let Some(slab) = &self.slab else { return visit(self.start, true) };
        for i in 0..self.range.len().checked_div(self.size).unwrap_or(0) {
            let free = slab.get((i / 64) as usize).is_none_or(|word| word >> (i % 64) & 1 != 0);
            visit(self.start.saturating_add(i.saturating_mul(self.size)), !free);
        }
    }

    /// The block that holds `addr`, if it is given out: its start.
    pub fn used_at(&self, addr: Addr) -> Option<Addr> {
        let Some(slab) = &self.slab else { return Some(self.start) };
        let number = addr.checked_since(self.start)?.checked_div(self.size)?;
        let used = slab.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 0);
        used.then(|| self.start.saturating_add(number.saturating_mul(self.size)))
    }
}

impl ExtentHeap {
    /// Blocks that the program holds, those that are free in extents in use, and of these, those in threads' caches.
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

    /// Visit the blocks, each with the extent's number; each `TASK` extents have their own `A`, made for the first one.
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
                        Slot { range, block: range, state, asked: None, damaged: false, mapped: false, group: 0 };
                    visit(&mut sum, &slot);
                });
            }
            sum
        });
        walked.collect()
    }

    /// The same with an `A` for many extents.
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
