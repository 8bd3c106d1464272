//! Types and sizes of the live objects, in the order of their numbers.

use std::hint::black_box;

use crate::runtimes::api::{ObjectReader, Tally};
use crate::runtimes::graph::LiveGraph;
use crate::runtimes::graph::budget::{GraphError, MemoryBudget};
use crate::runtimes::graph::heap_pass::KindSum;
use crate::runtimes::graph::packed_index::PackedIndices;
use crate::runtimes::graph::packed_size::PackedSizes;

/// Number of objects that a thread processes at once.
const SHARE: u32 = 1 << 16;

/// Number of objects whose sizes are read together.
const BATCH: usize = 32;

pub(super) struct OwnSizes {
    /// Type by number. None for the virtual root and for root kinds.
    pub(super) kinds: PackedIndices,
    /// Size in bytes, by number.
    pub(super) sizes: PackedSizes,
    /// Count and size of live objects, by type.
    pub(super) live: Vec<Tally>,
}

/// Collects types and sizes. `kinds` has the types of all objects by ID, and `sums` has their sums by type.
pub(super) fn own_sizes(
    live: &LiveGraph<'_>,
    kinds: PackedIndices,
    sums: &[KindSum],
    budget: &MemoryBudget,
) -> Result<OwnSizes, GraphError> {
    let len = live.len();
    let numbers = |share: usize| {
        let from = share as u32 * SHARE;
        from..(from + SHARE).min(len as u32)
    };
    let mut own = PackedIndices::new(budget, len, sums.len())?;
    own.fill(SHARE as usize, |share, some| {
        let from = share as u32 * SHARE;
        let of_roots = (live.order.base().saturating_sub(from)).min(SHARE) as usize;
        some.skip(of_roots).gather(&kinds, live.order.ids(numbers(share)).map(|(_, id)| id));
    });
    drop(kinds);
    let max = sums.iter().fold(0_u64, |sum, kind| sum.saturating_add(kind.all.size));
    let mut kept = PackedSizes::new(budget, len, max)?;
    let tallies = kept.fill(SHARE as usize, |share, some| {
        let from = share as u32 * SHARE;
        if budget.is_late() {
            return Vec::new();
        }
        let mut reader = None;
        let mut tallies: Vec<Tally> = Vec::new();
        let mut add = |number: u32, kind: u32, size: u64| {
            some.set((number - from) as usize, size);
            if tallies.len() <= kind as usize {
                tallies.resize(kind as usize + 1, Tally::default());
            }
            if let Some(tally) = tallies.get_mut(kind as usize) {
                tally.add(1, size);
            }
        };
        let mut asked: Vec<(u32, u32, u64)> = Vec::with_capacity(BATCH);
        for (number, id) in live.order.ids(numbers(share)) {
            let Some(kind) = own.get(number as usize) else { continue };
            match sums.get(kind as usize).and_then(KindSum::fixed) {
                Some(size) => add(number, kind, size),
                None => {
                    let at = live.ids.address(live.graph.space, id).map_or(0, |at| at.get());
                    asked.push((number, kind, at));
                    if asked.len() == BATCH {
                        read_sizes(live, &mut reader, &mut asked, &mut add);
                    }
                }
            }
        }
        read_sizes(live, &mut reader, &mut asked, &mut add);
        tallies
    });
    budget.in_time()?;
    let mut all = vec![Tally::default(); sums.len()];
    for some in tallies {
        for (all, some) in all.iter_mut().zip(some) {
            all.add(some.count, some.size);
        }
    }
    Ok(OwnSizes { kinds: own, sizes: kept, live: all })
}

/// Reads the sizes of some objects, each given by number, type and address.
fn read_sizes<'g>(
    live: &LiveGraph<'g>,
    reader: &mut Option<Box<dyn ObjectReader + 'g>>,
    asked: &mut Vec<(u32, u32, u64)>,
    add: &mut impl FnMut(u32, u32, u64),
) {
    if asked.is_empty() {
        return;
    }
    let reader = reader.get_or_insert_with(|| live.graph.reader());
    // Objects are scattered in memory. Touching all of them first lets the cache misses overlap.
    black_box(asked.iter().fold(0, |sum, &(_, _, at)| sum ^ live.graph.first_word(at)));
    for (number, kind, at) in asked.drain(..) {
        if let Some(node) = reader.node(at) {
            add(number, kind, node.counted_size);
        }
    }
}
