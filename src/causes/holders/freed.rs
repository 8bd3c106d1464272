//! What a holder owns in the tree of owners, compared with its retained size.
//!
//! The tree gives an object to one owner, whatever else refers to it. The retained size counts only what nothing else
//! leads to. Where both are nearly equal, the finding has the retained size, as `retained` prints it.

use crate::addr::Addr;
use crate::causes::holders::descent::Holder;
use crate::causes::holders::naming::Namer;
use crate::runtimes::graph::Retained;

/// Minimum retained size, as a percentage of what the holder owns, that replaces it.
const NEARLY_ALL: u64 = 90;

/// Sets `bytes` of each holder to its retained size, or `freed` if that is much less.
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
    }
}
