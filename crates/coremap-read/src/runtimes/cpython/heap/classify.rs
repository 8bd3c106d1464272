//! Classification of one arena or one object.

use std::collections::HashSet;

use super::arena_index::ArenaIndex;
use super::arena_map::{ArenaMap, Block, FREE, OTHER_BLOCK, PoolMap};
use super::deque::Cursor;
use super::owned::OwnedKind;
use super::source::{Source, word};
use super::tracked::Tracked;
use super::types::{TypeCache, Types};
use super::visit::{OwnedMemory, RawReference, Room, Visitor};
use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::walk::Walks;
use crate::runtimes::cpython::objects::{Objects, PyType, TypeForm, flags};
use crate::runtimes::cpython::obmalloc::pools::{self, PoolShape};
use crate::runtimes::cpython::obmalloc::{Arena, PoolState};
use crate::runtimes::cpython::runtime::Runtime;
use crate::runtimes::cpython::shape::{STACK_REF_TAGS, is_count};

/// References that lead out of an arena's objects to other memory.
#[derive(Default)]
pub(super) struct OutgoingRefs {
    /// Owned memory that begins in an arena: its address, with the number of its kind in the highest byte.
    inside: Vec<u64>,
    /// Other owned memory, with its owner.
    pub(super) owned: Vec<(OwnedMemory, u64)>,
    pub(super) outside: Vec<u64>,
}

/// Bits of a user-space address, on every supported machine.
const ADDRESS_BITS: u32 = 56;

impl OutgoingRefs {
    /// Iterates owned memory that begins in an arena: address and kind.
    pub(super) fn inside(&self) -> impl Iterator<Item = (u64, OwnedKind)> + '_ {
        let of = |word: &u64| {
            let kind = OwnedKind::of_number((word >> ADDRESS_BITS) as u8)?;
            Some((word & ((1 << ADDRESS_BITS) - 1), kind))
        };
        self.inside.iter().filter_map(of)
    }

    /// Removes duplicates, keeping the last of each, and unused capacity.
    fn dedup(&mut self) {
        let mut seen = HashSet::new();
        self.outside.reverse();
        self.outside.retain(|to| seen.insert(*to));
        self.outside.reverse();
        self.outside.shrink_to_fit();
        self.inside.shrink_to_fit();
    }
}

/// What a census needs to classify blocks.
pub(super) struct Classifier<'s, 'p> {
    pub(super) runtime: &'s Runtime<'p>,
    pub(super) objects: Objects<'p>,
    pub(super) types: &'s Types<'p>,
    pub(super) pools: PoolShape,
    pub(super) arenas: ArenaIndex,
    /// Modules of the process. Objects in their data are never freed, and are not part of the heap.
    pub(super) images: Vec<AddrRange>,
    /// The collector's lists.
    pub(super) lists: &'s Tracked,
    pub(super) debug: u64,
}

impl<'p> Classifier<'_, 'p> {
    pub(super) fn visitor<'v>(&'v self, source: &'v Source<'p>, cursor: &'v Cursor) -> Visitor<'v, 'p> {
        Visitor { objects: &self.objects, source, layout: &self.runtime.layout, cursor, room: self }
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor::new(self.runtime.process.facts().size)
    }

    /// Whether `at` is in an arena or in a module.
    #[inline(always)]
    pub(super) fn is_known_address(&self, at: u64) -> bool {
        let at = Addr::new(at);
        self.arenas.find(at).is_some() || {
            let i = self.images.partition_point(|range| range.end <= at);
            self.images.get(i).is_some_and(|range| range.contains(at))
        }
    }

    /// Number of bytes that PYTHONMALLOC=debug puts before each block, judged by the position of a known object in its
    /// block.
    pub(super) fn debug_bytes(&self, source: &Source<'p>, arenas: &[(Arena, u64)]) -> u64 {
        let sample = || {
            let state = self.runtime.view("PyInterpreterState", *self.runtime.interpreters.first()?);
            let object = ["sysdict", "builtins", "modules", "imports.modules"].iter().find_map(|field| {
                let at = state.ptr(field).ok()?;
                Some((at, self.arenas.find(at)?))
            });
            let (at, i) = object?;
            let (arena, size) = arenas.get(i)?;
            let start = at.checked_since(arena.first_pool)? / size * size;
            let start = arena.first_pool.checked_add(start)?;
            let pool = pools::read(&self.pools, start, *size, source.words(start.get(), *size));
            let inside = at.checked_since(start)?.checked_sub(self.pools.header)?.checked_rem(pool.block)?;
            let prefix = self.types.lookup(self.objects.type_of(at)?.get())?.1.prefix;
            inside.checked_sub(prefix)
        };
        sample().filter(|debug| *debug == DEBUG_BYTES).unwrap_or(0)
    }

    /// Type and size of the object at `at`, which is in no arena. `None` if there is no object.
    pub(super) fn object_at<'c>(
        &self,
        source: &Source<'p>,
        at: u64,
        cache: &'c mut TypeCache,
    ) -> Option<(&'c std::sync::Arc<PyType>, u64)> {
        if at & 7 != 0 || at < 4096 {
            return None;
        }
        let shape = &self.objects.shape;
        let words = source.words(at, shape.object + 8);
        let counts = is_count(word(words, shape.refcnt)?, self.runtime.minor());
        let (_, kind) = cache.lookup(self.types, word(words, shape.ob_type)?).filter(|_| counts)?;
        // The whole object must be inside one mapping.
        let object = Addr::new(at);
        let entry = self.runtime.process.base().entries.at(object)?;
        let size = self.size_within(source, at, kind, entry.range.end.checked_since(object)?)?;
        Some((kind, size))
    }

    /// Size of an object in bytes, without its prefix, that is at most `room`. `None` if it does not fit.
    ///
    /// A number of items that does not fit is no reason to doubt an object whose type may have none.
    fn size_within(&self, source: &Source<'p>, at: u64, kind: &PyType, room: u64) -> Option<u64> {
        if let Some(size) = self.size_of(source, at, kind).filter(|size| *size <= room) {
            return Some(size);
        }
        let doubtful = kind.form == TypeForm::Frame
            || kind.may_lack_size() && (!kind.is(flags::HAVE_GC) || self.lists.has(Addr::new(at)));
        (doubtful && kind.basicsize <= room).then_some(kind.basicsize)
    }

    /// Number of words that a frame object has for the variables and operands of its code.
    fn frame_slots(&self, source: &Source<'p>, at: u64) -> Option<u64> {
        let shape = self.objects.shape.frame_object?;
        let frame = source.word(at.wrapping_add(shape.frame))?;
        let code = source.word(frame.checked_add(shape.code)?)? & !STACK_REF_TAGS;
        let count = |offset: u64| {
            let word = source.word(code.checked_add(offset)? & !7)?;
            Some(word >> (8 * (offset & 7)) & 0xffff_ffff)
        };
        let [variables, operands] = shape.slots;
        let slots = count(variables)?.checked_add(count(operands)?)?;
        (slots <= limits::MAX_PY_BASIC_SIZE / WORD).then_some(slots)
    }

    /// Size of an object in bytes, without its prefix.
    fn size_of(&self, source: &Source<'p>, at: u64, kind: &PyType) -> Option<u64> {
        let shape = &self.objects.shape;
        let object = Addr::new(at);
        let count = |sized: u64| Some((source.word(at.wrapping_add(sized))? as i64).unsigned_abs());
        let size = match kind.form {
            TypeForm::Text => {
                let content = self.objects.text_in(object, |offset| source.word(at.wrapping_add(offset)))?;
                match content.compact {
                    true => content.start.checked_since(object)?.checked_add(content.bytes())?,
                    false => kind.basicsize,
                }
            }
            TypeForm::Integer => {
                let digits = self.objects.integer_in(|offset| source.word(at.wrapping_add(offset)))?.digits;
                kind.basicsize.checked_add(digits.checked_mul(kind.itemsize)?)?
            }
            // The size depends on the code that it runs. `itemsize` only shows that it is variable.
            TypeForm::Generator => kind.basicsize,
            TypeForm::Frame => kind.basicsize + WORD * self.frame_slots(source, at).unwrap_or(0),
            _ if kind.itemsize != 0 => kind.basicsize.checked_add(count(shape.ob_size)?.checked_mul(kind.itemsize)?)?,
            _ if kind.is(flags::INLINE_VALUES) => {
                let capacity = shape.dict.capacity?;
                let values = kind.items();
                let head = source.word(at.wrapping_add(values))?;
                values + shape.dict.first_value + 8 * (head >> (8 * (capacity & 7)) & 0xff)
            }
            _ => kind.basicsize,
        };
        (size <= limits::MAX_RUNTIME_RANGE).then_some(size)
    }

    /// Classifies the blocks of an arena.
    pub(super) fn classify_arena(
        &self,
        source: &Source<'p>,
        arena: &Arena,
        size: u64,
        walks: &Walks,
        (cache, cursor): &mut (TypeCache, Cursor),
    ) -> (ArenaMap, OutgoingRefs) {
        let visitor = self.visitor(source, cursor);
        let free = pools::free_pools(self.runtime.memory, &self.pools, arena, walks);
        let mut map = ArenaMap { arena: *arena, pool: size, pools: Vec::new(), states: Vec::new(), first_number: 0 };
        let mut outgoing = OutgoingRefs::default();
        let mut start = arena.first_pool;
        while start < arena.untouched {
            let first = map.states.len() as u32;
            if free.binary_search(&start).is_ok() {
                map.pools.push(PoolMap { start, block: 0, blocks: 0, first, state: PoolState::Free, sound: true });
            } else {
                let pool = pools::read(&self.pools, start, size, source.words(start.get(), size));
                let (block, blocks) = (pool.block as u32, pool.blocks as u32);
                map.pools.push(PoolMap { start, block, blocks, first, state: pool.state, sound: pool.sound });
                for (i, free) in pool.free.iter().enumerate() {
                    let range = pools::block_at(&self.pools, start, pool.block, i as u64);
                    let state = if *free { FREE } else { self.classify_block(&visitor, range, cache, &mut outgoing) };
                    map.states.push(state);
                }
            }
            start = start.saturating_add(size);
        }
        map.states.shrink_to_fit();
        outgoing.dedup();
        (map, outgoing)
    }

    /// Classifies a used block. Adds the references of an object in it to `outgoing`.
    #[inline(always)]
    fn classify_block(
        &self,
        visitor: &Visitor<'_, 'p>,
        range: AddrRange,
        cache: &mut TypeCache,
        outgoing: &mut OutgoingRefs,
    ) -> u8 {
        let source = visitor.source;
        let shape = &self.objects.shape;
        let words = source.words(range.start.get(), range.len());
        // The prefix is empty, or PyGC_Head, or that and the pre-header of a managed dict.
        for before in [0, shape.gc_head, shape.gc_head + shape.pre_header] {
            let prefix = before + self.debug;
            let Some(address) = word(words, prefix + shape.ob_type) else { break };
            // Types are larger than any block of an arena. At this offset, other data usually points into an arena.
            if self.arenas.find(Addr::new(address)).is_some() {
                continue;
            }
            let Some((_, kind)) = cache.lookup(self.types, address) else { continue };
            let at = range.start.wrapping_add(prefix).get();
            // The state of `_bz2`, two consecutive pointers to types, would look like an object of the second type
            // without this check.
            let counts = word(words, prefix + shape.refcnt).is_some_and(|count| is_count(count, self.runtime.minor()));
            if kind.prefix != before || !counts {
                continue;
            }
            let room = range.len().saturating_sub(prefix);
            if self.size_within(source, at, kind, room).is_none() {
                continue;
            }
            let kind = kind.clone();
            self.types.confirm(&kind);
            visitor.each(at, &kind, 0, &mut |_, reference| {
                match reference {
                    RawReference::Object(_, to) if !self.is_known_address(to) => outgoing.outside.push(to),
                    RawReference::Object(..) => {}
                    RawReference::Memory(OwnedMemory { kind, at, .. })
                        if at < 1 << ADDRESS_BITS && self.arenas.find(Addr::new(at)).is_some() =>
                    {
                        outgoing.inside.push(u64::from(kind.number()) << ADDRESS_BITS | at);
                    }
                    RawReference::Memory(memory) => outgoing.owned.push((memory, at)),
                }
                true
            });
            return Block::object(prefix);
        }
        OTHER_BLOCK
    }
}

/// Size in bytes of the largest block of an arena (SMALL_REQUEST_THRESHOLD).
const LARGEST_BLOCK: u64 = 512;

impl Room for Classifier<'_, '_> {
    fn room(&self, at: u64) -> u64 {
        self.arenas.find(Addr::new(at)).map_or(limits::MAX_RUNTIME_RANGE, |_| LARGEST_BLOCK)
    }
}

/// Bytes that PYTHONMALLOC=debug puts before a block: size, API that allocated it, and a fence (_PyMem_DebugRawAlloc).
const DEBUG_BYTES: u64 = 16;
