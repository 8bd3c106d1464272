//! What dominators need no search for.
//!
//! Whoever is referred to by one object alone is dominated by it: that is most of a heap, and it is seen without following
//! anything. What refers back to the one object that refers to it (a child to its parent, a node to the one before it) is
//! dominated by that one, so that its reference says nothing of who dominates it. A search is left for what several refer
//! to, and for what stands between these and the roots.

use rayon::prelude::*;

use crate::runtimes::graph::bits::Ranked;
use crate::runtimes::graph::reach::{Reached, has, set};
use crate::runtimes::graph::states::{SEVERAL, States};

/// Numbers of a share, a multiple of 64.
const SHARE: u32 = 1 << 16;

/// Which numbers are of objects that several refer to; `None` where there is none. Of objects that come to be such, the state
/// is changed.
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
    // What several refer to, and refers back to what it was come to from: then that has another way to it.
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
