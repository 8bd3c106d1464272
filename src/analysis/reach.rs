//! Which blocks of malloc can be reached: from stacks, registers, module data,
//! managed objects and handles, and all other memory that is no block, by every
//! word that may be a pointer into a block.

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, union};
use crate::analysis::malloc::tell_more_caches;
use crate::introspect::Findings;
use crate::limits;
use crate::map::{Kind, Region};
use crate::memory::pointers::pointers;
use crate::native::malloc::{Block, BlockMarks, Blocks, FreeLists, Malloc};
use crate::native::stacks::RED_ZONE;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::ChunkSum;
use crate::units::human;

/// Blocks that a thread takes at once.
const CHUNK: usize = 256;

/// Bytes of a block read at once.
const PIECE: u64 = 16 << 20;

/// All blocks of malloc, with the lists that tell which of them are free.
pub(super) fn blocks_of(process: &Process, malloc: &Malloc) -> (FreeLists, Blocks) {
    let mut lists = FreeLists::read(process, malloc, &[]);
    let mut blocks = Blocks::read(process, malloc, &lists);
    let (caches, more_caches) = blocks.caches();
    if more_caches {
        tell_more_caches(process);
    }
    if let Some(with_others) = lists.with_caches(process, malloc, &caches) {
        lists = with_others;
        blocks = Blocks::read(process, malloc, &lists);
    }
    if blocks.capped {
        let most = human(limits::MAX_HEAP_PART);
        let what = format!("a part of malloc's heap is larger than {most}; its blocks behind that are not known");
        process.diag.partial("limit", what);
    }
    (lists, blocks)
}

/// Follows pointers from block to block.
pub(super) struct Reach<'a> {
    pub(super) process: &'a Process,
    pub(super) blocks: &'a Blocks,
}

impl Reach<'_> {
    /// Mark all used blocks that can be reached from outside the heap; returns how
    /// many bytes were looked through for pointers to them.
    pub(super) fn mark_from_roots(&self, found: &Findings, marks: &BlockMarks, progress: &Progress) -> u64 {
        let within = roots(found);
        let mut first: Vec<Block> = Vec::new();
        let used = |addr| self.blocks.at(addr).filter(|b| b.used);
        let keep = |share: &mut Vec<Block>, _, value: Addr| {
            share.extend(used(value).filter(|b| marks.mark(b.id)));
        };
        let scanned =
            pointers(&self.process.core, &within, self.blocks.hull(), progress, keep, |share| first.extend(share));
        let registers = self.process.core.notes.threads.iter().flat_map(|t| t.registers.iter());
        first.extend(registers.filter_map(|(_, value)| used(Addr::new(value))).filter(|b| marks.mark(b.id)));
        self.spread(first, marks);
        scanned
    }

    /// Mark what can be reached from `first`, which are marked; returns the sum of
    /// all, `first` included.
    pub(super) fn spread(&self, first: Vec<Block>, marks: &BlockMarks) -> ChunkSum {
        let _phase = self.process.enter(Phase::Pointers);
        let mut sum = ChunkSum::default();
        let mut level = first;
        while !level.is_empty() {
            level.iter().for_each(|b| sum.add(b.size));
            level = level
                .par_chunks(CHUNK)
                .map(|blocks| {
                    let mut next = Vec::new();
                    for block in blocks {
                        self.each(block, |to| {
                            if marks.mark(to.id) {
                                next.push(to);
                            }
                        });
                    }
                    next
                })
                .reduce(Vec::new, |mut a, b| {
                    a.extend(b);
                    a
                });
        }
        sum
    }

    /// Visit the used blocks that words of `block` lead into.
    pub(super) fn each(&self, block: &Block, mut visit: impl FnMut(Block)) {
        let (hull, core) = (self.blocks.hull(), &self.process.core);
        let mut at = block.range.start;
        while at < block.range.end {
            let piece = AddrRange::new(at, block.range.end.min(at.saturating_add(PIECE)));
            for run in core.dumped_runs(piece) {
                let skip = run.range.start.align_up(8).since(run.range.start) as usize;
                for word in run.bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0 {
                    let value = Addr::new(u64::from_le_bytes(*word));
                    if hull.contains(value)
                        && let Some(to) = self.blocks.at(value).filter(|b| b.used)
                    {
                        visit(to);
                    }
                }
            }
            at = piece.end;
        }
    }
}

/// Memory that is no block and that the program may have pointers in.
fn roots(found: &Findings) -> Vec<AddrRange> {
    let may_hold = |r: &&Region| match r.kind {
        Kind::Malloc | Kind::DoubleMapped | Kind::GCHeapToBeFreed => false,
        _ => r.perms.is_none_or(|p| p.write),
    };
    let live = |r: &Region| {
        let start = found.sp_in(r).map_or(r.range.start, |sp| sp.saturating_sub(RED_ZONE).max(r.range.start));
        AddrRange::new(start, r.range.end)
    };
    union(found.map.regions.iter().filter(may_hold).map(live).collect())
}
