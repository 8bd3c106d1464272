//! Bytes that a holder retains but that need no action: pages that were never written, and memory that a collection
//! frees by itself.

use crate::addr::AddrRange;
use crate::analysis::resident::{is_known, with_rss, written};
use crate::causes::holders::descent::Holder;
use crate::causes::holders::naming::Namer;
use crate::runtimes::graph::TreeNode;
use crate::session::Session;
use crate::sums::SaturatingSum;

/// Minimum size in bytes of an object that is checked for unwritten pages, and minimum bytes for a sentence.
pub(crate) const LARGE: u64 = 64 << 10;

/// Maximum number of objects measured.
const MEASURED: usize = 1 << 20;

/// Bytes of one holder that need no action.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Absent {
    /// Pages of large objects that take up no memory.
    pub(super) untouched: u64,
    /// Bytes that the holder reaches only through soft references. A collection frees them before an allocation fails.
    pub(super) soft: u64,
}

/// Measures each holder. Only large parts of its subtree are visited.
pub(super) fn absent(session: &Session<'_>, namer: &Namer<'_, '_, '_, '_>, holders: &[Holder]) -> Vec<Absent> {
    let mut out = vec![Absent::default(); holders.len()];
    let mut large = Vec::new();
    for (index, (holder, sum)) in holders.iter().zip(&mut out).enumerate() {
        let mut open: Vec<(TreeNode, bool)> = holder.container.iter().map(|node| (*node, false)).collect();
        let mut visited = 0_usize;
        while let Some((node, below_soft)) = open.pop() {
            visited += 1;
            if namer.tree.budget.is_late_at(visited) {
                return out;
            }
            let bytes = namer.tree.bytes(node);
            if bytes < LARGE {
                continue;
            }
            let children = namer.tree.children(node);
            let below: u64 = children.iter().map(|child| namer.tree.bytes(*child)).saturating_sum();
            let outside = namer.outside.get(&node).map_or(0, |(_, bytes)| *bytes);
            let own = bytes.saturating_sub(below).saturating_sub(outside);
            let is_soft = namer.names.heap.is_soft_reference(namer.tree.kind(node));
            if is_soft && !below_soft {
                sum.soft = sum.soft.saturating_add(below);
            }
            if own >= LARGE && large.len() < MEASURED {
                large.extend(namer.tree.address(node).map(|at| (AddrRange::sized(at, own), index)));
            }
            open.extend(children.iter().map(|child| (*child, below_soft || is_soft)));
        }
    }
    // Zero pages prove nothing if the runtime itself clears objects.
    if namer.runtime.clears_objects() && with_rss(session).is_none() {
        return out;
    }
    for (sum, untouched) in out.iter_mut().zip(untouched(session, large, holders.len())) {
        // The finding's bytes are those of its sentence, which names large amounts alone.
        sum.untouched = if untouched < LARGE { 0 } else { untouched };
    }
    out
}

/// Returns the bytes of each group of objects that take up no memory. Objects count as written if that is unknown.
pub(crate) fn untouched(session: &Session<'_>, mut objects: Vec<(AddrRange, usize)>, groups: usize) -> Vec<u64> {
    objects.retain(|(range, _)| is_known(session, *range));
    objects.sort_unstable();
    objects.dedup_by(|next, kept| next.0.start < kept.0.end);
    let mut out = vec![0_u64; groups];
    for (range, group) in &objects {
        if let Some(sum) = out.get_mut(*group) {
            *sum = sum.saturating_add(range.len());
        }
    }
    let written = written(session, &objects, groups);
    for (sum, written) in out.iter_mut().zip(written) {
        *sum = written.map_or(0, |written| sum.saturating_sub(written));
    }
    out
}

/// Returns the evidence that pages take up no memory.
pub(crate) fn not_there(session: &Session<'_>) -> &'static str {
    match with_rss(session) {
        Some(_) => "is neither resident nor in swap",
        None => "is pages of zeros, as if never written",
    }
}
