//! The reduced graph for the search for dominators: objects with several referrers, and the branching objects between
//! these and the roots.
//!
//! A chain of objects in which each leads only to the next is one vertex, represented by its last object. If any object
//! of the chain dominates what follows, the last one is the immediate dominator.

use crate::runtimes::graph::Source;
use crate::runtimes::graph::adjacency::{Row, Rows, STRAY};
use crate::runtimes::graph::budget::{GraphError, Room, Table};
use crate::runtimes::graph::rank_select::Ranked;
use crate::runtimes::graph::root_bfs::{Reached, has, set};
use crate::runtimes::graph::segmented_vec::Pieces;
use crate::runtimes::graph::visit_states::{SEVERAL, States};

/// Vertices, and the edges between them. Vertex 0 is the virtual root.
pub(super) struct Knot {
    /// Number in the graph, by vertex.
    pub(super) numbers: Table<u32>,
    /// One bit per vertex: whether its object has several referrers.
    pub(super) several: Vec<u64>,
    /// End index in `to` of each vertex's edges. The next vertex's edges start there.
    ends: Table<u32>,
    to: Table<u32>,
}

/// References to objects with several referrers.
struct Shared {
    /// Numbers of the objects that contain such references.
    holders: Pieces<u32>,
    /// End index in `targets` of each holder's references.
    ends: Pieces<u32>,
    /// Targets as ranks among the objects with several referrers, in address order. [`NONE`] for a reference to ignore.
    targets: Pieces<u32>,
    /// References from roots to such objects: number of the root kind, and rank of the target.
    of_roots: Vec<(u32, u32)>,
}

impl Knot {
    /// Successors of `vertex`.
    #[inline(always)]
    pub(super) fn from(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.to.get(start..end).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn edges(&self) -> usize {
        self.to.len()
    }

    /// Builds the reduced graph. `several`: numbers of the objects with several referrers.
    pub(super) fn find(
        rows: Rows,
        states: &States,
        sources: &[Source],
        reached: &Reached,
        several: &Ranked,
        room: &Room,
    ) -> Result<Knot, GraphError> {
        let order = &reached.order;
        let by_id = states.all(SEVERAL);
        let mut shared = Shared::find(&rows, states, sources, reached, several, &by_id, room)?;
        drop(rows);
        let (needed, kept) = vertices(reached, several, &shared);
        let count = kept.count() as usize;
        let tree = tree(reached, several, &needed, &kept, room)?;
        drop(needed);
        let mut of_several: Table<u32> = room.table(by_id.count() as usize)?;
        for (vertex, number) in (0..).zip(kept.all()) {
            if several.has(number)
                && let Some(place) = order.id(number).and_then(|id| of_several.get_mut(by_id.rank(id) as usize))
            {
                *place = vertex;
            }
        }
        drop(by_id);
        // From here on only vertices are used. Tables by number are freed before the edges, which are the largest, are
        // stored.
        shared.between_vertices(&kept, &of_several);
        drop(of_several);
        // Count the edges of each vertex, then compute where they start.
        let mut ends: Table<u32> = room.table(count)?;
        for &parent in tree.iter().filter(|&&parent| parent != NONE) {
            add(&mut ends, parent, 1);
        }
        shared.each(|from, _| add(&mut ends, from, 1));
        let mut sum = 0_u64;
        for end in ends.iter_mut() {
            let count = std::mem::replace(end, sum as u32);
            sum += u64::from(count);
        }
        u32::try_from(sum).map_err(|_| GraphError::TooMany)?;
        let mut to: Table<u32> = room.table(sum as usize)?;
        let mut put = |from: u32, vertex: u32| {
            if let Some(end) = ends.get_mut(from as usize) {
                if let Some(place) = to.get_mut(*end as usize) {
                    *place = vertex;
                }
                *end += 1;
            }
        };
        shared.each(&mut put);
        drop(shared);
        for (vertex, &parent) in (0..).zip(tree.iter()) {
            if parent != NONE {
                put(parent, vertex);
            }
        }
        drop(tree);
        let mut numbers: Table<u32> = room.table(count)?;
        numbers.iter_mut().zip(kept.all()).for_each(|(place, number)| *place = number);
        let mut marks = vec![0; count / 64 + 1];
        for (vertex, &number) in (0..).zip(numbers.iter()) {
            if several.has(number) {
                set(&mut marks, vertex);
            }
        }
        Ok(Knot { numbers, several: marks, ends, to })
    }
}

/// Number of chunks that are scanned before their results are merged.
const AT_ONCE: usize = 64;

/// Represents the absence of a vertex, or of a reference.
const NONE: u32 = u32::MAX;

fn add(counts: &mut [u32], at: u32, more: u32) {
    if let Some(count) = counts.get_mut(at as usize) {
        *count = count.wrapping_add(more);
    }
}

impl Shared {
    /// Finds the references in address order, which does not wait for memory. Afterwards converts the IDs of the
    /// holders to numbers.
    fn find(
        rows: &Rows,
        states: &States,
        sources: &[Source],
        reached: &Reached,
        several: &Ranked,
        by_id: &Ranked,
        room: &Room,
    ) -> Result<Shared, GraphError> {
        let order = &reached.order;
        let of_chunk = |out: &mut (Vec<(u32, u32)>, Vec<u32>), id: u32, row: Row<'_>| {
            let before = out.1.len();
            let shared = |&to: &u32| to != STRAY && to != id && states.get(to) == SEVERAL;
            out.1.extend(row.iter().filter(shared).map(|to| by_id.rank(to)));
            if out.1.len() > before {
                if states.lives(id) { out.0.push((id, (out.1.len() - before) as u32)) } else { out.1.truncate(before) }
            }
        };
        let mut bits = vec![0_u64; by_id.words()];
        let mut holders = Pieces::new(room);
        let (mut ends, mut targets) = (Pieces::new(room), Pieces::new(room));
        let mut end = 0_u32;
        for first in (0..rows.chunks()).step_by(AT_ONCE) {
            for (of_chunk, to) in rows.each(first..(first + AT_ONCE).min(rows.chunks()), of_chunk) {
                targets.extend(to)?;
                for (id, count) in of_chunk {
                    set(&mut bits, id);
                    end = end.checked_add(count).ok_or(GraphError::TooMany)?;
                    ends.push(end)?;
                    holders.push(0)?;
                }
            }
        }
        let holding = Ranked::new(bits);
        order.numbers_in(&holding, |id, number| {
            if let Some(place) = holders.get_mut(holding.rank(id) as usize) {
                *place = number;
            }
        });
        // A reference back to the parent, from an object with one referrer, does not affect dominators.
        let mut cursor = order.cursor();
        let mut start = 0;
        for rank in 0..holders.len() {
            let (number, end) = (holders.get(rank).unwrap_or(0), ends.get(rank).unwrap_or(0) as usize);
            if has(&reached.back, number)
                && !several.has(number)
                && let Some(parent) = order.id(cursor.parent(number)).filter(|&parent| states.get(parent) == SEVERAL)
            {
                let parent = by_id.rank(parent);
                for at in start..end {
                    if let Some(to) = targets.get_mut(at).filter(|to| **to == parent) {
                        *to = NONE;
                    }
                }
            }
            start = end;
        }
        let mut of_roots = Vec::new();
        for source in sources {
            let held = source.entries.iter().filter(|&&id| states.get(id) == SEVERAL);
            of_roots.extend(held.map(|&id| (source.number, by_id.rank(id))));
        }
        Ok(Shared { holders, ends, targets, of_roots })
    }

    /// Replaces numbers and ranks by vertices. `vertices` is the set of vertices' numbers, and `by_rank` has a vertex
    /// for each rank.
    fn between_vertices(&mut self, vertices: &Ranked, by_rank: &[u32]) {
        let vertex = |rank: u32| by_rank.get(rank as usize).copied().unwrap_or(0);
        self.of_roots.iter_mut().for_each(|(number, rank)| (*number, *rank) = (vertices.rank(*number), vertex(*rank)));
        self.holders.change(|number| vertices.rank(number));
        self.targets.change(|rank| if rank == NONE { NONE } else { vertex(rank) });
    }

    /// Visits all references as number and rank. After `between_vertices`, as vertices.
    fn each(&self, mut visit: impl FnMut(u32, u32)) {
        self.of_roots.iter().for_each(|&(number, rank)| visit(number, rank));
        let (mut targets, mut start) = (self.targets.iter(), 0);
        for (number, end) in self.holders.iter().zip(self.ends.iter()) {
            let own = targets.by_ref().take((end - start) as usize);
            own.filter(|&rank| rank != NONE).for_each(|rank| visit(number, rank));
            start = end;
        }
    }
}

/// Returns the numbers on paths to objects with several referrers, and those of them that are vertices.
fn vertices(reached: &Reached, several: &Ranked, shared: &Shared) -> (Ranked, Ranked) {
    let order = &reached.order;
    let words = order.len() as usize / 64 + 1;
    let (mut needed, mut kept) = (vec![0_u64; words], vec![0_u64; words]);
    // Whether one needed child, or more than one, is reached only from the number.
    let (mut one, mut more) = (vec![0_u64; words], vec![0_u64; words]);
    set(&mut needed, 0);
    shared.each(|number, _| {
        set(&mut needed, number);
        // A holder of such references is not part of a chain.
        set(&mut more, number);
    });
    let mut cursor = order.cursor();
    for at in (0..words).rev() {
        // Processing a number may add lower numbers to the same word.
        let mut done = 0_u64;
        loop {
            let bits = several.word(at) | needed.get(at).copied().unwrap_or(0);
            let left = bits & !done;
            if left == 0 {
                break;
            }
            let bit = 63 - left.leading_zeros();
            done |= u64::MAX << bit;
            let number = at as u32 * 64 + bit;
            if number == 0 {
                break;
            }
            let shares = several.has(number);
            if shares {
                set(&mut needed, number);
            } else {
                let parent = cursor.parent(number);
                set(&mut needed, parent);
                if has(&one, parent) {
                    set(&mut more, parent);
                }
                set(&mut one, parent);
            }
            let link = !shares && number >= order.base() && has(&one, number) && !has(&more, number);
            if !link {
                set(&mut kept, number);
            }
        }
    }
    set(&mut kept, 0);
    (Ranked::new(needed), Ranked::new(kept))
}

/// The vertex that alone leads to each vertex. [`NONE`] if its object has several referrers.
fn tree(
    reached: &Reached,
    several: &Ranked,
    needed: &Ranked,
    kept: &Ranked,
    room: &Room,
) -> Result<Table<u32>, GraphError> {
    let mut tree: Table<u32> = room.table(kept.count() as usize)?;
    // By rank among the needed numbers: the number's own vertex, else the nearest one above.
    let mut nearest: Table<u32> = room.table(needed.count() as usize)?;
    let (mut vertex, mut rank) = (1_u32, 1_usize);
    if let Some(first) = tree.first_mut() {
        *first = NONE;
    }
    let mut cursor = reached.order.cursor();
    let mut next = needed.next(1);
    while let Some(number) = next {
        next = needed.next(number + 1);
        let mut above = NONE;
        if !several.has(number) {
            let parent = cursor.parent(number);
            above = nearest.get(needed.rank(parent) as usize).copied().unwrap_or(0);
        }
        let own = if kept.has(number) {
            if let Some(up) = tree.get_mut(vertex as usize) {
                *up = above;
            }
            vertex += 1;
            vertex - 1
        } else {
            above
        };
        if let Some(place) = nearest.get_mut(rank) {
            *place = own;
        }
        rank += 1;
    }
    Ok(tree)
}
