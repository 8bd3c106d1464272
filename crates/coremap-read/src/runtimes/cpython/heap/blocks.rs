//! obmalloc's blocks: sums by size, the block at an address, and its owner.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::arena_map::{ArenaMap, Block};
use super::types::TypeCache;
use super::visit::RawReference;
use super::{Heap, OwnedKind};
use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::{Heap as _, SmallArena, SmallBlock, SmallBlockSums, SmallClass, UnwalkedRanges};
use crate::runtimes::cpython::obmalloc::PoolState;

const NAME: &str = "obmalloc";

impl Heap<'_> {
    /// Sums of all blocks by size, as `sys._debugmallocstats()` counts them. `None` if there are no arenas.
    pub fn small_blocks(&self) -> Option<&SmallBlockSums> {
        self.small_blocks.get_or_init(|| self.count_blocks()).as_ref()
    }

    fn count_blocks(&self) -> Option<SmallBlockSums> {
        let first = self.arenas.iter().find(|arenas| !arenas.all.is_empty())?;
        let mut sum =
            SmallBlockSums { name: NAME, arena_size: first.arena, pool_size: first.pool, ..SmallBlockSums::default() };
        let mut sizes: BTreeMap<u32, SmallClass> = BTreeMap::new();
        for map in &self.census.arenas {
            sum.arenas.push(self.add_arena(map, &mut sum.lost_pools, &mut sizes));
        }
        sum.free_pools = sum.arenas.iter().map(|arena| arena.free_pools).fold(0, u64::saturating_add);
        sum.classes = sizes.into_values().collect();
        sum.pools = sum.classes.iter().map(|class| class.pools).fold(0, u64::saturating_add);
        sum.headers = sum.pools.saturating_mul(self.census.header());
        Some(sum)
    }

    fn add_arena(&self, map: &ArenaMap, lost: &mut u64, sizes: &mut BTreeMap<u32, SmallClass>) -> SmallArena {
        let mut arena = SmallArena { range: map.arena.range, used: 0, free_pools: 0 };
        let untouched = map.arena.range.end.since(map.arena.untouched.max(map.arena.first_pool));
        arena.free_pools = untouched.checked_div(map.pool_size()).unwrap_or(0);
        for pool in &map.pools {
            match pool.state {
                PoolState::Free => arena.free_pools += 1,
                PoolState::Unreadable => *lost += 1,
                PoolState::Used => {
                    *lost += u64::from(!pool.sound);
                    let class = sizes.entry(pool.block).or_default();
                    let free = map.blocks(pool).filter(|block| *block == Block::Free).count() as u64;
                    let used = u64::from(pool.blocks).saturating_sub(free);
                    class.size = u64::from(pool.block);
                    class.pools += 1;
                    class.free += free;
                    class.used += used;
                    arena.used = arena.used.saturating_add(used.saturating_mul(class.size));
                }
            }
        }
        arena
    }

    /// Number and bytes of objects outside the arenas, and of memory there that objects own.
    pub fn outside_sums(&self) -> ((u64, u64), (u64, u64)) {
        let (mut objects, mut owned) = ((0_u64, 0_u64), (0_u64, 0_u64));
        for outside in &self.census.outside {
            let sum = if outside.owned.is_some() { &mut owned } else { &mut objects };
            *sum = (sum.0 + 1, sum.1.saturating_add(outside.end.saturating_sub(outside.start)));
        }
        (objects, owned)
    }

    /// Bytes in used blocks, plus objects and owned memory outside the arenas.
    pub fn bytes(&self) -> u64 {
        let (objects, owned) = self.outside_sums();
        let inside = self.small_blocks().map_or(0, SmallBlockSums::used_bytes);
        inside.saturating_add(objects.1).saturating_add(owned.1)
    }

    /// The block that contains `at`.
    pub fn small_block(&self, at: Addr) -> Option<SmallBlock> {
        let map = self.census.arena_at(at).and_then(|i| self.census.arenas.get(i))?;
        let (pool, inside, _) = map.locate_block(&self.census.pool_shape, at)?;
        let (range, block) = self.census.block_at(at)?;
        debug_assert_eq!(range.start.checked_add(inside), Some(at));
        Some(SmallBlock { range, used: block != Block::Free, pool: pool.start, arena: map.arena.range.start })
    }

    /// The owned memory in an arena that contains `at`: its range, kind and owner. To find the owner, all objects are
    /// visited.
    pub fn owned_in_arenas(&self, at: Addr) -> Option<(AddrRange, OwnedKind, Addr)> {
        let (range, block) = self.census.block_at(at)?;
        let Block::Owned(kind) = block else { return None };
        let found = self.ranges.par_iter().find_map_any(|heap_range| {
            let mut found = None;
            let (mut cache, cursor) = (TypeCache::new(), self.cursor());
            self.walker().walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                if found.is_some() || self.types.get(object.kind).is_none() {
                    return;
                }
                let address = self.objects.type_of(object.addr).map_or(0, Addr::get);
                let Some((_, of)) = cache.lookup(&self.types, address) else { return };
                self.visitor(&cursor).each(object.addr.get(), of, 0, &mut |_, reference| {
                    if let RawReference::Memory(owned) = reference
                        && range.contains(Addr::new(owned.at))
                    {
                        found = Some((AddrRange::sized(Addr::new(owned.at), owned.bytes), object.addr));
                    }
                    found.is_none()
                });
            });
            found
        });
        found.map(|(memory, owner)| (memory, kind, owner))
    }
}
