//! Encodes references into rows. Any thread can build a chunk; the bytes of all chunks are stored in a few tables.

use std::sync::{Mutex, PoisonError};

use super::block::bias;
use super::{BLOCK, Chunk, ChunkBytes, MANY, NONE, STRAY};
use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Builds one chunk. Its objects are added in order.
#[derive(Default)]
pub(in crate::runtimes::graph) struct Builder {
    /// Finished blocks: offset of each, and the low four bits of its code.
    blocks: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    counts: [u32; BLOCK],
    filled: usize,
    targets: Vec<u32>,
    /// Number of elements in `targets` that belong to finished objects.
    ended: usize,
    /// ID of the block's first object.
    first: u32,
    references: u64,
}

/// Padding after the last reference, because each read takes four bytes.
const PADDING: usize = 4;

/// Log2 of the blocks' alignment. Larger in chunks with more bytes than a code can address.
const UNIT: u32 = 2;

impl Builder {
    /// Creates a builder for the objects from ID `first` on.
    pub(in crate::runtimes::graph) fn from(first: u32) -> Builder {
        Builder { first, ..Builder::default() }
    }

    /// Adds a reference of the current object, or [`STRAY`].
    #[inline(always)]
    pub(in crate::runtimes::graph) fn push(&mut self, target: u32) {
        self.targets.push(target);
    }

    /// Ends the current object. Returns its number of references.
    #[inline(always)]
    pub(in crate::runtimes::graph) fn end(&mut self) -> Result<u32, GraphError> {
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
        // A block with one four-byte reference per object has the size of a cache line. Align it to one.
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
                // Writing four bytes and truncating is cheaper than writing `width` bytes.
                self.bytes.extend_from_slice(&coded.to_le_bytes());
                self.bytes.truncate(self.bytes.len() - (4 - width as usize));
            }
        }
    }

    /// Ends the chunk and moves its bytes to `store`.
    pub(in crate::runtimes::graph) fn finish(mut self, store: &Store<'_>) -> Result<Chunk, GraphError> {
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
            self.bytes.extend([0; PADDING]);
        }
        let charge = store.budget.charge(4 * self.blocks.len() as u64);
        let references = self.references;
        Ok(Chunk { blocks, unit: unit as u8, bytes: store.store(&self.bytes)?, references, _charge: charge })
    }

    /// Moves blocks to multiples of `1 << unit`.
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
/// Storage for the bytes of chunks: contiguous, in tables that each contain many chunks.
pub(in crate::runtimes::graph) struct Store<'r> {
    budget: &'r MemoryBudget,
    inner: Mutex<StoreTables>,
    /// Size of a table in bytes.
    table_size: usize,
}

#[derive(Default)]
struct StoreTables {
    all: Vec<Table<u8>>,
    /// Number of used bytes in the last table.
    used: usize,
}

/// Minimum and maximum size of a table in bytes, and the expected number of bytes per object.
const TABLE_SIZE: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 24;
const BYTES_PER_OBJECT: usize = 4;

impl<'r> Store<'r> {
    /// Creates storage for `objects` objects. Tables are in memory as long as they fit `budget`.
    pub(in crate::runtimes::graph) fn new(budget: &'r MemoryBudget, objects: usize) -> Store<'r> {
        let table_size = objects.saturating_mul(BYTES_PER_OBJECT).clamp(*TABLE_SIZE.start(), *TABLE_SIZE.end());
        Store { budget, inner: Mutex::default(), table_size }
    }

    fn store(&self, bytes: &[u8]) -> Result<ChunkBytes, GraphError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let StoreTables { all, used } = &mut *inner;
        if all.last().is_none_or(|last| last.len() - *used < bytes.len()) {
            all.push(self.budget.table(self.table_size.max(bytes.len()))?);
            *used = 0;
        }
        let (table, at) = (all.len().saturating_sub(1), *used);
        *used += bytes.len();
        if let Some(place) = all.last_mut().and_then(|last| last.get_mut(at..*used)) {
            place.copy_from_slice(bytes);
        }
        Ok(ChunkBytes { table, at, len: bytes.len() })
    }

    pub(super) fn into_tables(self) -> Vec<Table<u8>> {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::graph::adjacency::Adjacency;

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
        let budget = MemoryBudget::unbounded();
        let store = Store::new(&budget, lists.len());
        builder.bytes.extend([0; PADDING]);
        let code = |&(at, low): &(u64, u32)| ((at >> 9) as u32) << 4 | low;
        let blocks = builder.blocks.iter().map(code).collect();
        let Ok(bytes) = store.store(&builder.bytes) else { panic!("no room") };
        let chunk = Chunk { blocks, unit: 9, bytes, references: 0, _charge: budget.charge(0) };
        let rows = Adjacency::new(store, vec![chunk]);
        for (id, list) in (0..).zip(&lists) {
            assert_eq!(&rows.refs(id).iter().collect::<Vec<u32>>(), list);
        }
    }
}
