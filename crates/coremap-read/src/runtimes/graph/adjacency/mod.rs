//! The references of all objects by ID. Read from the heap once and looked up from then on.
//!
//! Sixteen objects form a block. It has a one-byte count per object, followed by the references. A reference is the
//! difference to the block's first ID, in as few bytes as the farthest one in the block needs. An object's references
//! are found in two steps, the first of them in a small table. A reference takes two to four bytes, and an object one
//! and a quarter.

mod block;
mod build;

use std::ops::Range;

use rayon::prelude::*;

use crate::runtimes::graph::budget::{Charge, Table};
#[cfg(test)]
use crate::runtimes::graph::budget::{GraphError, MemoryBudget};
use crate::sums::SaturatingSum;

pub(super) use block::{Block, RefList};
pub(super) use build::{Builder, Store};

/// Number of objects in a chunk, which one thread processes at once.
pub(super) const CHUNK: u32 = 1 << 16;

/// Number of objects in a block.
pub(super) const BLOCK: usize = 16;

/// Value of a reference that points to no object.
pub(super) const STRAY: u32 = u32::MAX;

/// Code of a block without references.
const NONE: u32 = u32::MAX;

/// Count byte of an object with this many references or more. The count is then in the four bytes before the
/// references.
const MANY: u8 = u8::MAX;

/// The references of all objects.
pub(super) struct Adjacency {
    chunks: Vec<Chunk>,
    /// Tables that contain the bytes of all chunks.
    tables: Vec<Table<u8>>,
    pub(super) references: u64,
}

/// The references of the objects in one chunk.
pub(super) struct Chunk {
    /// Code of each block. Bits 4 and up are its offset in units of `1 << unit` bytes. Bits 2 and 3 are the number of
    /// references per object if it is the same for all, else 0. Bits 0 and 1 are the bytes per reference, minus 1.
    blocks: Box<[u32]>,
    unit: u8,
    bytes: ChunkBytes,
    references: u64,
    _charge: Charge,
}

/// Position of a chunk's bytes.
struct ChunkBytes {
    /// Index of the table.
    table: usize,
    /// Offset in the table, and length, in bytes.
    at: usize,
    len: usize,
}

impl Adjacency {
    /// Joins chunks, which are in the order of their objects.
    pub(super) fn new(store: Store<'_>, chunks: Vec<Chunk>) -> Adjacency {
        let references = chunks.iter().map(|chunk| chunk.references).saturating_sum();
        Adjacency { chunks, tables: store.into_tables(), references }
    }

    /// Creates the rows for lists of references.
    #[cfg(test)]
    pub(super) fn of_lists(lists: &[Vec<u32>], budget: &MemoryBudget) -> Result<Adjacency, GraphError> {
        let store = Store::new(budget, lists.len());
        let of_chunk = |(number, lists): (u32, &[Vec<u32>])| {
            let mut out = Builder::from(number * CHUNK);
            for list in lists {
                list.iter().for_each(|&to| out.push(to));
                out.end()?;
            }
            out.finish(&store)
        };
        let chunks: Result<_, _> = (0..).zip(lists.chunks(CHUNK as usize)).map(of_chunk).collect();
        Ok(Adjacency::new(store, chunks?))
    }

    #[inline(always)]
    fn bytes_of<'r>(&'r self, chunk: &'r Chunk) -> &'r [u8] {
        let &ChunkBytes { table, at, len } = &chunk.bytes;
        self.tables.get(table).and_then(|table| table.get(at..at + len)).unwrap_or_default()
    }

    /// The block that contains an object, with its number of bytes per reference. The first step of
    /// [`Adjacency::refs`].
    #[inline(always)]
    pub(super) fn block(&self, id: u32) -> Option<Block<'_>> {
        let chunk = self.chunks.get((id / CHUNK) as usize)?;
        let code = *chunk.blocks.get((id % CHUNK) as usize / BLOCK)?;
        if code == NONE {
            return None;
        }
        let at = u64::from(code >> 4) << chunk.unit;
        Some(Block {
            bytes: self.bytes_of(chunk).get(at as usize..)?,
            width: (code & 3) + 1,
            fixed_count: code >> 2 & 3,
            id,
        })
    }

    /// References of an object, in the order of its fields.
    #[inline(always)]
    pub(super) fn refs(&self, id: u32) -> RefList<'_> {
        self.block(id).and_then(Block::refs).unwrap_or(RefList { bytes: &[], count: 0, width: 1, first: 0 })
    }

    /// Size of all tables in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let blocks: usize = self.chunks.iter().map(|chunk| 4 * chunk.blocks.len()).sum();
        (blocks + self.tables.iter().map(|table| table.len()).sum::<usize>()) as u64
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Visits all objects with references in a range of chunks, in address order: ID and references. Each chunk is
    /// processed by one thread. Returns the results of the chunks in order.
    pub(super) fn each_list<S: Default + Send>(
        &self,
        chunks: Range<usize>,
        visit: impl Fn(&mut S, u32, RefList<'_>) + Sync,
    ) -> Vec<S> {
        let of_chunk = |number: usize| {
            let mut seen = S::default();
            let from = number as u32 * CHUNK;
            let blocks = self.chunks.get(number).map_or(0, |chunk| chunk.blocks.len());
            for block in 0..blocks {
                let first = from + (block * BLOCK) as u32;
                let Some(found) = self.block(first) else { continue };
                found.each_list(|i, row| visit(&mut seen, first + i, row));
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

    fn agree(lists: &[Vec<u32>], budget: &MemoryBudget) {
        let Ok(rows) = Adjacency::of_lists(lists, budget) else { panic!("no room") };
        assert_eq!(rows.references, lists.iter().map(|l| l.len() as u64).sum::<u64>());
        for (id, list) in (0..).zip(lists) {
            assert_eq!(&rows.refs(id).iter().collect::<Vec<u32>>(), list, "{id}");
        }
        let seen = rows
            .each_list(0..rows.chunks(), |out: &mut Vec<_>, id, row| out.push((id, row.iter().collect::<Vec<u32>>())))
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
            agree(&lists, &MemoryBudget::new(bound));
        }
    }

    #[test]
    fn rows_of_several_chunks() {
        let far = |id: u32| (id * 7919) % (2 * CHUNK);
        let lists: Vec<Vec<u32>> = (0..2 * CHUNK + 5).map(|id| (0..id % 3).map(|i| far(id + i)).collect()).collect();
        agree(&lists, &MemoryBudget::unbounded());
        agree(&lists, &MemoryBudget::new(400_000));
    }
}
