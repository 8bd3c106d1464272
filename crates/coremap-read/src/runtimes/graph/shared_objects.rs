//! Finds the objects whose dominator needs a search.
//!
//! An object with one referrer is dominated by it. That is most of a heap, and needs no search. If an object references
//! back to its only referrer (a child to its parent, a node to the previous one), that referrer dominates it. So the
//! back reference does not affect who dominates the referrer. A search is left for objects with several referrers, and
//! for what is between these and the roots.

use rayon::prelude::*;

use crate::runtimes::graph::rank_select::RankedBits;
use crate::runtimes::graph::root_bfs::{Reached, has_bit, set_bit};
use crate::runtimes::graph::visit_states::{SHARED, VisitStates};

/// Number of objects that a thread scans at once. A multiple of 64.
const SHARE: u32 = 1 << 16;

/// Returns the numbers of the objects with several referrers. `None` if there are none. Sets the state of objects that
/// turn out to have several.
pub(super) fn shared_objects(reached: &Reached, states: &VisitStates) -> Option<RankedBits> {
    let order = &reached.order;
    if !states.any(SHARED) {
        return None;
    }
    let mut words = vec![0_u64; order.len() as usize / 64 + 1];
    words.par_chunks_mut(SHARE as usize / 64).enumerate().for_each(|(share, words)| {
        let from = share as u32 * SHARE;
        for (number, id) in order.ids(from..(from + SHARE).min(order.len())) {
            if states.get(id) == SHARED {
                set_bit(words, number - from);
            }
        }
    });
    // An object with several referrers that references back to its parent is another path to the parent.
    if reached.back_refs.iter().zip(&words).any(|(back, shared)| back & shared != 0) {
        for (number, parent) in order.descending() {
            if has_bit(&reached.back_refs, number) && has_bit(&words, number) && parent >= order.base() {
                set_bit(&mut words, parent);
                if let Some(id) = order.id(parent) {
                    states.set(id, SHARED);
                }
            }
        }
    }
    Some(RankedBits::new(words))
}
