//! Classifies the blocks of obmalloc, and finds objects outside the arenas.
//!
//! Arenas are classified in parallel. A used block is an object if its type, header and size agree. Memory owned by
//! objects, and references out of the arenas, are collected on the way. A search then follows those references, and the
//! references of the objects found.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::arena_index::ArenaIndex;
use super::arena_map::{ArenaMap, Block, OWNED, PoolMap, TRACKED};
use super::classify::{Classifier, OutgoingRefs};
use super::owned::OwnedKind;
use super::source::Source;
use super::tracked::Tracked;
use super::types::{OTHER, TypeCache, Types, index_of_owned};
use super::visit::{RawReference, Room};
use super::{MALLOC, MIN_OBJECT, PYMALLOC};
use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{HeapRange, TypeIndex};
use crate::runtimes::cpython::objects::{Objects, flags};
use crate::runtimes::cpython::obmalloc::pools::{self, PoolShape};
use crate::runtimes::cpython::obmalloc::{Arena, Arenas, PoolState};
use crate::runtimes::cpython::runtime::{PyError, Runtime};

/// An object outside the arenas, or memory there that an object owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutsideBlock {
    /// Start of the object, including its prefix.
    pub(super) start: u64,
    /// Address of the object, as references to it have it.
    pub(super) at: u64,
    pub(super) end: u64,
    /// Kind of the owned memory. `None` for an object.
    pub(super) owned: Option<OwnedKind>,
    /// Address of the owner. 0 for an object.
    pub(super) owner: u64,
    tracked: bool,
}

pub(super) struct Census {
    pub(super) arenas: Vec<ArenaMap>,
    /// Objects and owned memory outside the arenas, sorted by address and disjoint.
    pub(super) outside: Vec<OutsideBlock>,
    arena_index: ArenaIndex,
    pub(super) pool_shape: PoolShape,
    blocks: usize,
    /// Number of bytes that PYTHONMALLOC=debug puts before each block.
    pub(super) debug: u64,
}

impl Census {
    /// Classifies all arenas, and searches what they reference.
    pub(super) fn read<'p>(
        runtime: &Runtime<'p>,
        types: &Types<'p>,
        arenas: &[Arenas],
        lists: &Tracked,
        notes: &mut Vec<String>,
    ) -> Result<Census, PyError> {
        let _phase = runtime.process.enter(Phase::Objects);
        let mut all: Vec<(Arena, u64)> =
            arenas.iter().flat_map(|a| a.all.iter().map(|arena| (*arena, a.pool))).collect();
        all.sort_by_key(|(arena, _)| arena.range.start);
        let before = all.len();
        all.dedup_by(|next, kept| next.0.range.start < kept.0.range.end);
        if all.len() < before {
            notes.push(format!("{} overlapping arenas are ignored", before - all.len()));
        }
        let source = Source::new(
            runtime.process,
            all.iter().map(|(arena, _)| AddrRange::new(arena.first_pool, arena.untouched.max(arena.first_pool))),
            MIN_OBJECT,
        );
        // Ranges of modules may be nested.
        let images = union(runtime.process.modules.iter().map(|m| m.range).collect());
        let mut classifier = Classifier {
            runtime,
            objects: runtime.objects(),
            types,
            pools: PoolShape::of(&runtime.layout)?,
            arenas: ArenaIndex::new(all.iter().map(|(arena, _)| arena.range).collect()),
            images,
            lists,
            debug: 0,
        };
        classifier.debug = classifier.debug_bytes(&source, &all);
        let walks = Walks::new(Phase::Objects, limits::MAX_PY_ARENAS as usize);
        let maps: Vec<(ArenaMap, OutgoingRefs)> = all
            .par_iter()
            .map_init(
                || (TypeCache::of_guesses(), classifier.cursor()),
                |share, (arena, pool)| classifier.classify_arena(&source, arena, *pool, &walks, share),
            )
            .collect();
        let mut census = Census {
            arenas: Vec::new(),
            outside: Vec::new(),
            arena_index: classifier.arenas.clone(),
            pool_shape: classifier.pools,
            blocks: 0,
            debug: classifier.debug,
        };
        let (mut outgoing, mut inside) = (OutgoingRefs::default(), Vec::with_capacity(maps.len()));
        for (mut map, mut found) in maps {
            map.first_number = census.blocks;
            census.blocks += map.states.len();
            census.arenas.push(map);
            outgoing.owned.append(&mut found.owned);
            outgoing.outside.append(&mut found.outside);
            inside.push(found);
        }
        let tracked = lists.objects.iter().map(|at| at.get());
        outgoing.outside.extend(tracked.filter(|at| !classifier.is_known_address(*at)));
        census.flag_tracked(lists);
        for (at, kind) in inside.iter().flat_map(OutgoingRefs::inside) {
            census.mark_owned(&classifier, at, kind);
        }
        drop(inside);
        census.search(&classifier, &source, outgoing, notes);
        let unsound =
            census.arenas.iter().flat_map(|a| &a.pools).filter(|p| p.state == PoolState::Used && !p.sound).count();
        if unsound > 0 {
            notes.push(format!("{unsound} pools have a list of free blocks that disagrees with their header"));
        }
        Ok(census)
    }

    /// Follows references out of the arenas, and marks owned memory.
    fn search(
        &mut self,
        classifier: &Classifier<'_, '_>,
        source: &Source<'_>,
        outgoing: OutgoingRefs,
        notes: &mut Vec<String>,
    ) {
        let lists = classifier.lists;
        let cursor = classifier.cursor();
        let visitor = classifier.visitor(source, &cursor);
        let mut cache = TypeCache::of_guesses();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut found: Vec<OutsideBlock> = Vec::new();
        let (mut queue, mut owned) = (outgoing.outside, outgoing.owned);
        let mut left_out = 0_u64;
        while let Some(at) = queue.pop() {
            if seen.contains(&at) || classifier.is_known_address(at) {
                continue;
            }
            let Some((kind, size)) = classifier.object_at(source, at, &mut cache) else { continue };
            // Instances of classes are tracked for their whole life. One that is in no list is a remnant.
            if kind.is(flags::HEAPTYPE) && kind.is(flags::HAVE_GC) && !lists.has(Addr::new(at)) {
                continue;
            }
            if found.len() >= limits::MAX_PY_OUTSIDE {
                left_out += 1;
                continue;
            }
            seen.insert(at);
            let start = at.saturating_sub(kind.prefix + classifier.debug);
            let tracked = lists.has(Addr::new(at));
            found.push(OutsideBlock { start, at, end: at.saturating_add(size), owned: None, owner: 0, tracked });
            let kind = kind.clone();
            classifier.types.confirm(&kind);
            visitor.each(at, &kind, 0, &mut |_, reference| {
                match reference {
                    RawReference::Object(_, to) if !classifier.is_known_address(to) && !seen.contains(&to) => {
                        queue.push(to)
                    }
                    RawReference::Object(..) => {}
                    RawReference::Memory(memory) => owned.push((memory, at)),
                }
                true
            });
        }
        for (memory, owner) in owned {
            if self.mark_owned(classifier, memory.at, memory.kind) || classifier.is_known_address(memory.at) {
                continue;
            }
            let at = Addr::new(memory.at);
            let end = at.saturating_add(memory.bytes).get();
            if classifier.runtime.process.base().entries.at(at).is_none() {
                continue;
            }
            let tracked = lists.has(at);
            found.push(OutsideBlock { start: memory.at, at: memory.at, end, owned: Some(memory.kind), owner, tracked });
        }
        // At the same address, tracked objects precede untracked ones, and objects precede memory.
        found.sort_by_key(|o| (o.start, !o.tracked, o.owned.is_some(), std::cmp::Reverse(o.end)));
        for outside in found.into_iter().filter(|o| o.end > o.start) {
            while outside.tracked && self.outside.last().is_some_and(|last| last.end > outside.start && !last.tracked) {
                self.outside.pop();
            }
            if self.outside.last().is_none_or(|last| last.end <= outside.start) {
                self.outside.push(outside);
            }
        }
        if left_out > 0 {
            notes.push(format!("{left_out} objects outside of the arenas are over the limit and ignored"));
        }
    }

    /// Marks a block as owned memory. Returns whether it is in an arena.
    fn mark_owned(&mut self, classifier: &Classifier<'_, '_>, at: u64, kind: OwnedKind) -> bool {
        let at = Addr::new(at);
        let Some(i) = classifier.arenas.find(at) else { return false };
        let Some(map) = self.arenas.get_mut(i) else { return true };
        let place = map.locate_block(&classifier.pools, at).map(|(_, _, place)| place);
        // A list's items [x, int] look like an integer object. Ownership is the better evidence, unless the collector
        // tracks the object.
        if let Some(state) = place.and_then(|place| map.states.get_mut(place))
            && Block::of(*state) != Block::Free
            && *state & TRACKED == 0
        {
            *state = OWNED + kind.number();
        }
        true
    }

    fn flag_tracked(&mut self, lists: &Tracked) {
        let shape = self.pool_shape;
        for &at in &lists.objects {
            let Some(map) = self.arena_at(at).and_then(|i| self.arenas.get_mut(i)) else { continue };
            let place = map.locate_block(&shape, at).map(|(_, _, place)| place);
            if let Some(state) = place.and_then(|place| map.states.get_mut(place)) {
                *state |= TRACKED;
            }
        }
    }

    /// Number of tracked objects by type. They may include static objects of modules.
    pub(super) fn count_tracked(objects: &Objects<'_>, types: &Types<'_>, lists: &Tracked) -> HashMap<TypeIndex, u64> {
        let mut counts = HashMap::new();
        let mut cache = TypeCache::new();
        for &at in &lists.objects {
            let kind = objects.type_of(at).and_then(|kind| Some(cache.lookup(types, kind.get())?.0));
            if let Some(kind) = kind {
                *counts.entry(kind).or_insert(0) += 1;
            }
        }
        counts
    }

    #[inline(always)]
    pub(super) fn arena_at(&self, at: Addr) -> Option<usize> {
        self.arena_index.find(at)
    }

    /// The arena at the start of a part. `None` for a part outside the arenas.
    pub(super) fn arena_of_range(&self, heap_range: &HeapRange) -> Option<&ArenaMap> {
        self.arena_at(heap_range.range.start).and_then(|i| self.arenas.get(i))
    }

    /// Objects and owned memory outside the arenas that start in `range`.
    pub(super) fn outside_in(&self, range: AddrRange) -> &[OutsideBlock] {
        let from = self.outside.partition_point(|o| o.start < range.start.get());
        let to = self.outside.partition_point(|o| o.start < range.end.get());
        self.outside.get(from..to).unwrap_or_default()
    }

    /// Objects and owned memory outside the arenas that overlap `range`.
    pub(super) fn outside_over(&self, range: AddrRange) -> &[OutsideBlock] {
        let from = self.outside.partition_point(|o| o.end <= range.start.get());
        let to = self.outside.partition_point(|o| o.start < range.end.get());
        self.outside.get(from..to).unwrap_or_default()
    }

    /// What begins at `at`, with the size of its whole block: an object, owned memory, or another used block.
    #[inline(always)]
    pub(super) fn entry_at(&self, at: Addr) -> Option<(Block, u64)> {
        if let Some(i) = self.arena_at(at) {
            let map = self.arenas.get(i)?;
            let (pool, inside, place) = map.locate_block(&self.pool_shape, at)?;
            let block = Block::of(*map.states.get(place)?);
            let begins = match block {
                Block::Object { prefix } => prefix == inside,
                Block::Owned(_) | Block::Other => inside == 0,
                Block::Free => false,
            };
            return begins.then_some((block, u64::from(pool.block)));
        }
        let i = self.outside.binary_search_by_key(&at.get(), |o| o.at).ok()?;
        let outside = self.outside.get(i)?;
        let block = outside.owned.map_or(Block::Object { prefix: outside.at - outside.start }, Block::Owned);
        Some((block, outside.end - outside.start))
    }

    /// Size in bytes of the block of the object at `at`. `None` if no object begins there.
    #[inline(always)]
    pub(super) fn object_at(&self, at: Addr) -> Option<u64> {
        self.entry_at(at).filter(|(block, _)| matches!(block, Block::Object { .. })).map(|(_, size)| size)
    }

    /// Start of the block of owned memory that `at` points into.
    pub(super) fn owned_start(&self, at: Addr) -> Option<Addr> {
        if let Some((range, block)) = self.block_at(at) {
            return matches!(block, Block::Owned(_)).then_some(range.start);
        }
        self.entry_at(at).filter(|(block, _)| matches!(block, Block::Owned(_))).map(|_| at)
    }

    /// The block of an arena that contains `at`, and its range.
    pub(super) fn block_at(&self, at: Addr) -> Option<(AddrRange, Block)> {
        let map = self.arenas.get(self.arena_at(at)?)?;
        let (pool, inside, place) = map.locate_block(&self.pool_shape, at)?;
        let start = at.checked_sub(inside)?;
        Some((AddrRange::sized(start, u64::from(pool.block)), Block::of(*map.states.get(place)?)))
    }

    /// Number of values that [`Census::number_of`] can return: one per block, and one per entry of `outside`.
    pub(super) fn number_limit(&self) -> usize {
        self.blocks + self.outside.len()
    }

    /// Number of the block that contains `at`, or of the object or memory outside the arenas that begins at `at`.
    #[inline(always)]
    pub(super) fn number_of(&self, at: Addr) -> Option<usize> {
        if let Some(i) = self.arena_at(at) {
            let map = self.arenas.get(i)?;
            let (_, _, place) = map.locate_block(&self.pool_shape, at)?;
            return Some(map.first_number + place);
        }
        let i = self.outside.binary_search_by_key(&at.get(), |o| o.at).ok()?;
        Some(self.blocks + i)
    }

    /// Parts of the heap, sorted by address: one per arena, and the runs of objects outside.
    pub(super) fn ranges(&self, runtime: &Runtime<'_>) -> Vec<HeapRange> {
        let arenas = self.arenas.iter().map(|map| {
            let range = AddrRange::new(map.arena.first_pool, map.arena.untouched.max(map.arena.first_pool));
            HeapRange { heap: 0, generation: PYMALLOC, range }
        });
        let mut out: Vec<HeapRange> = arenas.filter(|heap_range| !heap_range.range.is_empty()).collect();
        let base = &runtime.process.base().entries;
        let mut last: Option<(AddrRange, AddrRange)> = None;
        for outside in &self.outside {
            let range = AddrRange::new(Addr::new(outside.start), Addr::new(outside.end));
            match &mut last {
                // Joined within one mapping if the gap is small. A gap costs a bit per word.
                Some((run, entry))
                    if entry.contains(range.start)
                        && range.start.since(run.end) <= MAX_GAP
                        && !self.has_arena_between(run.end, range.start) =>
                {
                    run.end = range.end;
                }
                _ => {
                    out.extend(last.take().map(|(range, _)| HeapRange { heap: 0, generation: MALLOC, range }));
                    let entry = base.at(range.start).map_or(range, |entry| entry.range);
                    last = Some((range, entry));
                }
            }
        }
        out.extend(last.map(|(range, _)| HeapRange { heap: 0, generation: MALLOC, range }));
        out.sort_by_key(|heap_range| heap_range.range.start);
        out
    }

    fn has_arena_between(&self, from: Addr, to: Addr) -> bool {
        let i = self.arenas.partition_point(|map| map.arena.range.end <= from);
        self.arenas.get(i).is_some_and(|map| map.arena.range.start < to)
    }

    pub(super) fn each_owned_outside(&self, mut visit: impl FnMut(AddrRange, OwnedKind, Addr)) {
        for outside in &self.outside {
            if let Some(kind) = outside.owned {
                let range = AddrRange::new(Addr::new(outside.start), Addr::new(outside.end));
                visit(range, kind, Addr::new(outside.owner));
            }
        }
    }

    /// Type index under which a used block is counted. `None` for an object.
    pub(super) fn pseudo_type(block: Block) -> Option<TypeIndex> {
        match block {
            Block::Free => Some(crate::runtimes::api::FREE),
            Block::Other => Some(OTHER),
            Block::Owned(kind) => Some(index_of_owned(kind)),
            Block::Object { .. } => None,
        }
    }

    pub(super) fn range_of(&self, pool: &PoolMap, index: u64) -> AddrRange {
        pools::block_at(&self.pool_shape, pool.start, u64::from(pool.block), index)
    }

    pub(super) fn header(&self) -> u64 {
        self.pool_shape.header
    }
}

impl Room for Census {
    fn room(&self, at: u64) -> u64 {
        self.object_at(Addr::new(at)).unwrap_or(limits::MAX_RUNTIME_RANGE)
    }
}

/// Maximum gap in bytes within one part outside the arenas.
const MAX_GAP: u64 = 1 << 20;
