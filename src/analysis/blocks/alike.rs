//! Used blocks like a given one: of its size, and with what it begins with.

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::analysis::blocks::clusters::row;
use crate::analysis::blocks::tally::{Alike, Looker, OfSize};
use crate::memory::Memory;
use crate::native::NativeSymbols;
use crate::native::malloc::{Block, Blocks, Malloc};
use crate::process::Process;
use crate::report::ClusterRow;

/// How many used blocks are like `block`, which is one, itself among them: the row that `malloc` has of them, but for
/// what it tells of free chunks. Only blocks of its size are read.
pub(crate) fn alike(
    process: &Process,
    symbols: &NativeSymbols<'_>,
    malloc: &Malloc,
    blocks: &Blocks,
    block: Block,
) -> ClusterRow {
    let look = Looker::new(process, malloc, 0);
    let content = |b: &Block| look.content(b.range.start, process.memory.u64(b.range.start).ok(), b.range.len());
    let wanted = content(&block);
    // How many, and the first.
    let found = Mutex::new((0_u64, block.range.start));
    blocks.each_unmarked(&blocks.marks(), |_, other| {
        if other.size == block.size && content(&other) == wanted {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            *found = (found.0 + 1, found.1.min(other.range.start));
        }
    });
    let (count, example) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mmapped = malloc.mapped.iter().any(|c| malloc.block(c.chunk) == block.range.start);
    row(process, symbols, block.size, &OfSize::default(), &Alike { content: wanted, count, example }, mmapped)
}
