//! Native memory that a row reaches: alone, and together with other rows.
//!
//! A block that two rows reach is owned by neither, so it must not count for both. Each row is a source in the graph of
//! blocks, and all rows have one virtual root. A row dominates a block if no other row reaches it. Each row is followed
//! in turn, and each block is visited for at most two rows. So the time is linear in the blocks, whatever the number of
//! rows.
//!
//! The runtime's own structures (threads, assemblies) refer to most of what the runtime uses. They are owned by the
//! runtime, not by the objects that represent them. So no row of the program is followed through them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::addr::{Addr, AddrRange, PAGE, WORD};
use crate::analysis::reach::Reach;
use crate::commands::holders::report::HeldTotal;
use crate::limits;
use crate::native::malloc::{Block, BlockId, BlockMarks, BlockQueue};
use crate::report::ChunkSum;

/// Blocks with their sizes in bytes.
type Pairs = Vec<(BlockId, u64)>;

/// Sources of one row.
#[derive(Default)]
pub(super) struct Sources {
    /// Blocks into which its words point.
    pub(super) blocks: Vec<Block>,
    /// Indices of anonymous mappings at which its words point.
    pub(super) mappings: Vec<usize>,
    /// Whether its words point at structures of the runtime itself.
    pub(super) of_runtime: bool,
}

impl Sources {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.mappings.is_empty()
    }
}

/// Native memory by row, in the order of the rows.
#[derive(Default)]
pub(super) struct Division {
    /// Memory that no earlier row reaches. The sum over all rows is everything that is reached.
    pub(super) new: Vec<HeldTotal>,
    /// Memory that belongs to the row: a block into which its words point, and everything below it up to blocks into
    /// which words of other rows point. The sum over all rows is everything that is reached.
    pub(super) credit: Vec<HeldTotal>,
    /// Memory that no other row reaches.
    pub(super) alone: Vec<HeldTotal>,
    /// The first row that reaches each block that several rows reach.
    first: HashMap<BlockId, usize>,
    /// Bytes that two rows both reach, by their indices. The first is the first row that reaches them.
    pairs: BTreeMap<(usize, usize), u64>,
}

/// The graph of blocks and anonymous mappings.
pub(super) struct Shares<'a> {
    reach: &'a Reach<'a>,
    mapped: &'a [AddrRange],
    hull: AddrRange,
    /// Images of the runtimes. A block that begins with a pointer into one is a C++ object of the runtime.
    images: &'a [AddrRange],
    queue: BlockQueue<'a>,
    /// Blocks into which rows point.
    starts: BlockMarks,
    /// Those of `starts` that are structures of the runtime itself.
    own: BlockMarks,
    /// Blocks and mappings that a row reaches.
    once: BlockMarks,
    once_mapped: Marked,
    /// Blocks and mappings that several rows reach.
    twice: BlockMarks,
    twice_mapped: Marked,
}

/// Marks of anonymous mappings, by index. There are few mappings, and few pointers to them.
#[derive(Default)]
struct Marked(Mutex<HashSet<usize>>);

impl Marked {
    fn mark(&self, i: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(i)
    }

    fn list(&self) -> Vec<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn has(&self, i: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&i)
    }
}

/// Decides whether a block or mapping is visited.
trait Gate: Sync {
    /// Whether to visit a block to which the row or another of its blocks points.
    fn block(&self, id: BlockId) -> bool;
    fn mapping(&self, i: usize) -> bool;

    /// Like `block`, for a block to which another block points.
    fn next(&self, id: BlockId) -> bool {
        self.block(id)
    }
}

/// Admits unvisited blocks. If a block was reached from another block, no row may point into it.
struct Nearest<'s> {
    once: Once<'s>,
    starts: &'s BlockMarks,
    here: Marked,
}

impl Gate for Nearest<'_> {
    fn block(&self, id: BlockId) -> bool {
        self.once.block(id)
    }

    fn mapping(&self, i: usize) -> bool {
        self.once.mapping(i) && self.here.mark(i)
    }

    fn next(&self, id: BlockId) -> bool {
        !self.starts.has(id) && self.block(id)
    }
}

/// Admits blocks that were not visited before.
struct Once<'s> {
    marks: &'s BlockMarks,
    mapped: &'s Marked,
}

impl Gate for Once<'_> {
    fn block(&self, id: BlockId) -> bool {
        self.marks.mark(id)
    }

    fn mapping(&self, i: usize) -> bool {
        self.mapped.mark(i)
    }
}

/// Admits blocks that at most one other row has visited. `fresh`: marks of blocks that only this row has visited.
struct AtMostTwice<'s, 'a> {
    shares: &'s Shares<'a>,
    fresh: &'s BlockMarks,
    fresh_mapped: &'s Marked,
}

impl Gate for AtMostTwice<'_, '_> {
    fn block(&self, id: BlockId) -> bool {
        if self.shares.once.has(id) { self.shares.twice.mark(id) } else { self.fresh.mark(id) }
    }

    fn mapping(&self, i: usize) -> bool {
        if self.shares.once_mapped.has(i) { self.shares.twice_mapped.mark(i) } else { self.fresh_mapped.mark(i) }
    }
}

/// Admits blocks that only one row reaches. `here`: mappings of this row.
struct Alone<'s, 'a> {
    shares: &'s Shares<'a>,
    seen: &'s BlockMarks,
    here: Marked,
}

impl Gate for Alone<'_, '_> {
    fn block(&self, id: BlockId) -> bool {
        !self.shares.twice.has(id) && self.seen.mark(id)
    }

    fn mapping(&self, i: usize) -> bool {
        !self.shares.twice_mapped.has(i) && self.here.mark(i)
    }
}

impl<'a> Shares<'a> {
    /// Creates the graph. `mapped`: anonymous mappings or blocks within them, by address. `images`: the runtimes'
    /// images.
    pub(super) fn new(reach: &'a Reach<'a>, mapped: &'a [AddrRange], images: &'a [AddrRange]) -> Shares<'a> {
        let hull = reach.blocks.hull();
        let ends = mapped.first().zip(mapped.last()).map(|(a, b)| AddrRange::new(a.start, b.end));
        let hull = match ends {
            Some(ends) if hull.is_empty() => ends,
            Some(ends) => AddrRange::new(hull.start.min(ends.start), hull.end.max(ends.end)),
            None => hull,
        };
        let marks = || reach.blocks.marks();
        Shares {
            reach,
            mapped,
            hull,
            images,
            queue: BlockQueue::new(reach.blocks),
            starts: marks(),
            own: marks(),
            once: marks(),
            once_mapped: Marked::default(),
            twice: marks(),
            twice_mapped: Marked::default(),
        }
    }

    /// Returns the index of the anonymous mapping that begins at `at`.
    pub(super) fn mapping_at(&self, at: Addr) -> Option<usize> {
        at.is_aligned(PAGE).then(|| self.mapped.binary_search_by_key(&at, |m| m.start).ok()).flatten()
    }

    /// Divides the reachable memory among `rows`. Rows of the program must precede those of the runtime.
    pub(super) fn divide(&self, rows: &[Sources]) -> Division {
        let mut out = Division::default();
        for row in rows {
            for block in &row.blocks {
                self.starts.mark(block.id);
                if row.of_runtime {
                    self.own.mark(block.id);
                }
            }
        }
        let fresh = self.reach.blocks.marks();
        let seen = self.reach.blocks.marks();
        let of_program = rows.partition_point(|row| !row.of_runtime);
        let (of_program, of_runtime) = rows.split_at_checked(of_program).unwrap_or((rows, &[]));
        // The runtime does not count as another owner of memory that the program's objects reach.
        for part in [of_program, of_runtime] {
            for row in part {
                self.add(row, &fresh, &mut out);
            }
            // A block that only one row reaches is visited for no other row, so one set of marks is enough.
            out.alone.extend(part.iter().map(|row| self.alone(row, &seen)));
        }
        let (credited, mapped) = (self.reach.blocks.marks(), Marked::default());
        for row in rows {
            let gate = Nearest {
                once: Once { marks: &credited, mapped: &mapped },
                starts: &self.starts,
                here: Marked::default(),
            };
            let mut sum = HeldTotal::default();
            self.spread(row, &gate, |sum: &mut ChunkSum, block| sum.add(block.size), |part| sum.malloc.merge(part));
            sum.mmap = self.sum_mapped(gate.here);
            out.credit.push(sum);
        }
        out
    }

    /// Follows the next row. `fresh` must be empty, and is empty again afterwards.
    fn add(&self, row: &Sources, fresh: &BlockMarks, out: &mut Division) {
        let number = out.new.len();
        let fresh_mapped = Marked::default();
        let mut new = HeldTotal::default();
        let mut found: Vec<BlockId> = Vec::new();
        let mut twice: Vec<(BlockId, u64)> = Vec::new();
        self.spread(
            row,
            &AtMostTwice { shares: self, fresh, fresh_mapped: &fresh_mapped },
            |(found, twice): &mut (Pairs, Pairs), block| {
                let list = if fresh.has(block.id) { found } else { twice };
                list.push((block.id, block.size));
            },
            |(of_new, of_twice)| {
                for (id, size) in of_new {
                    new.malloc.add(size);
                    found.push(id);
                }
                twice.extend(of_twice);
            },
        );
        for id in found {
            fresh.clear(id);
            self.once.mark(id);
            if out.first.len() < limits::MAX_SHARED_BLOCKS {
                out.first.insert(id, number);
            }
        }
        for (id, size) in twice {
            if let Some(&first) = out.first.get(&id) {
                let sum = out.pairs.entry((first, number)).or_default();
                *sum = sum.saturating_add(size);
            }
        }
        for i in fresh_mapped.list() {
            self.once_mapped.mark(i);
        }
        new.mmap = self.sum_mapped(fresh_mapped);
        out.new.push(new);
    }

    fn alone(&self, row: &Sources, seen: &BlockMarks) -> HeldTotal {
        let gate = Alone { shares: self, seen, here: Marked::default() };
        let mut sum = HeldTotal::default();
        self.spread(
            row,
            &gate,
            |sum: &mut HeldTotal, block| sum.malloc.add(block.size),
            |part| sum.malloc.merge(part.malloc),
        );
        sum.mmap = self.sum_mapped(gate.here);
        sum
    }

    fn sum_mapped(&self, marked: Marked) -> ChunkSum {
        let mut sum = ChunkSum::default();
        for i in marked.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            sum.add(self.mapped.get(i).map_or(0, AddrRange::len));
        }
        sum
    }

    /// Returns the memory that row `number` reaches, and the row that shares most of it.
    pub(super) fn reached(&self, number: usize, row: &Sources, division: &Division) -> (HeldTotal, Option<usize>) {
        let (marks, mapped) = (self.reach.blocks.marks(), Marked::default());
        let (mut sum, mut sharers) = (HeldTotal::default(), BTreeMap::<usize, u64>::new());
        let add = |sharers: &mut BTreeMap<usize, u64>, row: usize, bytes: u64| {
            let sum = sharers.entry(row).or_default();
            *sum = sum.saturating_add(bytes);
        };
        for (&(first, second), &bytes) in &division.pairs {
            if first == number {
                add(&mut sharers, second, bytes);
            }
        }
        self.spread(
            row,
            &Once { marks: &marks, mapped: &mapped },
            |(sum, sharers): &mut (ChunkSum, BTreeMap<usize, u64>), block| {
                sum.add(block.size);
                if let Some(&first) = division.first.get(&block.id).filter(|first| **first != number) {
                    add(sharers, first, block.size);
                }
            },
            |(part, of_part)| {
                sum.malloc.merge(part);
                of_part.into_iter().for_each(|(row, bytes)| add(&mut sharers, row, bytes));
            },
        );
        sum.mmap = self.sum_mapped(mapped);
        let most = sharers.into_iter().max_by_key(|&(row, bytes)| (bytes, Reverse(row)));
        (sum, most.map(|(row, _)| row))
    }

    /// Follows pointers from the sources of a row. Passes each block that `gate` admits to `visit`.
    fn spread<S: Default + Send>(
        &self,
        row: &Sources,
        gate: &impl Gate,
        visit: impl Fn(&mut S, &Block) + Sync,
        join: impl FnMut(S),
    ) {
        for block in &row.blocks {
            if gate.block(block.id) {
                self.queue.push(block.id);
            }
        }
        for &i in &row.mappings {
            gate.mapping(i);
        }
        let each = |share: &mut S, part: usize, block: Block| {
            // A C++ object of the runtime that a block of the program points at.
            if !row.of_runtime && !self.starts.has(block.id) && self.begins_in(part, &block) {
                return;
            }
            visit(share, &block);
            self.reach.words(part, &block, self.hull, |value| {
                if let Some(to) = self.reach.blocks.used_at(value, part) {
                    if (row.of_runtime || !self.own.has(to)) && gate.next(to) {
                        self.queue.push(to);
                    }
                } else if let Some(i) = self.mapping_at(value) {
                    gate.mapping(i);
                }
            });
        };
        self.queue.drain(each, join);
    }

    /// Whether a block begins with a pointer into one of the runtimes' images.
    pub(super) fn begins_in_image(&self, block: &Block) -> bool {
        let Some(part) = self.reach.part_of(block) else { return false };
        self.begins_in(part, block)
    }

    fn begins_in(&self, part: usize, block: &Block) -> bool {
        let first = Block { range: AddrRange::sized(block.range.start, WORD), ..*block };
        let mut is = false;
        for image in self.images {
            self.reach.words(part, &first, *image, |_| is = true);
        }
        is
    }
}
