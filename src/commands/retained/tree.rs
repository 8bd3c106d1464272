//! The upper part of the dominator tree, which a page can drill into.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::analysis::roots::with_retained;
use crate::report::Name;
use crate::runtimes::api::ObjectNames;
use crate::runtimes::graph::Retained;
use crate::session::Session;
use crate::sums::SaturatingSum;

/// An object, or a chain of objects of one type, with the memory that it retains. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DominatorNode {
    /// The object; the first of a chain.
    pub object: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Length of the chain: objects of that type that each retain the next, such as nodes of a list.
    pub run: u64,
    /// Bytes of the objects themselves.
    pub size: u64,
    /// Bytes that would be freed with the first object.
    pub retained: u64,
    /// Immediately dominated objects, by retained bytes.
    pub children: Vec<DominatorNode>,
    /// Bytes of dominated objects that are not listed.
    pub rest: u64,
}

/// The dominator trees of all managed heaps.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DominatorTree {
    /// Bytes of all live objects.
    pub live: u64,
    /// Objects that no other object dominates, by retained bytes.
    pub roots: Vec<DominatorNode>,
    /// Bytes of live objects under none of them.
    pub rest: u64,
}

/// Limits of the tree.
#[derive(Clone, Copy, Debug)]
pub struct DominatorLimits {
    /// Maximum number of objects in total.
    pub nodes: usize,
    /// Maximum number of children of an object.
    pub children: usize,
    /// Minimum retained bytes, in thousandths of all live objects.
    pub least: u64,
}

/// Maximum depth of the tree. Deeper objects count in `rest`. HTML elements nest as deep.
const MAX_DEPTH: usize = 40;

/// Builds the dominator trees within `limits`, largest first.
pub fn dominator_tree(session: &Session<'_>, limits: DominatorLimits) -> DominatorTree {
    let mut tree = DominatorTree::default();
    with_retained(session, |retained, names, _| {
        let total = retained.total.size;
        tree.live = tree.live.saturating_add(total);
        let least = total.saturating_mul(limits.least) / 1000;
        let numbers = retained.top(limits.nodes, |number, _| retained.bytes(number) >= least);
        let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
        for &number in &numbers {
            // Nodes for root kinds are between the objects and the virtual root.
            let up = retained.dominator(number);
            let up = if retained.live.object(up).is_some() { up } else { 0 };
            below.entry(up).or_default().push(number);
        }
        let mut grown = Growing { retained, names, below, most: limits.children };
        let roots = grown.below(0, 0);
        let listed: u64 = roots.iter().map(|node| node.retained).saturating_sum();
        tree.rest = tree.rest.saturating_add(total.saturating_sub(listed));
        tree.roots.extend(roots);
    });
    tree.roots.sort_by_key(|node| std::cmp::Reverse(node.retained));
    tree
}

struct Growing<'t, 'g> {
    retained: &'t Retained<'g>,
    names: &'t mut ObjectNames<'g>,
    /// Objects by their immediate dominator, most retained bytes first.
    below: HashMap<u32, Vec<u32>>,
    most: usize,
}

impl Growing<'_, '_> {
    fn below(&mut self, number: u32, depth: usize) -> Vec<DominatorNode> {
        if depth >= MAX_DEPTH {
            return Vec::new();
        }
        let mut children = self.below.remove(&number).unwrap_or_default();
        children.truncate(self.most);
        children.into_iter().filter_map(|child| self.node(child, depth)).collect()
    }

    fn node(&mut self, first: u32, depth: usize) -> Option<DominatorNode> {
        let object = self.retained.live.object(first)?;
        let (name, _) = self.names.object(object)?;
        let kind = self.retained.kind(first);
        let mut node =
            DominatorNode { object, name, run: 0, retained: self.retained.bytes(first), ..Default::default() };
        let mut last = first;
        loop {
            node.run += 1;
            let own = self.retained.live.object(last).and_then(|at| self.names.node(at)).map_or(0, |n| n.counted_size);
            node.size = node.size.saturating_add(own);
            // A single child of the same type is the next node of a list.
            let next = match self.below.get(&last).map(Vec::as_slice) {
                Some(&[next]) if self.retained.kind(next) == kind => next,
                _ => break,
            };
            self.below.remove(&last);
            last = next;
        }
        node.children = self.below(last, depth + 1);
        let listed: u64 = node.children.iter().map(|child| child.retained).saturating_sum();
        node.rest = node.retained.saturating_sub(node.size).saturating_sub(listed);
        Some(node)
    }
}
