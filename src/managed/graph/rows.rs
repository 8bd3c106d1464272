//! The references of all objects, by number: read from the heap once, and looked up from then on.
//!
//! Sixteen objects are a block: how many references each has, in a byte, and the references behind it, as differences to the
//! block's first object in as few bytes as the farthest of them takes. So what an object refers to is found in two
//! steps, of which the first is a small table, and takes two to four bytes for a reference and one and a quarter for an object.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::managed::graph::room::{GraphError, Held, Room, Table};

/// Objects of a chunk, which is what a thread takes at once.
pub(super) const CHUNK: u32 = 1 << 16;

/// Objects of a block.
pub(super) const BLOCK: usize = 16;

/// In the place of a reference that leads to no object.
pub(super) const STRAY: u32 = u32::MAX;

/// A block without references.
const NONE: u32 = u32::MAX;

/// In the place of a count: it stands in the four bytes before the references.
const MANY: u8 = u8::MAX;

/// What objects refer to.
pub(super) struct Rows {
    chunks: Vec<Chunk>,
    /// Where the bytes of chunks are.
    pieces: Vec<Table<u8>>,
    /// How many references there are.
    pub(super) references: u64,
}

/// That of some objects.
pub(super) struct Chunk {
    /// Where each block begins, in units of `1 << unit` bytes, above two bits that tell how many references each of its
    /// objects has, if all have as many, and two that tell how many bytes a reference takes, less one.
    blocks: Box<[u32]>,
    unit: u8,
    bytes: Place,
    references: u64,
    _held: Held,
}

/// Where the bytes of a chunk are.
struct Place {
    /// In which table.
    piece: usize,
    /// From where on, and how many.
    at: usize,
    len: usize,
}

/// Builds the references of the objects of a chunk, which are told one after the other.
#[derive(Default)]
pub(super) struct Builder {
    /// Blocks before this one: where they begin, and the lowest bits of what tells of them.
    blocks: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    counts: [u32; BLOCK],
    filled: usize,
    targets: Vec<u32>,
    /// How many of these are of objects that are ended.
    ended: usize,
    /// The number of the block's first object.
    first: u32,
    references: u64,
}

/// Bytes behind the last reference, so that four can be read of each.
const BEHIND: usize = 4;

/// Blocks begin at multiples of this; at greater ones where a chunk has more references than places can be told of.
const UNIT: u32 = 2;

impl Builder {
    /// For objects from `first` on.
    pub(super) fn from(first: u32) -> Builder {
        Builder { first, ..Builder::default() }
    }

    /// One more reference of the object that is next, or [`STRAY`].
    #[inline(always)]
    pub(super) fn push(&mut self, target: u32) {
        self.targets.push(target);
    }

    /// That object has no more.
    #[inline(always)]
    pub(super) fn end(&mut self) -> Result<u32, GraphError> {
        let count = u32::try_from(self.targets.len() - self.ended).map_err(|_| GraphError::TooMany)?;
        self.ended = self.targets.len();
        if let Some(place) = self.counts.get_mut(self.filled) {
            *place = count;
        }
        self.filled += 1;
        if self.filled == BLOCK {
            self.close();
        }
        Ok(count)
    }

    fn close(&mut self) {
        let first = self.first;
        self.first += BLOCK as u32;
        (self.filled, self.ended) = (0, 0);
        let counts = std::mem::take(&mut self.counts);
        if self.targets.is_empty() {
            self.blocks.push((u64::MAX, 0));
            return;
        }
        self.references += self.targets.len() as u64;
        let far = |&to: &u32| if to == STRAY { 0 } else { (i64::from(to) - i64::from(first)).unsigned_abs() };
        let farthest = self.targets.iter().map(far).max().unwrap_or(0);
        let width = (1..4).find(|width| farthest < (1 << (8 * width - 1)) - 1).unwrap_or(4);
        let each = counts[0];
        let alike = each <= 3 && counts.iter().all(|&count| count == each);
        // One with one reference each of four bytes is a line of memory: it is to be in one.
        let align = if alike && each == 1 && width == 4 { 64 } else { 1 << UNIT };
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.blocks.push((self.bytes.len() as u64, (if alike { each } else { 0 }) << 2 | (width - 1)));
        if !alike {
            self.bytes.extend(counts.map(|n| if n < u32::from(MANY) { n as u8 } else { MANY }));
        }
        let mut targets = self.targets.drain(..);
        for count in counts {
            if count >= u32::from(MANY) {
                self.bytes.extend(count.to_le_bytes());
            }
            for to in targets.by_ref().take(count as usize) {
                let coded = if to == STRAY { STRAY } else { to.wrapping_sub(first).wrapping_add(bias(width)) };
                // All four and back is less work than so many.
                self.bytes.extend_from_slice(&coded.to_le_bytes());
                self.bytes.truncate(self.bytes.len() - (4 - width as usize));
            }
        }
    }

    /// All of them, whose bytes go where there is room.
    pub(super) fn finish(mut self, store: &Store<'_>) -> Result<Chunk, GraphError> {
        if self.filled > 0 {
            self.close();
        }
        let unit = (UNIT..).find(|unit| self.bytes.len() as u64 >> unit < 1 << 28).unwrap_or(UNIT);
        if unit > UNIT {
            self.realign(unit);
        }
        let code = |&(at, low): &(u64, u32)| if at == u64::MAX { NONE } else { ((at >> unit) as u32) << 4 | low };
        let blocks = self.blocks.iter().map(code).collect();
        if !self.bytes.is_empty() {
            self.bytes.extend([0; BEHIND]);
        }
        let held = store.room.hold(4 * self.blocks.len() as u64);
        let references = self.references;
        Ok(Chunk { blocks, unit: unit as u8, bytes: store.keep(&self.bytes)?, references, _held: held })
    }

    /// Let blocks begin at multiples of `1 << unit`.
    fn realign(&mut self, unit: u32) {
        let old = std::mem::take(&mut self.bytes);
        let ends: Vec<u64> = self.blocks.iter().map(|b| b.0).filter(|&at| at != u64::MAX).skip(1).collect();
        let mut ends = ends.into_iter().chain([old.len() as u64]);
        for (at, _) in self.blocks.iter_mut().filter(|(at, _)| *at != u64::MAX) {
            let (from, to) = (*at as usize, ends.next().unwrap_or(0) as usize);
            self.bytes.resize(self.bytes.len().next_multiple_of(1 << unit), 0);
            *at = self.bytes.len() as u64;
            self.bytes.extend(old.get(from..to).unwrap_or_default());
        }
    }
}

/// What is added to differences, so that none is below zero. The value of all bits is left for [`STRAY`].
#[inline(always)]
fn bias(width: u32) -> u32 {
    1 << (8 * width - 1)
}

/// Where the bytes of chunks go: one behind the other, into tables that each take many.
pub(super) struct Store<'r> {
    room: &'r Room,
    inner: Mutex<Pieces>,
    /// Bytes of a table.
    piece: usize,
}

/// Such tables.
#[derive(Default)]
struct Pieces {
    all: Vec<Table<u8>>,
    /// Bytes of the last that are taken.
    taken: usize,
}

/// Bytes of the tables, and how many are expected for an object.
const PIECES: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 24;
const EXPECTED: usize = 4;

impl<'r> Store<'r> {
    /// For so many objects: in memory, as long as there is room.
    pub(super) fn new(room: &'r Room, objects: usize) -> Store<'r> {
        let piece = objects.saturating_mul(EXPECTED).clamp(*PIECES.start(), *PIECES.end());
        Store { room, inner: Mutex::default(), piece }
    }

    fn keep(&self, bytes: &[u8]) -> Result<Place, GraphError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Pieces { all, taken } = &mut *inner;
        if all.last().is_none_or(|last| last.len() - *taken < bytes.len()) {
            all.push(self.room.table(self.piece.max(bytes.len()))?);
            *taken = 0;
        }
        let (piece, at) = (all.len().saturating_sub(1), *taken);
        *taken += bytes.len();
        if let Some(place) = all.last_mut().and_then(|last| last.get_mut(at..*taken)) {
            place.copy_from_slice(bytes);
        }
        Ok(Place { piece, at, len: bytes.len() })
    }

    /// What was kept.
    fn pieces(self) -> Vec<Table<u8>> {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Rows {
    /// Those of some chunks, in the order of their objects.
    pub(super) fn new(store: Store<'_>, chunks: Vec<Chunk>) -> Rows {
        let references = chunks.iter().map(|chunk| chunk.references).sum();
        Rows { chunks, pieces: store.pieces(), references }
    }

    /// Those of some lists, by number.
    #[cfg(test)]
    pub(super) fn of_lists(lists: &[Vec<u32>], room: &Room) -> Result<Rows, GraphError> {
        let store = Store::new(room, lists.len());
        let of_chunk = |(number, lists): (u32, &[Vec<u32>])| {
            let mut out = Builder::from(number * CHUNK);
            for list in lists {
                list.iter().for_each(|&to| out.push(to));
                out.end()?;
            }
            out.finish(&store)
        };
        let chunks: Result<_, _> = (0..).zip(lists.chunks(CHUNK as usize)).map(of_chunk).collect();
        Ok(Rows::new(store, chunks?))
    }

    #[inline(always)]
    fn bytes_of<'r>(&'r self, chunk: &'r Chunk) -> &'r [u8] {
        let &Place { piece, at, len } = &chunk.bytes;
        self.pieces.get(piece).and_then(|piece| piece.get(at..at + len)).unwrap_or_default()
    }

    /// Where the block of an object is: its bytes, and how many a reference takes. The first step of [`Rows::of`].
    #[inline(always)]
    pub(super) fn block(&self, id: u32) -> Option<Block<'_>> {
        let chunk = self.chunks.get((id / CHUNK) as usize)?;
        let code = *chunk.blocks.get((id % CHUNK) as usize / BLOCK)?;
        if code == NONE {
            return None;
        }
        let at = u64::from(code >> 4) << chunk.unit;
        Some(Block { bytes: self.bytes_of(chunk).get(at as usize..)?, width: (code & 3) + 1, each: code >> 2 & 3, id })
    }

    /// What an object refers to, in the order of its fields.
    #[inline(always)]
    pub(super) fn of(&self, id: u32) -> Row<'_> {
        self.block(id).and_then(Block::row).unwrap_or(Row { bytes: &[], count: 0, width: 1, first: 0 })
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let blocks: usize = self.chunks.iter().map(|chunk| 4 * chunk.blocks.len()).sum();
        (blocks + self.pieces.iter().map(|piece| piece.len()).sum::<usize>()) as u64
    }

    /// How many chunks there are.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Visit all objects of some chunks that refer to any, by address, a chunk of them on a thread: number, and what it refers to. What
    /// was seen of each chunk, in their order.
    pub(super) fn each<S: Default + Send>(
        &self,
        chunks: Range<usize>,
        visit: impl Fn(&mut S, u32, Row<'_>) + Sync,
    ) -> Vec<S> {
        let of_chunk = |number: usize| {
            let mut seen = S::default();
            let from = number as u32 * CHUNK;
            let blocks = self.chunks.get(number).map_or(0, |chunk| chunk.blocks.len());
            for block in 0..blocks {
                let first = from + (block * BLOCK) as u32;
                let Some(found) = self.block(first) else { continue };
                found.each(|i, row| visit(&mut seen, first + i, row));
            }
            seen
        };
        chunks.into_par_iter().map(of_chunk).collect()
    }
}

/// The block that an object is in.
#[derive(Clone, Copy)]
pub(super) struct Block<'r> {
    bytes: &'r [u8],
    width: u32,
    /// How many references each of its objects has; 0 where that stands with each.
    each: u32,
    id: u32,
}

impl<'r> Block<'r> {
    /// Bytes of it: to have near what tells where the object's references are, and these, if each object has about one.
    #[inline(always)]
    pub(super) fn touch(self) -> u8 {
        let at = self.id as usize % BLOCK * self.width as usize;
        let about = if self.each == 0 { BLOCK + at } else { at * self.each as usize };
        let at = |place: usize| self.bytes.get(place).copied().unwrap_or(0);
        at(0) ^ at(about)
    }

    /// Visit all objects of it that refer to any.
    #[inline(always)]
    fn each(self, mut visit: impl FnMut(u32, Row<'r>)) {
        let first = self.id / BLOCK as u32 * BLOCK as u32;
        if self.each != 0 {
            for i in 0..BLOCK as u32 {
                if let Some(row) = (Block { id: first + i, ..self }).row() {
                    visit(i, row);
                }
            }
            return;
        }
        let mut rest = self.bytes.get(BLOCK..).unwrap_or_default();
        for (i, &count) in (0..).zip(self.bytes.iter().take(BLOCK)) {
            let Some((row, behind)) = Row::at(rest, count, self.width, first) else { break };
            rest = behind;
            if row.count > 0 {
                visit(i, row);
            }
        }
    }

    /// What the object refers to.
    #[inline(always)]
    pub(super) fn row(self) -> Option<Row<'r>> {
        let (at, first) = (self.id as usize % BLOCK, self.id / BLOCK as u32 * BLOCK as u32);
        if self.each != 0 {
            let before = at * (self.each * self.width) as usize;
            return Some(Row { bytes: self.bytes.get(before..)?, count: self.each, width: self.width, first });
        }
        let (counts, rest) = self.bytes.split_first_chunk::<BLOCK>()?;
        let count = counts[at];
        let all = u128::from_le_bytes(*counts);
        let (before, many) = sum(all & ((1_u128 << (8 * at as u32)) - 1));
        if !many {
            return Some(Row::at(rest.get((before * self.width) as usize..)?, count, self.width, first)?.0);
        }
        let mut rest = rest;
        for &count in counts.iter().take(at) {
            rest = Row::at(rest, count, self.width, first)?.1;
        }
        Some(Row::at(rest, count, self.width, first)?.0)
    }
}

/// The sum of the bytes, and whether one of them is [`MANY`].
#[inline(always)]
fn sum(bytes: u128) -> (u32, bool) {
    let of = |half: u64| {
        const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
        let pairs = (half & PAIRS) + (half >> 8 & PAIRS);
        (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
    };
    let many = |half: u64| {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        ((half & LOW) + 0x0101_0101_0101_0101) & half & !LOW != 0
    };
    let (low, high) = (bytes as u64, (bytes >> 64) as u64);
    (of(low) + of(high), many(low) || many(high))
}

/// What one object refers to.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    /// From the first reference on.
    bytes: &'r [u8],
    count: u32,
    width: u32,
    first: u32,
}

impl<'r> Row<'r> {
    /// The row that begins there, whose count is that, and what follows it.
    #[inline(always)]
    fn at(bytes: &'r [u8], count: u8, width: u32, first: u32) -> Option<(Row<'r>, &'r [u8])> {
        let (count, bytes) = match count {
            MANY => {
                let (count, bytes) = bytes.split_first_chunk::<4>()?;
                (u32::from_le_bytes(*count), bytes)
            }
            count => (count.into(), bytes),
        };
        let behind = bytes.get(count as usize * width as usize..)?;
        Some((Row { bytes, count, width, first }, behind))
    }

    #[inline(always)]
    fn read(self, place: usize) -> u32 {
        let bytes = self.bytes.get(place * self.width as usize..).and_then(|bytes| bytes.first_chunk::<4>());
        let mask = u32::MAX >> (32 - 8 * self.width);
        let coded = bytes.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes)) & mask;
        if coded == mask { STRAY } else { coded.wrapping_sub(bias(self.width)).wrapping_add(self.first) }
    }

    /// How many there are.
    pub(super) fn len(self) -> usize {
        self.count as usize
    }

    /// Put all of them behind what is in a list.
    #[inline(always)]
    pub(super) fn put(self, out: &mut Vec<u32>) {
        if self.count == 1 {
            out.push(self.read(0));
        } else {
            out.extend(self.iter());
        }
    }

    /// All of them, in the order of the object's fields.
    #[inline(always)]
    pub(super) fn iter(self) -> impl Iterator<Item = u32> + 'r {
        (0..self.count as usize).map(move |place| self.read(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agree(lists: &[Vec<u32>], room: &Room) {
        let Ok(rows) = Rows::of_lists(lists, room) else { panic!("no room") };
        assert_eq!(rows.references, lists.iter().map(|l| l.len() as u64).sum::<u64>());
        for (id, list) in (0..).zip(lists) {
            assert_eq!(&rows.of(id).iter().collect::<Vec<u32>>(), list, "{id}");
        }
        let seen = rows
            .each(0..rows.chunks(), |out: &mut Vec<_>, id, row| out.push((id, row.iter().collect::<Vec<u32>>())))
            .concat();
        let expected = (0..).zip(lists).filter(|(_, l)| !l.is_empty()).map(|(id, l)| (id, l.clone()));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    fn target() -> impl Strategy<Value = u32> {
        prop_oneof![0_u32..200, 0_u32..70_000, 0_u32..1 << 29, Just(STRAY)]
    }

    proptest! {
        #[test]
        fn rows_are_what_was_put_in(
            lists in prop::collection::vec(
                prop_oneof![8 => prop::collection::vec(target(), 0..4), 1 => prop::collection::vec(target(), 250..260)],
                0..60,
            ),
            bound in prop_oneof![Just(0), Just(300), Just(u64::MAX)],
        ) {
            agree(&lists, &Room::of(bound));
        }
    }

    #[test]
    fn rows_of_several_chunks() {
        let far = |id: u32| (id * 7919) % (2 * CHUNK);
        let lists: Vec<Vec<u32>> = (0..2 * CHUNK + 5).map(|id| (0..id % 3).map(|i| far(id + i)).collect()).collect();
        agree(&lists, &Room::unbounded());
        agree(&lists, &Room::of(400_000));
    }

    #[test]
    fn blocks_can_begin_farther_apart() {
        let mut builder = Builder::from(0);
        let lists: Vec<Vec<u32>> = (0..50).map(|id| (0..id % 4).collect()).collect();
        for list in &lists {
            list.iter().for_each(|&to| builder.push(to));
            assert_eq!(builder.end(), Ok(list.len() as u32));
        }
        builder.close();
        builder.realign(9);
        let room = Room::unbounded();
        let store = Store::new(&room, lists.len());
        builder.bytes.extend([0; BEHIND]);
        let code = |&(at, low): &(u64, u32)| ((at >> 9) as u32) << 4 | low;
        let blocks = builder.blocks.iter().map(code).collect();
        let Ok(bytes) = store.keep(&builder.bytes) else { panic!("no room") };
        let chunk = Chunk { blocks, unit: 9, bytes, references: 0, _held: room.hold(0) };
        let rows = Rows::new(store, vec![chunk]);
        for (id, list) in (0..).zip(&lists) {
            assert_eq!(&rows.of(id).iter().collect::<Vec<u32>>(), list);
        }
    }
}
