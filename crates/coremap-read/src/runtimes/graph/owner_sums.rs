//! Sums over parts of an ownership tree in which no byte counts twice.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::runtimes::api::TypeIndex;
use crate::runtimes::graph::{OwnerTree, TreeNode};

/// A step of the walk through a tree, depth first.
enum Step {
    Enter(TreeNode),
    Leave(TypeIndex),
}

impl OwnerTree<'_, '_> {
    /// Bytes of an element of a chain: its own and those below it, without the next elements, which are of its type.
    pub fn bytes_before_next(&self, node: TreeNode) -> u64 {
        let kind = self.kind(node);
        let next = self.children(node).iter().filter(|child| self.kind(**child) == kind);
        next.fold(self.bytes(node), |bytes, next| bytes.saturating_sub(self.bytes(*next)))
    }

    /// Objects of the `wanted` types below some nodes, by type with number and bytes, most bytes first. The bytes are
    /// their own and those below. An object below another one of its type is counted, and its bytes are in that one's
    /// already.
    pub fn below(&self, nodes: &[TreeNode], wanted: &mut dyn FnMut(TypeIndex) -> bool) -> Vec<(TypeIndex, u64, u64)> {
        let mut sums: HashMap<TypeIndex, (u64, u64)> = HashMap::new();
        let mut depths: HashMap<TypeIndex, u64> = HashMap::new();
        let mut stack: Vec<Step> =
            nodes.iter().flat_map(|node| self.children(*node)).copied().map(Step::Enter).collect();
        let mut visited = 0_usize;
        while let Some(step) = stack.pop() {
            visited += 1;
            if self.budget.is_late_at(visited) {
                break;
            }
            let node = match step {
                Step::Enter(node) => node,
                Step::Leave(kind) => {
                    depths.entry(kind).and_modify(|depth| *depth = depth.saturating_sub(1));
                    continue;
                }
            };
            let kind = self.kind(node);
            if wanted(kind) {
                let (count, bytes) = sums.entry(kind).or_default();
                *count += 1;
                let depth = depths.entry(kind).or_default();
                if *depth == 0 {
                    *bytes = bytes.saturating_add(self.bytes(node));
                }
                *depth += 1;
                stack.push(Step::Leave(kind));
            }
            stack.extend(self.children(node).iter().copied().map(Step::Enter));
        }
        let mut all: Vec<(TypeIndex, u64, u64)> =
            sums.into_iter().map(|(kind, (count, bytes))| (kind, count, bytes)).collect();
        all.sort_by_key(|&(kind, count, bytes)| (Reverse((bytes, count)), kind));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::addr::Addr;
    use crate::runtimes::api::{Root, RootKind, TypeRole};
    use crate::runtimes::graph::MemoryBudget;
    use crate::runtimes::graph::toy_heap::{ToyHeap, ToyMemory};
    use crate::runtimes::graph::{Graph, Retained};

    #[test]
    fn a_chain_counts_each_byte_once() {
        // 0 is the list's owner -> 1 -> 2 -> 3, nodes of one type, each with a payload: 4, 5, 6.
        let memory =
            ToyMemory::of(&[vec![1], vec![2, 4], vec![3, 5], vec![6], vec![], vec![], vec![]], &[1, 2, 2, 2, 3, 3, 3]);
        let heap = ToyHeap::new(&memory);
        let at = |id| memory.address(id);
        let roots = [Root::new(RootKind::StackWord, Addr::new(8), at(0))];
        let budget = MemoryBudget::unbounded();
        let retained = Retained::find(Graph::new(&heap), &roots, &budget, |_| {}).unwrap();
        let mut role = |_| TypeRole::Program;
        let tree = OwnerTree::find(&retained.live, &[vec![at(0)]], None, &[], &[], &mut role, &budget).unwrap();
        let node = |id| tree.node(at(id)).unwrap();
        let sum = |ids: &[u32]| ids.iter().map(|id| memory.size(*id)).sum::<u64>();
        assert_eq!([1, 2, 3].map(|id| tree.bytes_before_next(node(id))), [sum(&[1, 4]), sum(&[2, 5]), sum(&[3, 6])]);
        let (list, payload) = (tree.kind(node(1)), tree.kind(node(4)));
        let all = tree.below(&[node(0)], &mut |_| true);
        assert_eq!(all, [(list, 3, sum(&[1, 2, 3, 4, 5, 6])), (payload, 3, sum(&[4, 5, 6]))]);
        assert_eq!(tree.below(&[node(2)], &mut |kind| kind == payload), [(payload, 2, sum(&[5, 6]))]);
    }
}
