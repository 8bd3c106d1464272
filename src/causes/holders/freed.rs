//! What a holder owns in the ownership tree, compared with its retained size.
//!
//! The tree gives an object to one owner, whatever else refers to it. The retained size counts only what nothing else
//! leads to. Where both are nearly equal, the finding has the retained size, as `retained` prints it.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::causes::holders::descent::Holder;
use crate::causes::holders::naming::Namer;
use crate::runtimes::graph::{Parent, Retained, TreeNode};

/// Minimum retained size, as a percentage of what the holder owns, that replaces it.
const NEARLY_ALL: u64 = 90;

/// Maximum number of elements that are looked up in the tree, and of steps up from each.
const SAMPLE: usize = 64;
const STEPS: usize = 24;

/// Sets `bytes` of each holder to its retained size, or `freed` if that is much less. Sets `owns`.
pub(super) fn compare(retained: &Retained<'_>, namer: &Namer<'_, '_, '_, '_>, holders: &mut [Holder]) {
    for holder in holders {
        let objects: Vec<Addr> = holder.container.iter().filter_map(|node| namer.tree.address(*node)).collect();
        // Number 0 is the virtual root: no root leads to that object.
        let numbers = retained.live.numbers_of(&objects).into_iter().flatten().filter(|number| *number != 0);
        let numbers: Vec<u32> = numbers.collect();
        let (_, outside) = namer.outside_of(&holder.container);
        let freed = match numbers.as_slice() {
            [one] => retained.bytes(*one),
            several => retained.bytes_of_all(several),
        };
        let freed = freed.saturating_add(outside);
        if freed.saturating_mul(100) >= holder.bytes.saturating_mul(NEARLY_ALL) {
            holder.bytes = freed;
        } else {
            holder.freed = Some(freed);
        }
        holder.owns = owns_elements(namer, holder);
    }
}

/// Whether most elements of the main type are below the container, or are the container.
fn owns_elements(namer: &Namer<'_, '_, '_, '_>, holder: &Holder) -> bool {
    let Some((main, ..)) = holder.elements.by_kind.first() else { return true };
    let sample = holder.elements.sample.iter().copied().filter(|node| namer.tree.kind(*node) == *main);
    let container: HashSet<TreeNode> = holder.container.iter().copied().collect();
    let (mut all, mut below) = (0_usize, 0_usize);
    for element in sample.take(SAMPLE) {
        all += 1;
        below += usize::from(is_below(namer, element, &container));
    }
    below.saturating_mul(2) >= all
}

/// Whether the way up from a node comes to one of some others. A way that is longer than [`STEPS`] counts as such: it
/// goes through a list.
fn is_below(namer: &Namer<'_, '_, '_, '_>, node: TreeNode, others: &HashSet<TreeNode>) -> bool {
    let up = |at: &TreeNode| match namer.tree.parent(*at)? {
        Parent::Object(up) => Some(up),
        Parent::Root(_) => None,
    };
    let way: Vec<TreeNode> = std::iter::successors(Some(node), up).take(STEPS).collect();
    way.len() == STEPS || way.iter().any(|at| others.contains(at))
}
