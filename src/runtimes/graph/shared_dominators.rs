//! Dominators of the objects that have several referrers.

use crate::runtimes::graph::Source;
use crate::runtimes::graph::adjacency::Rows;
use crate::runtimes::graph::budget::{GraphError, Held, Room, Table};
use crate::runtimes::graph::rank_select::Ranked;
use crate::runtimes::graph::reduced_graph::Knot;
use crate::runtimes::graph::root_bfs::{Reached, has, set};
use crate::runtimes::graph::semi_nca::dominators;
use crate::runtimes::graph::shared_objects::several;
use crate::runtimes::graph::visit_states::States;

/// Referrers of each number, without its parent in the depth-first tree.
pub(super) struct Edges {
    /// End index in `from` of each number's referrers. The next number's referrers start there.
    ends: Table<u32>,
    from: Table<u32>,
}

impl Edges {
    pub(super) fn raw(ends: Table<u32>, from: Table<u32>) -> Edges {
        Edges { ends, from }
    }

    /// Copies the edges into tables made by `table`.
    #[cfg(test)]
    pub(super) fn again(&self, table: impl Fn(&[u32]) -> Table<u32>) -> Edges {
        Edges { ends: table(&self.ends), from: table(&self.from) }
    }

    /// Referrers of `number`.
    #[inline(always)]
    pub(super) fn to(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.from.get(start..end).unwrap_or_default()
    }

    /// Stores `instead` in the table slot that ends this number's referrers. The referrers of this number and of all
    /// higher ones must not be read afterwards.
    #[inline(always)]
    pub(super) fn put(&mut self, number: u32, instead: u32) {
        if let Some(end) = self.ends.get_mut(number as usize) {
            *end = instead;
        }
    }

    /// The stored values, by number.
    pub(super) fn put_in(self) -> Table<u32> {
        self.ends
    }
}

/// Dominators of the numbers for which it is not the parent on the shortest path.
pub(super) struct Uppers {
    /// The numbers of the objects with several referrers.
    pub(super) several: Ranked,
    /// The immediate dominator of each of them, in their order.
    of: Table<u32>,
    _held: Held,
}

impl Uppers {
    /// Finds the dominators. `None` if no object has several referrers.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn find(
        rows: Rows,
        states: &States,
        sources: &[Source],
        reached: &Reached,
        room: &Room,
    ) -> Result<Option<Uppers>, GraphError> {
        let Some(several) = several(reached, states) else { return Ok(None) };
        let held = room.hold(several.bytes());
        let knot = Knot::find(rows, states, sources, reached, &several, room)?;
        let (vertices, edges) = (knot.len(), knot.edges());
        // Peak memory: six numbers per vertex, and each edge in both directions.
        let bytes = 4 * (6 * vertices + 2 * edges);
        tracing::debug!(vertices, edges, bytes, left = room.left(), "dominators are searched for");
        let search = Search::run(&knot, room)?;
        let edges = search.edges(&knot, room)?;
        let (numbers, shared, parents) = search.numbers(knot);
        let found = dominators(parents, edges, room)?;
        let mut of: Table<u32> = room.table(several.count() as usize)?;
        for (at, (&number, &up)) in (0..).zip(numbers.iter().zip(found.iter())) {
            if has(&shared, at)
                && let Some(place) = of.get_mut(several.rank(number) as usize)
            {
                *place = numbers.get(up as usize).copied().unwrap_or(0);
            }
        }
        Ok(Some(Uppers { several, of, _held: held }))
    }

    /// The immediate dominator of `number`, if its object has several referrers. `None` otherwise.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<u32> {
        if !self.several.has(number) {
            return None;
        }
        self.of.get(self.several.rank(number) as usize).copied()
    }
}

/// A depth-first search, which numbers the vertices in preorder.
struct Search {
    /// Vertex, by preorder number. 0 is the virtual root.
    vertices: Table<u32>,
    /// Parent in the search tree, by preorder number.
    parents: Table<u32>,
    /// Preorder number, by vertex.
    numbers: Table<u32>,
    met: u32,
}

/// A vertex on the stack. `place` is the index of its next edge.
struct Frame {
    vertex: u32,
    number: u32,
    place: u32,
}

impl Search {
    fn run(knot: &Knot, room: &Room) -> Result<Search, GraphError> {
        let len = knot.len();
        let mut search =
            Search { vertices: room.table(len)?, parents: room.table(len)?, numbers: room.table(len)?, met: 0 };
        let mut seen = vec![0_u64; len / 64 + 1];
        let mut stack = vec![Frame { vertex: 0, number: search.number(0, 0, &mut seen), place: 0 }];
        // A vertex stays on the stack only if it has more than one unvisited successor. So lists of any length need no
        // stack if each node leads only to the next one.
        while let Some(mut at) = stack.pop() {
            loop {
                let (mut child, mut more) = (None, None);
                for (place, &to) in knot.from(at.vertex).iter().enumerate().skip(at.place as usize) {
                    if has(&seen, to) {
                        continue;
                    }
                    match child {
                        None => child = Some(to),
                        Some(first) if first == to => {}
                        Some(_) => {
                            more = Some(place as u32);
                            break;
                        }
                    }
                }
                let Some(vertex) = child else { break };
                let number = search.number(vertex, at.number, &mut seen);
                if let Some(place) = more {
                    stack.push(Frame { place, ..at });
                }
                at = Frame { vertex, number, place: 0 };
            }
        }
        Ok(search)
    }

    /// Assigns the next preorder number to `vertex`.
    fn number(&mut self, vertex: u32, parent: u32, seen: &mut [u64]) -> u32 {
        let number = self.met;
        self.met += 1;
        if let (Some(own), Some(up), Some(of)) = (
            self.vertices.get_mut(number as usize),
            self.parents.get_mut(number as usize),
            self.numbers.get_mut(vertex as usize),
        ) {
            (*own, *up, *of) = (vertex, parent, number);
        }
        set(seen, vertex);
        number
    }

    /// By preorder number: the number in the graph, whether the object has several referrers, and the parent.
    fn numbers(self, knot: Knot) -> (Table<u32>, Vec<u64>, Table<u32>) {
        let Search { mut vertices, parents, met, .. } = self;
        let mut shared = vec![0_u64; vertices.len() / 64 + 1];
        for (at, place) in (0..met).zip(vertices.iter_mut()) {
            if has(&knot.several, *place) {
                set(&mut shared, at);
            }
            *place = knot.numbers.get(*place as usize).copied().unwrap_or(0);
        }
        (vertices, shared, parents)
    }

    /// Referrers of objects with several referrers, by preorder number, without the edges of the search tree.
    fn edges(&self, knot: &Knot, room: &Room) -> Result<Edges, GraphError> {
        let mut ends: Table<u32> = room.table(knot.len())?;
        self.each(knot, |_, to| {
            if let Some(end) = ends.get_mut(to as usize) {
                *end += 1;
            }
        });
        let mut sum = 0;
        for end in ends.iter_mut() {
            let count = std::mem::replace(end, sum);
            sum += count;
        }
        let mut from: Table<u32> = room.table(sum as usize)?;
        // The start of each row moves up to its end.
        self.each(knot, |v, to| {
            if let Some(end) = ends.get_mut(to as usize) {
                if let Some(place) = from.get_mut(*end as usize) {
                    *place = v;
                }
                *end += 1;
            }
        });
        Ok(Edges::raw(ends, from))
    }

    fn each(&self, knot: &Knot, mut visit: impl FnMut(u32, u32)) {
        let vertices = self.vertices.iter().take(self.met as usize);
        for (v, &vertex) in (0..).zip(vertices) {
            for &to in knot.from(vertex).iter().filter(|&&to| has(&knot.several, to)) {
                let to = self.numbers.get(to as usize).copied().unwrap_or(0);
                if self.parents.get(to as usize) != Some(&v) {
                    visit(v, to);
                }
            }
        }
    }
}
