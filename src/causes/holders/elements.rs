//! Elements of a collection: the first objects below its own nodes, entries and arrays.

use std::collections::{HashMap, HashSet};

use crate::causes::holders::naming::Namer;
use crate::runtimes::api::{TypeIndex, TypeRole};
use crate::runtimes::graph::TreeNode;

/// Elements by type.
#[derive(Clone, Debug, Default)]
pub(super) struct Elements {
    /// Number and bytes of the elements of each type, most first.
    pub(super) by_kind: Vec<(TypeIndex, u64, u64)>,
    /// Bytes of the largest element.
    pub(super) largest: u64,
    /// Some of the elements. All of them, if there are not too many.
    pub(super) sample: Vec<TreeNode>,
}

/// Maximum number of elements whose state is read.
const SAMPLE: usize = 1 << 17;

impl Elements {
    /// Returns the number of elements of the most frequent type of the program, else of any type.
    pub(super) fn count(&self) -> u64 {
        self.by_kind.first().map_or(0, |(_, count, _)| *count)
    }

    /// Joins the elements of two collections.
    pub(super) fn join(mut self, other: Elements) -> Elements {
        for (kind, count, bytes) in other.by_kind {
            match self.by_kind.iter_mut().find(|(of, ..)| *of == kind) {
                Some((_, known, sum)) => {
                    *known = known.saturating_add(count);
                    *sum = sum.saturating_add(bytes);
                }
                None => self.by_kind.push((kind, count, bytes)),
            }
        }
        self.largest = self.largest.max(other.largest);
        let room = SAMPLE.saturating_sub(self.sample.len());
        self.sample.extend(other.sample.into_iter().take(room));
        self
    }

    /// Returns elements that are given one by one. `chain`: each given node starts a chain of its type, and all nodes
    /// of the chain count.
    pub(super) fn of_nodes(namer: &mut Namer<'_, '_, '_, '_>, nodes: &[TreeNode], chain: bool) -> Elements {
        let mut sums = Sums::default();
        let mut queue: Vec<TreeNode> = nodes.to_vec();
        let mut visited = 0_usize;
        while let Some(node) = queue.pop() {
            visited += 1;
            if namer.tree.budget.is_late_at(visited) {
                break;
            }
            let kind = namer.tree.kind(node);
            sums.add(kind, if chain { namer.tree.bytes_before_next(node) } else { namer.tree.bytes(node) }, node);
            if chain {
                queue.extend(namer.tree.children(node).iter().filter(|child| namer.tree.kind(**child) == kind));
            }
        }
        sums.finish(namer)
    }
}

#[derive(Default)]
struct Sums {
    by_kind: HashMap<TypeIndex, (u64, u64)>,
    largest: u64,
    sample: Vec<TreeNode>,
}

impl Sums {
    fn add(&mut self, kind: TypeIndex, bytes: u64, node: TreeNode) {
        if self.sample.len() < SAMPLE {
            self.sample.push(node);
        }
        let (count, sum) = self.by_kind.entry(kind).or_default();
        *count += 1;
        *sum = sum.saturating_add(bytes);
        self.largest = self.largest.max(bytes);
    }

    /// Sorts the types of the program first, then by bytes.
    fn finish(self, namer: &mut Namer<'_, '_, '_, '_>) -> Elements {
        let mut by_kind: Vec<(TypeIndex, u64, u64)> =
            self.by_kind.into_iter().map(|(kind, (count, bytes))| (kind, count, bytes)).collect();
        by_kind.sort_by_key(|&(kind, count, bytes)| {
            let own = namer.role(kind) == TypeRole::Program;
            (std::cmp::Reverse((own, bytes, count)), kind)
        });
        Elements { by_kind, largest: self.largest, sample: self.sample }
    }
}

/// Returns the elements of the collection at `node`. Library types that make up the collection and wrappers are passed
/// through.
pub(super) fn elements(namer: &mut Namer<'_, '_, '_, '_>, node: TreeNode) -> Elements {
    let mut sums = Sums::default();
    let mut seen: HashSet<TreeNode> = HashSet::from([node]);
    let mut queue = vec![node];
    let mut first = true;
    while let Some(at) = queue.pop() {
        let mut targets = Vec::new();
        namer.tree.each_target(at, |_, to| targets.push(to));
        for to in targets {
            if !seen.insert(to) {
                continue;
            }
            if namer.tree.budget.is_late_at(seen.len()) {
                return sums.finish(namer);
            }
            let kind = namer.tree.kind(to);
            match namer.role(kind) {
                TypeRole::Part | TypeRole::ListNode => queue.push(to),
                // A wrapper contains only a collection.
                TypeRole::Collection if first => queue.push(to),
                TypeRole::Hub => {}
                TypeRole::Program | TypeRole::Collection | TypeRole::Library => {
                    sums.add(kind, namer.tree.bytes(to), to);
                }
            }
        }
        first = false;
    }
    sums.finish(namer)
}

/// Returns the objects of the program's types below some nodes, by type, most bytes first. Bytes include what is below
/// an object. An object below another one of its type is counted in that one's bytes.
pub(super) fn beneath(namer: &mut Namer<'_, '_, '_, '_>, nodes: &[TreeNode]) -> Vec<(TypeIndex, u64, u64)> {
    let tree = namer.tree;
    tree.below(nodes, &mut |kind| namer.role(kind) == TypeRole::Program)
}
