//! The references of all objects, by number: read from the heap once, and looked up from then on.
//!
//! Sixteen objects are a block: how many references each has, in a byte, and the references behind it, as differences to the
//! block's first object in as few bytes as the farthest of them takes. So what an object refers to is found in two
//! steps, of which the first is a small table, and takes two to four bytes for a reference and one and a quarter for an object.

mod block;
mod build;

use std::ops::Range;

use rayon::prelude::*;

#[cfg(test)]
use crate::runtimes::graph::room::{GraphError, Room};
use crate::runtimes::graph::room::{Held, Table};

pub(super) use block::{Block, Row};
pub(super) use build::{Builder, Store};

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
}
