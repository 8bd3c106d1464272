//! Counts used malloc blocks of the same size and content as a given one.

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::analysis::blocks::clusters::row;
use crate::analysis::blocks::tally::{BlockReader, Cluster, SizeCounts};
use crate::memory::Memory;
use crate::native::malloc::Block;
use crate::report::ClusterRow;
use crate::session::Session;

/// Counts the used blocks like `block`, including itself. Returns the row that `malloc` shows for them, without its
/// counts of free chunks. Only blocks of this size are read.
pub fn alike(session: &Session<'_>, block: Block) -> ClusterRow {
    let (process, malloc, blocks) = (session.process, session.malloc(), &session.blocks().1);
    let reader = BlockReader::new(session, 0);
    let content = |b: &Block| {
        let (content, label) = reader.classify(b.range, process.memory.u64(b.range.start).ok());
        (content, label.map(|l| l.label))
    };
    let wanted = content(&block);
    // The count, and the lowest address found.
    let found = Mutex::new((0_u64, block.range.start));
    blocks.each_unmarked(&blocks.marks(), |_, other| {
        if other.size == block.size && content(&other) == wanted {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            *found = (found.0 + 1, found.1.min(other.range.start));
        }
    });
    let (count, example) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mmapped = malloc.mapped.iter().any(|c| malloc.block(c.chunk) == block.range.start);
    let (content, label) = wanted;
    let alike = Cluster { content, label, count, example };
    row(session, block.size, &SizeCounts::default(), &alike, mmapped)
}
