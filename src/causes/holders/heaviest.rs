//! The heaviest part of the elements: the objects below them with most of the bytes, and the path to these.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::causes::holders::descent::Holder;
use crate::causes::holders::naming::{Namer, plain};
use crate::runtimes::api::{TypeIndex, TypeRole};
use crate::runtimes::graph::TreeNode;
use crate::units::{exact, round};

/// Minimum share of the elements' bytes, in percent, of one type of objects below them.
const MOST: u64 = 60;

/// Maximum number of steps, and of links shown.
const STEPS: usize = 12;
const LINKS: usize = 5;

/// Minimum size of the elements in bytes for a phrase.
const LARGE: u64 = 1 << 20;

/// Returns a phrase on where most bytes of the elements are, with the path to them. For example:
/// `; most of it is 400 bytes (100 MiB), by traceback → local pages of f`. Empty if they are in the elements
/// themselves, or in objects that the sentence names already.
pub(super) fn heaviest(namer: &mut Namer<'_, '_, '_, '_>, holder: &Holder) -> String {
    let Some((main, count, whole)) = holder.elements.by_kind.first().copied() else { return String::new() };
    let mut at: Vec<TreeNode> =
        holder.elements.sample.iter().copied().filter(|node| namer.tree.kind(*node) == main).collect();
    // A sample is not enough for the sums.
    if at.len() as u64 != count || whole < LARGE {
        return String::new();
    }
    // A value of a dict is named by its key.
    let mut links: Vec<String> = at.first().and_then(|node| key(namer, *node)).into_iter().collect();
    let by_key = links.len();
    let mut end: Option<(TypeIndex, u64, u64)> = (by_key > 0).then_some((main, count, whole));
    for _ in 0..STEPS {
        let Some((kind, nodes, bytes)) = largest(namer, &at) else { break };
        if bytes.saturating_mul(100) < whole.saturating_mul(MOST) {
            break;
        }
        let heaviest = nodes.iter().copied().max_by_key(|node| (namer.tree.bytes(*node), Reverse(*node)));
        links.extend(heaviest.and_then(|node| namer.link(node)));
        end = Some((kind, nodes.len() as u64, bytes));
        at = nodes;
    }
    let Some((kind, count, bytes)) = end else { return String::new() };
    // The sentence names the program's own types already.
    if namer.role(kind) == TypeRole::Program && links.len() <= 1 {
        return String::new();
    }
    let names: Vec<&str> = links.iter().map(|link| plain(link)).filter(|link| is_worth(link)).collect();
    let first = names.len().saturating_sub(LINKS);
    let way = names.get(first..).unwrap_or_default().join(" → ");
    let by = if way.is_empty() { String::new() } else { format!(", via {way}") };
    if by.is_empty() {
        return String::new();
    }
    format!("; mostly {} {} ({}){by}", exact(count), namer.type_name(kind).shown(), round(bytes))
}

/// Whether a link is worth naming. An element or a table of a dict is not.
fn is_worth(link: &str) -> bool {
    !link.starts_with('[') && !link.starts_with('(') && !link.starts_with('+') && link != "__dict__" && !link.is_empty()
}

/// Returns the key of an element that is the value of a dict below the collection.
fn key(namer: &mut Namer<'_, '_, '_, '_>, node: TreeNode) -> Option<String> {
    namer.link(node).filter(|link| link.starts_with("[\""))
}

/// Returns the heaviest type among the children of some nodes, with its nodes and bytes. The next element of a chain
/// does not count as a child.
fn largest(namer: &Namer<'_, '_, '_, '_>, at: &[TreeNode]) -> Option<(TypeIndex, Vec<TreeNode>, u64)> {
    let known: HashSet<TreeNode> = at.iter().copied().collect();
    let mut groups: HashMap<TypeIndex, (Vec<TreeNode>, u64)> = HashMap::new();
    let children = at.iter().flat_map(|node| namer.tree.children(*node));
    for (visited, &child) in children.filter(|child| !known.contains(child)).enumerate() {
        if namer.tree.budget.is_late_at(visited) {
            return None;
        }
        let (nodes, bytes) = groups.entry(namer.tree.kind(child)).or_default();
        nodes.push(child);
        *bytes = bytes.saturating_add(namer.tree.bytes(child));
    }
    let best = groups.into_iter().max_by_key(|(kind, (_, bytes))| (*bytes, Reverse(*kind)));
    best.map(|(kind, (nodes, bytes))| (kind, nodes, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_say_nothing_are_left_out() {
        let kept: Vec<&str> = ["__dict__", "[]", "(dict keys)", "traceback", "+0x18", "local pages of f"]
            .into_iter()
            .filter(|l| is_worth(l))
            .collect();
        assert_eq!(kept, ["traceback", "local pages of f"]);
    }
}
