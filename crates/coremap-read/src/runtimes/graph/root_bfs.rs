//! The breadth-first search from all roots.
//!
//! A breadth-first search knows the next objects in advance, so it reads many of them together and waits for memory
//! once. A depth-first search would wait at each object.

use std::hint::black_box;

use crate::runtimes::graph::RootNode;
use crate::runtimes::graph::adjacency::{Adjacency, Block, STRAY};
use crate::runtimes::graph::bfs_order::{BfsOrder, LEAF_FLAG as IS_LEAF};
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget, Table};
use crate::runtimes::graph::parallel_bfs::{self, run};
use crate::runtimes::graph::visit_states::{HAS_REFS, LEAF, ONE_REFERRER, SHARED, VisitStates};

/// Number of objects whose references are looked up together.
const BATCH: usize = 64;

/// Maximum number of children that are searched for a repeated reference.
const MAX_REPEAT_SCAN: usize = 16;

/// Number of references above which a row is read directly instead of being copied.
const LONG_LIST: usize = 1 << 16;

const NO_OBJECT: u32 = u32::MAX;

/// The live objects.
pub(super) struct Reached {
    pub(super) order: BfsOrder,
    /// One bit per number: whether the object references its parent.
    pub(super) back_refs: Vec<u64>,
    pub(super) strays: u64,
    _charge: Charge,
}

/// An object whose references are to be looked up.
#[derive(Clone, Copy)]
pub(super) struct QueuedObject {
    number: u32,
    id: u32,
    /// ID of the object's parent.
    parent: u32,
}

/// References of a batch of objects.
#[derive(Default)]
pub(super) struct RefBatch {
    targets: Vec<u32>,
    /// End index in `targets` of each object's references.
    ends: Vec<usize>,
    /// Indices of objects whose rows are too long to be copied.
    long: Vec<usize>,
}

impl RefBatch {
    fn look_up(&mut self, all: &[QueuedObject], adjacency: &Adjacency, states: &VisitStates) {
        self.targets.clear();
        self.ends.clear();
        self.long.clear();
        let mut blocks: [Option<Block<'_>>; BATCH] = [None; BATCH];
        for some in all.chunks(BATCH) {
            // Three passes let cache misses overlap: first the positions of rows, then the rows, then the states of
            // their targets.
            for (block, next) in blocks.iter_mut().zip(some) {
                *block = adjacency.block(next.id);
            }
            let blocks = blocks.get(..some.len()).unwrap_or_default();
            black_box(blocks.iter().flatten().fold(0, |sum, block| sum ^ block.touch()));
            let from = self.targets.len();
            for block in blocks {
                match block.and_then(Block::refs) {
                    Some(row) if row.len() <= LONG_LIST => row.append_to(&mut self.targets),
                    Some(_) => self.long.push(self.ends.len()),
                    None => {}
                }
                self.ends.push(self.targets.len());
            }
            let new = self.targets.get(from..).unwrap_or_default();
            black_box(new.iter().fold(0, |sum, &to| sum ^ states.get(to)));
        }
    }
}

struct RootBfs<'s> {
    budget: &'s MemoryBudget,
    adjacency: &'s Adjacency,
    states: &'s VisitStates,
    ids: Table<u32>,
    /// Number of objects reached so far.
    reached: usize,
    base: u32,
    first_children: Vec<u64>,
    with_children: Vec<u64>,
    back_refs: Vec<u64>,
    strays: u64,
    /// Number of the object from which the last one was reached.
    last: u32,
    /// Index of the first object whose references are not requested yet.
    head: usize,
    /// Parent of the object before `head`: number and ID.
    parent_number: u32,
    parent: u32,
}

/// Searches from all roots. Root kinds have the numbers from 1.
pub(super) fn reach(
    adjacency: &Adjacency,
    states: &VisitStates,
    count: u32,
    root_nodes: &[RootNode],
    budget: &MemoryBudget,
) -> Result<Reached, GraphError> {
    let base = 1 + root_nodes.len() as u32;
    let words = (base as usize + count as usize) / 64 + 1;
    let bits = || vec![0; words];
    let charge = budget.charge(3 * 8 * words as u64);
    let mut search = RootBfs {
        budget,
        adjacency,
        states,
        ids: budget.table(count as usize)?,
        reached: 0,
        base,
        first_children: bits(),
        with_children: bits(),
        back_refs: bits(),
        strays: 0,
        last: NO_OBJECT,
        head: 0,
        parent_number: 0,
        parent: NO_OBJECT,
    };
    if let Some(first) = root_nodes.first() {
        set_bit(&mut search.with_children, 0);
        set_bit(&mut search.first_children, first.number);
    }
    for source in root_nodes {
        search.visit_refs(
            QueuedObject { number: source.number, id: NO_OBJECT, parent: NO_OBJECT },
            source.entries.iter().copied(),
        );
    }
    run(&mut search, || |all: &[QueuedObject], looked: &mut RefBatch| looked.look_up(all, adjacency, states));
    budget.in_time()?;
    let RootBfs { ids, reached, first_children, with_children, back_refs, strays, .. } = search;
    drop(charge);
    let charge = budget.charge(8 * back_refs.len() as u64);
    Ok(Reached {
        order: BfsOrder::new(budget, ids, base, reached as u32, first_children, with_children),
        back_refs,
        strays,
        _charge: charge,
    })
}

impl parallel_bfs::Traversal for RootBfs<'_> {
    type Queued = QueuedObject;
    type Refs = RefBatch;

    fn take_queued(&mut self, limit: usize, out: &mut Vec<QueuedObject>) {
        while self.head < self.reached && out.len() < limit {
            let number = self.base + self.head as u32;
            let entry = self.ids.get(self.head).copied().unwrap_or(0);
            if has_bit(&self.first_children, number) {
                self.parent_number = next_set_bit(&self.with_children, self.parent_number + 1);
                let up = self.parent_number.checked_sub(self.base).and_then(|up| self.ids.get(up as usize));
                self.parent = up.map_or(NO_OBJECT, |id| id & !IS_LEAF);
            }
            if entry & IS_LEAF == 0 {
                out.push(QueuedObject { number, id: entry, parent: self.parent });
            }
            self.head += 1;
        }
    }

    fn process(&mut self, all: &[QueuedObject], looked: &RefBatch) -> bool {
        let mut from = 0;
        let mut long = looked.long.iter().peekable();
        for (at, (&next, &end)) in all.iter().zip(&looked.ends).enumerate() {
            if long.next_if_eq(&&at).is_some() {
                let adjacency = self.adjacency;
                self.visit_refs(next, adjacency.refs(next.id).iter());
            } else {
                self.visit_refs(next, looked.targets.get(from..end).unwrap_or_default().iter().copied());
            }
            from = end;
        }
        !self.budget.is_late()
    }
}

impl RootBfs<'_> {
    /// Processes all references of an object.
    #[inline(always)]
    fn visit_refs(&mut self, from: QueuedObject, targets: impl Iterator<Item = u32>) {
        let before = self.reached;
        for to in targets {
            if to == STRAY {
                self.strays += 1;
                continue;
            }
            match self.states.get(to) {
                LEAF => self.enqueue(from, to | IS_LEAF),
                HAS_REFS => self.enqueue(from, to),
                ONE_REFERRER if to == from.id => {}
                ONE_REFERRER if to == from.parent => set_bit(&mut self.back_refs, from.number),
                ONE_REFERRER if self.reached_just_now(before, to) => {}
                ONE_REFERRER => self.states.set(to, SHARED),
                _ => {}
            }
        }
    }

    /// Whether `to` was reached from the current object. `before`: number of objects reached before that object was
    /// processed.
    #[inline(always)]
    fn reached_just_now(&self, before: usize, to: u32) -> bool {
        let now = self.ids.get(before..self.reached).unwrap_or_default();
        now.len() <= MAX_REPEAT_SCAN && now.iter().any(|id| id & !IS_LEAF == to)
    }

    #[inline(always)]
    fn enqueue(&mut self, from: QueuedObject, to: u32) {
        self.states.set(to & !IS_LEAF, ONE_REFERRER);
        if self.last != from.number {
            self.last = from.number;
            set_bit(&mut self.first_children, self.base + self.reached as u32);
            set_bit(&mut self.with_children, from.number);
        }
        if let Some(place) = self.ids.get_mut(self.reached) {
            *place = to;
        }
        self.reached += 1;
    }
}

#[inline(always)]
pub(super) fn has_bit(words: &[u64], at: u32) -> bool {
    words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
}

#[inline(always)]
pub(super) fn set_bit(words: &mut [u64], at: u32) {
    if let Some(word) = words.get_mut(at as usize / 64) {
        *word |= 1 << (at % 64);
    }
}

/// Position of the first set bit at or after `at`. There must be one.
#[inline(always)]
fn next_set_bit(words: &[u64], at: u32) -> u32 {
    let mut word = at as usize / 64;
    let mut bits = words.get(word).map_or(0, |bits| bits >> (at % 64) << (at % 64));
    while bits == 0 && word + 1 < words.len() {
        word += 1;
        bits = words.get(word).copied().unwrap_or(0);
    }
    word as u32 * 64 + bits.trailing_zeros()
}
