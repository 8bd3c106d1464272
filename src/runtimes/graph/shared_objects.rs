//! Finds the objects whose dominator needs a search.
//!
//! An object with one referrer is dominated by it. That is most of a heap, and needs no search. If an object references
//! back to its only referrer (a child to its parent, a node to the previous one), that referrer dominates it. So the
//! back reference does not affect who dominates the referrer. A search is left for objects with several referrers, and
//! for what is between these and the roots.

use rayon::prelude::*;

use crate::runtimes::graph::rank_select::Ranked;
use crate::runtimes::graph::root_bfs::{Reached, has, set};
use crate::runtimes::graph::visit_states::{SEVERAL, States};

/// Number of objects that a thread scans at once. A multiple of 64.
const SHARE: u32 = 1 << 16;

/// Returns the numbers of the objects with several referrers. `None` if there are none. Sets the state of objects that
/// turn out to have several.
pub(super) fn several(reached: &Reached, states: &States) -> Option<Ranked> {
    let order = &reached.order;
    if !states.any(SEVERAL) {
        return None;
    }
    let mut words = vec![0_u64; order.len() as usize / 64 + 1];
    words.par_chunks_mut(SHARE as usize / 64).enumerate().for_each(|(share, words)| {
        let from = share as u32 * SHARE;
        for (number, id) in order.ids(from..(from + SHARE).min(order.len())) {
            if states.get(id) == SEVERAL {
                set(words, number - from);
            }
        }
    });
    // An object with several referrers that references back to its parent is another path to the parent.
    if reached.back.iter().zip(&words).any(|(back, several)| back & several != 0) {
        for (number, parent) in order.downwards() {
            if has(&reached.back, number) && has(&words, number) && parent >= order.base() {
                set(&mut words, parent);
                if let Some(id) = order.id(parent) {
                    states.set(id, SEVERAL);
                }
            }
        }
    }
    Some(Ranked::new(words))
}
