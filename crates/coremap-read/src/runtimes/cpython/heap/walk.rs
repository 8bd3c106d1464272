//! Walks the blocks of arenas, and the objects outside.

use super::Heap;
use super::arena_map::{ArenaMap, Block, PoolMap};
use super::census::{Census, OutsideBlock};
use super::types::{TypeCache, index_of_owned};
use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{FREE, HeapRange, Object, UnwalkedRanges, Walker};
use crate::runtimes::cpython::obmalloc::PoolState;
use crate::targets::deadline::QUERY_INTERVAL;

pub(super) struct PyWalker<'h, 'p> {
    heap: &'h Heap<'p>,
    cache: TypeCache,
}

impl<'h, 'p> PyWalker<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> PyWalker<'h, 'p> {
        PyWalker { heap, cache: TypeCache::new() }
    }

    /// The object at `at`. `size`: size of its block in bytes, prefix included.
    #[inline(always)]
    fn object(&mut self, at: Addr, size: u64) -> Option<Object> {
        let address = self.heap.source.word(at.wrapping_add(self.heap.objects.shape.ob_type).get())?;
        let (kind, _) = self.cache.lookup(&self.heap.types, address)?;
        Some(Object { addr: at, kind, size })
    }
}

impl PyWalker<'_, '_> {
    /// Visits objects and owned memory outside the arenas.
    fn outside(&mut self, all: &[OutsideBlock], visit: &mut dyn FnMut(&Object)) {
        for (i, outside) in all.iter().enumerate() {
            if i.is_multiple_of(QUERY_INTERVAL) && self.heap.is_late() {
                return;
            }
            let (at, size) = (Addr::new(outside.at), outside.end - outside.start);
            match outside.owned {
                Some(kind) => visit(&Object { addr: at, kind: index_of_owned(kind), size }),
                None => {
                    if let Some(object) = self.object(at, size) {
                        visit(&object);
                    }
                }
            }
        }
    }

    fn pools(
        &mut self,
        map: &ArenaMap,
        pools: &[PoolMap],
        unwalked: &mut UnwalkedRanges,
        visit: &mut dyn FnMut(&Object),
    ) {
        let heap = self.heap;
        for pool in pools {
            let blocks = pool.start.saturating_add(heap.census.header());
            match pool.state {
                PoolState::Used => {}
                PoolState::Free => {
                    let size = map.pool_size().saturating_sub(heap.census.header());
                    visit(&Object { addr: blocks, kind: FREE, size });
                    continue;
                }
                PoolState::Unreadable => {
                    let end = pool.start.saturating_add(map.pool_size());
                    unwalked
                        .add(pool.start.get(), end.get(), || "a pool whose header is missing or invalid".to_owned());
                    continue;
                }
            }
            for (index, block) in map.blocks(pool).enumerate() {
                let range = heap.census.range_of(pool, index as u64);
                let whole = |kind| Object { addr: range.start, kind, size: range.len() };
                match block {
                    Block::Object { prefix } => match self.object(range.start.saturating_add(prefix), range.len()) {
                        Some(object) => visit(&object),
                        None => {
                            unwalked.add(range.start.get(), range.end.get(), || "an object without a type".to_owned())
                        }
                    },
                    other => {
                        if let Some(kind) = Census::pseudo_type(other) {
                            visit(&whole(kind));
                        }
                    }
                }
            }
        }
    }
}

impl Walker for PyWalker<'_, '_> {
    fn walk(&mut self, heap_range: &HeapRange, unwalked: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object)) {
        let heap = self.heap;
        if heap.is_late() {
            return;
        }
        match heap.census.arena_of_range(heap_range) {
            Some(map) => self.pools(map, &map.pools, unwalked, visit),
            None => self.outside(heap.census.outside_in(heap_range.range), visit),
        }
    }
}

impl Heap<'_> {
    /// Visits everything that overlaps `range`, and all blocks of pools that overlap it: pool headers, and the objects
    /// of a walk.
    pub(crate) fn each_in(&self, range: AddrRange, header: &mut dyn FnMut(AddrRange), visit: &mut dyn FnMut(&Object)) {
        let mut walker = PyWalker::new(self);
        let first = self.census.arenas.partition_point(|map| map.arena.range.end <= range.start);
        let arenas = self.census.arenas.iter().skip(first);
        for map in arenas.take_while(|map| map.arena.range.start < range.end) {
            let from = map.pools.partition_point(|pool| pool.start.saturating_add(map.pool_size()) <= range.start);
            let to = map.pools.partition_point(|pool| pool.start < range.end);
            let pools = map.pools.get(from..to).unwrap_or_default();
            pools.iter().for_each(|pool| header(AddrRange::sized(pool.start, self.census.header())));
            walker.pools(map, pools, &mut UnwalkedRanges::default(), visit);
        }
        walker.outside(self.census.outside_over(range), visit);
    }
}
