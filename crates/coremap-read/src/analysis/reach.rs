//! Reachability of malloc blocks from stacks, registers, module data, managed objects, handles, and all other memory
//! outside blocks. Every word that may point into a block counts as a pointer.

use crate::addr::{Addr, AddrRange, WORD, union};
use crate::map::kind_facts::{Backing, Contents};
use crate::map::{Kind, Region};
use crate::memory::pointers::pointers;
use crate::memory::window::Window;
use crate::native::malloc::{Block, BlockId, BlockMarks, BlockQueue, Blocks};
use crate::native::stacks::{RED_ZONE, ThreadStack};
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::ChunkSum;
use crate::session::Session;

/// Minimum size in bytes of a block in the list of blocks.
const MIN_BLOCK: u64 = 16;

/// Follows pointers from block to block.
pub struct Reach<'a> {
    process: &'a Process,
    pub blocks: &'a Blocks,
    /// Written memory of each part of the heap.
    parts: Vec<Vec<Window<'a>>>,
    hull: AddrRange,
    /// Blocks whose words do not count as pointers: tables of tracers. `None` if there is none.
    opaque: Option<BlockMarks>,
}

impl<'a> Reach<'a> {
    pub fn new(process: &'a Process, blocks: &'a Blocks) -> Reach<'a> {
        let _phase = process.enter(Phase::Pointers);
        let parts = blocks.parts().map(|part| Window::written(process.target(), part)).collect();
        Reach { process, blocks, parts, hull: blocks.hull(), opaque: None }
    }

    /// Leaves out the tables in which runtimes record allocations, because they refer to all blocks.
    pub fn without_tracers(mut self, session: &Session<'_>) -> Reach<'a> {
        let traces = session.runtimes().into_iter().filter_map(|runtime| runtime.allocation_traces());
        for id in traces.flat_map(|traces| &traces.nodes).filter_map(|at| self.blocks.id_at(*at)) {
            self.opaque.get_or_insert_with(|| self.blocks.marks()).mark(id);
        }
        self
    }

    /// Marks all used blocks that can be reached from outside the heap. Returns the number of bytes scanned for
    /// pointers to them.
    pub fn mark_from_roots(&self, session: &Session<'_>, marks: &BlockMarks, progress: &Progress) -> u64 {
        let within = roots(session);
        let queue = BlockQueue::new(self.blocks);
        let add = |value: Addr| {
            if let Some(id) = self.blocks.used_at(value, 0).filter(|id| marks.mark(*id)) {
                queue.push(id);
            }
        };
        let scanned =
            pointers(self.process.target(), &within, self.hull, progress, |(): &mut (), _, value| add(value), |()| ());
        let registers = self.process.threads().iter().flat_map(|t| t.registers.iter());
        let arch = self.process.arch();
        registers.for_each(|(_, value)| add(Addr::new(arch.address_in(value))));
        self.spread(&queue, marks);
        scanned
    }

    /// Returns the part of the heap that contains `block`.
    pub fn part_of(&self, block: &Block) -> Option<usize> {
        self.blocks.part_of(block.range.start)
    }

    /// Marks all blocks that can be reached from the blocks in `queue`, which are already marked. Returns the sum of
    /// all, including those in `queue`.
    fn spread(&self, queue: &BlockQueue<'_>, marks: &BlockMarks) -> ChunkSum {
        let mut sum = ChunkSum::default();
        let visit = |share: &mut ChunkSum, part, block: Block| {
            share.add(block.size);
            self.each(part, &block, |to| {
                if marks.mark(to) {
                    queue.push(to);
                }
            });
        };
        queue.drain(visit, |share| sum.merge(share));
        sum
    }

    /// Visits the used blocks at which the words of `block` point. `part` is the part of the heap that contains
    /// `block`.
    #[inline]
    pub fn each(&self, part: usize, block: &Block, mut visit: impl FnMut(BlockId)) {
        self.words(part, block, self.hull, |value| {
            if let Some(to) = self.blocks.used_at(value, part) {
                visit(to);
            }
        });
    }

    /// Visits the words of `block` with a value in `hull`. `part` is the part of the heap that contains `block`.
    #[inline]
    pub fn words(&self, part: usize, block: &Block, hull: AddrRange, mut visit: impl FnMut(Addr)) {
        self.placed_words(part, block, hull, |_, value| visit(value));
    }

    /// Like `words`, with the address of each word.
    #[inline]
    pub fn placed_words(&self, part: usize, block: &Block, hull: AddrRange, mut visit: impl FnMut(Addr, Addr)) {
        let is_opaque = self.opaque.as_ref().is_some_and(|opaque| opaque.has(block.id));
        let Some(windows) = self.parts.get(part).filter(|_| !is_opaque) else { return };
        let (low, span) = (hull.start.get(), hull.len());
        let arch = self.process.arch();
        let first = windows.partition_point(|w| w.end <= block.range.start.get());
        for window in windows.iter().skip(first).take_while(|w| w.start < block.range.end.get()) {
            let start = Addr::new(window.start).max(block.range.start).align_up(WORD);
            for (i, word) in (0..).zip(window.within(block.range)) {
                let value = arch.address_in(u64::from_le_bytes(*word));
                if value.wrapping_sub(low) < span {
                    visit(start.saturating_add(WORD * i), Addr::new(value));
                }
            }
        }
    }
}

/// Returns the bytes of writable memory that may contain pointers but are not in the core.
pub fn unread(session: &Session<'_>) -> u64 {
    let wanted = session.map().regions.iter().filter(|r| {
        !r.kind.is_reserved()
            && !matches!(r.kind.facts().backing, Backing::Image | Backing::SecondView)
            && r.perms.is_some_and(|p| p.write)
    });
    wanted.map(|r| r.range.len().saturating_sub(r.in_core)).fold(0, u64::saturating_add)
}

/// Returns memory outside of blocks that may contain pointers of the program.
fn roots(session: &Session<'_>) -> Vec<AddrRange> {
    union(root_parts(session).into_iter().map(|(range, _)| range).chain(small_blocks(session)).collect())
}

/// Returns blocks that are too small for the list. They may contain pointers too.
pub(crate) fn small_blocks(session: &Session<'_>) -> Vec<AddrRange> {
    let others = session.malloc().others(session.process);
    let extents = others.iter().flat_map(|heap| &heap.extents);
    extents.filter(|extent| extent.size < MIN_BLOCK).map(|extent| extent.range).collect()
}

/// Returns memory outside of blocks that may contain pointers of the program, with the region of each part.
pub(crate) fn root_parts<'s>(session: &'s Session<'_>) -> Vec<(AddrRange, &'s Region)> {
    let others = session.malloc().others(session.process);
    // Blocks are scanned when they are reached. The own structures of such an allocator point at all its blocks.
    let is_walked = |r: &Region| others.iter().any(|heap| r.detail.starts_with(heap.name.name()));
    let may_hold = |r: &&Region| {
        let facts = r.kind.facts();
        let is_of_blocks = facts.contents == Contents::Blocks && (r.kind == Kind::Malloc || is_walked(r));
        let is_unused = facts.contents == Contents::FreeHeap || facts.backing == Backing::SecondView;
        !is_of_blocks && !is_unused && r.perms.is_none_or(|p| p.write)
    };
    let live = |r: &Region| {
        let start = session.sp_in(r).map_or(r.range.start, |sp| sp.saturating_sub(RED_ZONE).max(r.range.start));
        AddrRange::new(start, r.range.end)
    };
    // Of a stack that is kept for reuse, only the control block is in use.
    let ended = session.stacks().list.iter().filter(|stack| stack.tid.is_none());
    let ended = union(ended.map(ThreadStack::left_over).collect());
    let regions = session.map().regions.iter().filter(may_hold);
    regions.flat_map(|region| live(region).without(&ended).into_iter().map(move |part| (part, region))).collect()
}
