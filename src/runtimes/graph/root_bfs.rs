//! The breadth-first search from all roots.
//!
//! A breadth-first search knows the next objects in advance, so it reads many of them together and waits for memory
//! once. A depth-first search would wait at each object.

use std::hint::black_box;

use crate::runtimes::graph::Source;
use crate::runtimes::graph::adjacency::{Block, Rows, STRAY};
use crate::runtimes::graph::bfs_order::{LEAF as IS_LEAF, Order};
use crate::runtimes::graph::budget::{GraphError, Held, Room, Table};
use crate::runtimes::graph::parallel_bfs::{self, run};
use crate::runtimes::graph::visit_states::{HOLDER, LEAF, ONCE, SEVERAL, States};

/// Number of objects whose references are looked up together.
const AHEAD: usize = 64;

/// Maximum number of children that are searched for a repeated reference.
const FEW: usize = 16;

/// Number of references above which a row is read directly instead of being copied.
const LONG: usize = 1 << 16;

const NOBODY: u32 = u32::MAX;

/// The live objects.
pub(super) struct Reached {
    pub(super) order: Order,
    /// One bit per number: whether the object references its parent.
    pub(super) back: Vec<u64>,
    pub(super) strays: u64,
    _held: Held,
}

/// An object whose references are to be looked up.
#[derive(Clone, Copy)]
pub(super) struct Next {
    number: u32,
    id: u32,
    /// ID of the object's parent.
    parent: u32,
}

/// References of a batch of objects.
#[derive(Default)]
pub(super) struct LookedUp {
    targets: Vec<u32>,
    /// End index in `targets` of each object's references.
    ends: Vec<usize>,
    /// Indices of objects whose rows are too long to be copied.
    long: Vec<usize>,
}

impl LookedUp {
    fn look_up(&mut self, all: &[Next], rows: &Rows, states: &States) {
        self.targets.clear();
        self.ends.clear();
        self.long.clear();
        let mut blocks: [Option<Block<'_>>; AHEAD] = [None; AHEAD];
        for some in all.chunks(AHEAD) {
            // Three passes let cache misses overlap: first the positions of rows, then the rows, then the states of
            // their targets.
            for (block, next) in blocks.iter_mut().zip(some) {
                *block = rows.block(next.id);
            }
            let blocks = blocks.get(..some.len()).unwrap_or_default();
            black_box(blocks.iter().flatten().fold(0, |sum, block| sum ^ block.touch()));
            let from = self.targets.len();
            for block in blocks {
                match block.and_then(Block::row) {
                    Some(row) if row.len() <= LONG => row.put(&mut self.targets),
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

struct Search<'s> {
    rows: &'s Rows,
    states: &'s States,
    ids: Table<u32>,
    /// Number of objects reached so far.
    met: usize,
    base: u32,
    firsts: Vec<u64>,
    ways_on: Vec<u64>,
    back: Vec<u64>,
    strays: u64,
    /// Number of the object from which the last one was reached.
    last: u32,
    /// Index of the first object whose references are not requested yet.
    head: usize,
    /// Parent of the object before `head`: number and ID.
    up: u32,
    parent: u32,
}

/// Searches from all roots. Root kinds have the numbers from 1.
pub(super) fn reach(
    rows: &Rows,
    states: &States,
    count: u32,
    sources: &[Source],
    room: &Room,
) -> Result<Reached, GraphError> {
    let base = 1 + sources.len() as u32;
    let words = (base as usize + count as usize) / 64 + 1;
    let bits = || vec![0; words];
    let held = room.hold(3 * 8 * words as u64);
    let mut search = Search {
        rows,
        states,
        ids: room.table(count as usize)?,
        met: 0,
        base,
        firsts: bits(),
        ways_on: bits(),
        back: bits(),
        strays: 0,
        last: NOBODY,
        head: 0,
        up: 0,
        parent: NOBODY,
    };
    if let Some(first) = sources.first() {
        set(&mut search.ways_on, 0);
        set(&mut search.firsts, first.number);
    }
    for source in sources {
        search.meet_all(Next { number: source.number, id: NOBODY, parent: NOBODY }, source.entries.iter().copied());
    }
    run(&mut search, || |all: &[Next], looked: &mut LookedUp| looked.look_up(all, rows, states));
    let Search { ids, met, firsts, ways_on, back, strays, .. } = search;
    drop(held);
    let held = room.hold(8 * back.len() as u64);
    Ok(Reached { order: Order::new(room, ids, base, met as u32, firsts, ways_on), back, strays, _held: held })
}

impl parallel_bfs::Search for Search<'_> {
    type Next = Next;
    type Looked = LookedUp;

    fn next(&mut self, most: usize, out: &mut Vec<Next>) {
        while self.head < self.met && out.len() < most {
            let number = self.base + self.head as u32;
            let entry = self.ids.get(self.head).copied().unwrap_or(0);
            if has(&self.firsts, number) {
                self.up = next(&self.ways_on, self.up + 1);
                let up = self.up.checked_sub(self.base).and_then(|up| self.ids.get(up as usize));
                self.parent = up.map_or(NOBODY, |id| id & !IS_LEAF);
            }
            if entry & IS_LEAF == 0 {
                out.push(Next { number, id: entry, parent: self.parent });
            }
            self.head += 1;
        }
    }

    fn take(&mut self, all: &[Next], looked: &LookedUp) -> bool {
        let mut from = 0;
        let mut long = looked.long.iter().peekable();
        for (at, (&next, &end)) in all.iter().zip(&looked.ends).enumerate() {
            if long.next_if_eq(&&at).is_some() {
                let rows = self.rows;
                self.meet_all(next, rows.of(next.id).iter());
            } else {
                self.meet_all(next, looked.targets.get(from..end).unwrap_or_default().iter().copied());
            }
            from = end;
        }
        true
    }
}

impl Search<'_> {
    /// Processes all references of an object.
    #[inline(always)]
    fn meet_all(&mut self, from: Next, targets: impl Iterator<Item = u32>) {
        let before = self.met;
        for to in targets {
            if to == STRAY {
                self.strays += 1;
                continue;
            }
            match self.states.get(to) {
                LEAF => self.meet(from, to | IS_LEAF),
                HOLDER => self.meet(from, to),
                ONCE if to == from.id => {}
                ONCE if to == from.parent => set(&mut self.back, from.number),
                ONCE if self.came_now(before, to) => {}
                ONCE => self.states.set(to, SEVERAL),
                _ => {}
            }
        }
    }

    /// Whether `to` was reached from the current object. `before`: number of objects reached before that object was
    /// processed.
    #[inline(always)]
    fn came_now(&self, before: usize, to: u32) -> bool {
        let now = self.ids.get(before..self.met).unwrap_or_default();
        now.len() <= FEW && now.iter().any(|id| id & !IS_LEAF == to)
    }

    #[inline(always)]
    fn meet(&mut self, from: Next, to: u32) {
        self.states.set(to & !IS_LEAF, ONCE);
        if self.last != from.number {
            self.last = from.number;
            set(&mut self.firsts, self.base + self.met as u32);
            set(&mut self.ways_on, from.number);
        }
        if let Some(place) = self.ids.get_mut(self.met) {
            *place = to;
        }
        self.met += 1;
    }
}

#[inline(always)]
pub(super) fn has(words: &[u64], at: u32) -> bool {
    words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
}

#[inline(always)]
pub(super) fn set(words: &mut [u64], at: u32) {
    if let Some(word) = words.get_mut(at as usize / 64) {
        *word |= 1 << (at % 64);
    }
}

/// Position of the first set bit at or after `at`. There must be one.
#[inline(always)]
fn next(words: &[u64], at: u32) -> u32 {
    let mut word = at as usize / 64;
    let mut bits = words.get(word).map_or(0, |bits| bits >> (at % 64) << (at % 64));
    while bits == 0 && word + 1 < words.len() {
        word += 1;
        bits = words.get(word).copied().unwrap_or(0);
    }
    word as u32 * 64 + bits.trailing_zeros()
}
