//! A spanning tree of the live objects from ordered roots: whose name an object gets.
//!
//! Roots come in tiers. What an earlier tier reaches belongs to it, so that a stale word on a stack neither splits nor
//! renames what a static variable holds. Within a tier the search is breadth first, so an object belongs to the nearest
//! root. Sums of subtrees are what the object owns: at most what it reaches, and at least what it dominates within the
//! tree.

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Link, ObjectBatch, TypeIndex, TypeRole};
use crate::runtimes::graph::LiveGraph;
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget};
use crate::runtimes::graph::id_set::{IdSet, role_of};
use crate::runtimes::graph::list_nodes::{Lists, claim, in_its_list};

/// Number of a node: the ID of an object.
pub type TreeNode = u32;

/// No parent: the object is not in the tree.
pub(super) const NONE: u32 = u32::MAX;

/// Objects read in one batch, and references in it.
const BATCH: usize = 256;
const REFERENCES: usize = 1 << 14;

/// What leads to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Another object.
    Object(TreeNode),
    /// A root, by its index.
    Root(u32),
}

/// The tree.
pub struct OwnerTree<'r, 'g> {
    live: &'r LiveGraph<'g>,
    /// By ID: the parent's ID, or the number of objects plus the root's index.
    parent: Vec<u32>,
    /// Own bytes and those of all nodes below, by ID.
    bytes: Vec<u64>,
    kinds: Vec<u32>,
    /// By ID: index of the first child in `children`.
    first: Vec<u32>,
    children: Vec<TreeNode>,
    /// The object of each root. `None` if an earlier root has it.
    tops: Vec<Option<TreeNode>>,
    /// Time limit of the walks through the tree. Once it has passed, they end early and their results are incomplete.
    pub budget: MemoryBudget,
    _charge: Charge,
}

impl<'r, 'g> OwnerTree<'r, 'g> {
    /// Builds the tree. `tiers`: objects of roots. Objects of the tier `reserved` belong to it, whatever an earlier
    /// tier reaches: threads, which pools and registries refer to. `skip`: objects that lead nowhere. `outside`: bytes
    /// outside of the heap that objects own; they count as the objects' own.
    ///
    /// # Errors
    /// Too many objects, or no time left.
    pub fn find(
        live: &'r LiveGraph<'g>,
        tiers: &[Vec<Addr>],
        reserved: Option<usize>,
        skip: &[Addr],
        outside: &[(Addr, u64)],
        role: &mut dyn FnMut(TypeIndex) -> TypeRole,
        budget: &MemoryBudget,
    ) -> Result<OwnerTree<'r, 'g>, GraphError> {
        let (ids, space) = (&live.objects.ids, live.graph.space);
        let count = ids.len();
        if count as usize > limits::MAX_OWNED_OBJECTS {
            return Err(GraphError::TooMany);
        }
        let charge = budget.charge(u64::from(count).saturating_mul(BYTES_PER_OBJECT));
        let mut known: Vec<Option<TypeRole>> = Vec::new();
        let mut role = |kind: TypeIndex| role_of(&mut known, kind, role);
        let skip = IdSet::of(count, skip.iter().filter_map(|at| ids.find(space, at.get())));
        let mut parent = vec![NONE; count as usize];
        let mut bytes = vec![0_u64; count as usize];
        let mut kinds = vec![0_u32; count as usize];
        let mut order: Vec<TreeNode> = Vec::new();
        let mut tops = Vec::new();
        let (mut reader, mut nodes, mut batch) = (live.reader(), live.reader(), ObjectBatch::default());
        let (mut root, mut done) = (count, 0);
        let own = |object: &Addr| ids.find(space, object.get()).filter(|id| !skip.has(*id));
        let reserved_objects = reserved.and_then(|tier| tiers.get(tier)).into_iter().flatten();
        let late = IdSet::of(count, reserved_objects.filter_map(own));
        let mut closed = !late.is_empty();
        let mut addrs: Vec<u64> = Vec::with_capacity(BATCH);
        let mut lists = Lists::default();
        for (number, tier) in tiers.iter().enumerate() {
            closed &= reserved != Some(number);
            for &object in tier {
                let id = own(&object).filter(|id| !(closed && late.has(*id)));
                let id = id.filter(|id| claim(&mut parent, *id, root, &mut order));
                tops.push(id);
                root = root.saturating_add(1);
            }
            while done < order.len() {
                budget.in_time_at(done)?;
                let part: Vec<TreeNode> = order.iter().skip(done).take(BATCH).copied().collect();
                addrs.clear();
                addrs.extend(part.iter().map(|id| ids.address(space, *id).map_or(0, Addr::get)));
                reader.read_batch(&addrs, REFERENCES, &mut batch);
                let next = batch.next.take();
                let mut read = 0_usize;
                for (&id, (node, targets)) in part.iter().zip(batch.objects()) {
                    read += 1;
                    if let Some(node) = node {
                        set(&mut bytes, id, node.counted_size);
                        set(&mut kinds, id, node.kind.0);
                    }
                    let of = node.map(|node| role(node.kind));
                    let node = node.filter(|_| of == Some(TypeRole::ListNode));
                    let foreign = node.filter(|_| !in_its_list(&parent, &kinds, id, &mut role));
                    let leads = foreign.is_none() && matches!(of, Some(TypeRole::ListNode | TypeRole::Collection));
                    let mut next_of_foreign = Vec::new();
                    for &to in targets {
                        let Some(to) = own(&Addr::new(to)).filter(|to| !(closed && late.has(*to))) else {
                            continue;
                        };
                        if let Some(node) = foreign {
                            let kind = ids.address(space, to).and_then(|at| Some(nodes.node(at.get())?.kind));
                            let is_list = |kind| kind == node.kind || role(kind) == TypeRole::Collection;
                            if kind.is_some_and(is_list) {
                                next_of_foreign.push(to);
                                continue;
                            }
                        }
                        // The list continues after a node that belongs to another object.
                        let is_new = claim(&mut parent, to, id, &mut order);
                        if !is_new && leads && !in_its_list(&parent, &kinds, to, &mut role) {
                            lists.pass(to, id, &mut parent, &mut order);
                        }
                    }
                    if let Some(node) = foreign {
                        // The list's owner is no part of the list.
                        let same = |to: &u32| {
                            let at = ids.address(space, *to);
                            at.and_then(|at| nodes.node(at.get())).is_some_and(|next| next.kind == node.kind)
                        };
                        next_of_foreign.retain(same);
                        lists.add(id, next_of_foreign, &mut parent, &mut order);
                    }
                }
                if let (Some(from), Some(&last)) = (next, read.checked_sub(1).and_then(|last| part.get(last))) {
                    let at = ids.address(space, last).map_or(0, Addr::get);
                    reader.each_from(at, from, &mut |_, _, to| {
                        if let Some(to) = own(&Addr::new(to)).filter(|to| !(closed && late.has(*to))) {
                            claim(&mut parent, to, last, &mut order);
                        }
                        true
                    });
                }
                // An empty answer would never end.
                done += read.max(1);
            }
        }
        for (object, more) in outside {
            // An object that no root leads to is no node.
            let id = ids.find(space, object.get()).filter(|id| parent.get(*id as usize).is_some_and(|up| *up != NONE));
            if let Some(sum) = id.and_then(|id| bytes.get_mut(id as usize)) {
                *sum = sum.saturating_add(*more);
            }
        }
        for (number, &id) in order.iter().rev().enumerate() {
            budget.in_time_at(number)?;
            let own = bytes.get(id as usize).copied().unwrap_or(0);
            let up = parent.get(id as usize).copied().unwrap_or(NONE);
            if let Some(sum) = bytes.get_mut(up as usize) {
                *sum = sum.saturating_add(own);
            }
        }
        let (first, children) = children(&parent, &order, budget)?;
        let budget = budget.clone();
        Ok(OwnerTree { live, parent, bytes, kinds, first, children, tops, budget, _charge: charge })
    }

    /// Object of each root, by the root's index. `None` if an earlier root has it.
    pub fn tops(&self) -> &[Option<TreeNode>] {
        &self.tops
    }

    /// The node of the object at `addr`. `None` if there is none, or if no root leads to it.
    pub fn node(&self, addr: Addr) -> Option<TreeNode> {
        let id = self.live.objects.ids.find(self.live.graph.space, addr.get())?;
        self.parent(id).map(|_| id)
    }

    /// Address of a node's object.
    pub fn address(&self, node: TreeNode) -> Option<Addr> {
        self.live.objects.ids.address(self.live.graph.space, node)
    }

    /// What leads to a node.
    pub fn parent(&self, node: TreeNode) -> Option<Parent> {
        let up = self.parent.get(node as usize).copied().filter(|up| *up != NONE)?;
        Some(match up.checked_sub(self.parent.len() as u32) {
            Some(root) => Parent::Root(root),
            None => Parent::Object(up),
        })
    }

    /// Bytes of the node and all below.
    pub fn bytes(&self, node: TreeNode) -> u64 {
        self.bytes.get(node as usize).copied().unwrap_or(0)
    }

    /// Type of a node's object.
    pub fn kind(&self, node: TreeNode) -> TypeIndex {
        TypeIndex(self.kinds.get(node as usize).copied().unwrap_or(0))
    }

    /// Nodes that the node leads to.
    pub fn children(&self, node: TreeNode) -> &[TreeNode] {
        let at = |node: usize| self.first.get(node).copied().unwrap_or(0) as usize;
        self.children.get(at(node as usize)..at(node as usize + 1)).unwrap_or_default()
    }

    /// How the parent refers to the node. `None` for a root's object.
    pub fn link(&self, node: TreeNode) -> Option<(Addr, Link)> {
        let Parent::Object(up) = self.parent(node)? else { return None };
        let (up, at) = (self.address(up)?, self.address(node)?);
        self.live.reader().link(up.get(), at.get()).map(|link| (up, link))
    }

    /// Visits the objects that the object of `node` refers to, with the link.
    pub fn each_target(&self, node: TreeNode, mut visit: impl FnMut(Link, TreeNode)) {
        let Some(at) = self.address(node) else { return };
        let mut reader = self.live.reader();
        reader.each(at.get(), |link, to| {
            if let Some(to) = self.live.objects.ids.find(self.live.graph.space, to) {
                visit(link, to);
            }
            true
        });
    }
}

/// Bytes of the tables per object.
const BYTES_PER_OBJECT: u64 = 28;

fn set<T>(list: &mut [T], id: u32, value: T) {
    if let Some(entry) = list.get_mut(id as usize) {
        *entry = value;
    }
}

/// Children of each node, in the order of their discovery.
fn children(
    parent: &[u32],
    order: &[TreeNode],
    budget: &MemoryBudget,
) -> Result<(Vec<u32>, Vec<TreeNode>), GraphError> {
    let mut first = vec![0_u32; parent.len() + 1];
    let up = |id: &TreeNode| parent.get(*id as usize).copied().unwrap_or(NONE) as usize;
    for (number, id) in order.iter().enumerate() {
        budget.in_time_at(number)?;
        if let Some(count) = first.get_mut(up(id).saturating_add(1)).filter(|_| up(id) < parent.len()) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for entry in &mut first {
        sum += *entry;
        *entry = sum;
    }
    let mut next = first.clone();
    let mut children = vec![0; sum as usize];
    for (number, id) in order.iter().enumerate() {
        budget.in_time_at(number)?;
        if let Some(slot) = next.get_mut(up(id)).filter(|_| up(id) < parent.len()) {
            set(&mut children, *slot, *id);
            *slot += 1;
        }
    }
    Ok((first, children))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::runtimes::api::{Root, RootKind};
    use crate::runtimes::graph::toy_heap::{ToyHeap, ToyMemory};
    use crate::runtimes::graph::{Graph, Retained};

    #[test]
    fn an_earlier_tier_has_what_it_reaches_and_others_do_not_split_it() {
        // 0 is a static's map -> 1 -> {2, 3, 4}; a word on a stack leads to 1, another to 5.
        let memory = ToyMemory::of(&[vec![1], vec![2, 3, 4], vec![], vec![], vec![2], vec![3]], &[1, 2, 3, 3, 3, 1]);
        let heap = ToyHeap::new(&memory);
        let at = |id| memory.address(id);
        let roots: Vec<Root> = [0, 1, 5].map(|id| Root::new(RootKind::StackWord, Addr::new(8), at(id))).to_vec();
        let budget = MemoryBudget::unbounded();
        let retained = Retained::find(Graph::new(&heap), &roots, &budget, |_| {}).unwrap();
        let mut none = |_| TypeRole::Program;
        let tree =
            OwnerTree::find(&retained.live, &[vec![at(0)], vec![at(1), at(5)]], None, &[], &[], &mut none, &budget)
                .unwrap();
        let node = |id| tree.node(at(id)).unwrap();
        assert_eq!(tree.tops(), [Some(node(0)), None, Some(node(5))]);
        assert_eq!(tree.parent(node(1)), Some(Parent::Object(node(0))));
        assert_eq!(tree.parent(node(5)), Some(Parent::Root(2)));
        assert_eq!(tree.children(node(1)), [node(2), node(3), node(4)]);
        let sum = |ids: &[u32]| ids.iter().map(|id| memory.size(*id)).sum::<u64>();
        assert_eq!((tree.bytes(node(0)), tree.bytes(node(5))), (sum(&[0, 1, 2, 3, 4]), sum(&[5])));
        // An object that leads nowhere hides what only it leads to.
        let tree = OwnerTree::find(&retained.live, &[vec![at(0)]], None, &[at(1)], &[], &mut none, &budget).unwrap();
        assert_eq!((tree.node(at(2)), tree.bytes(tree.node(at(0)).unwrap())), (None, sum(&[0])));
        // A thread belongs to its own tier, though a static leads to it.
        let tree = OwnerTree::find(&retained.live, &[vec![at(0)], vec![at(1)]], Some(1), &[], &[], &mut none, &budget)
            .unwrap();
        assert_eq!(tree.tops(), [tree.node(at(0)), tree.node(at(1))]);
    }

    #[test]
    fn who_refers_to_a_node_of_a_list_does_not_own_the_list() {
        // 0 is a session -> node 2. 1 is the list -> node 3 <-> 2 <-> 4, and each node refers to the list.
        let memory = ToyMemory::of(&[vec![2], vec![3], vec![3, 4, 1], vec![2, 1], vec![2, 1]], &[1, 2, 3, 3, 3]);
        let heap = ToyHeap::new(&memory);
        let at = |id| memory.address(id);
        let roots: Vec<Root> = [0, 1].map(|id| Root::new(RootKind::StackWord, Addr::new(8), at(id))).to_vec();
        let budget = MemoryBudget::unbounded();
        let retained = Retained::find(Graph::new(&heap), &roots, &budget, |_| {}).unwrap();
        let mut role = |kind: TypeIndex| match kind.0 {
            2 => TypeRole::Collection,
            3 => TypeRole::ListNode,
            _ => TypeRole::Program,
        };
        let tiers = [vec![at(0)], vec![at(1)]];
        let tree = OwnerTree::find(&retained.live, &tiers, None, &[], &[], &mut role, &budget).unwrap();
        let top = |id| tree.bytes(tree.node(at(id)).unwrap());
        let sum = |ids: &[u32]| ids.iter().map(|id| memory.size(*id)).sum::<u64>();
        // The list continues after the node that belongs to the session.
        assert_eq!((top(0), top(1)), (sum(&[0, 2]), sum(&[1, 3, 4])));
    }

    #[test]
    fn bytes_outside_of_the_heap_count_where_their_object_is() {
        // 0 -> 1, and 2 that no root leads to.
        let memory = ToyMemory::of(&[vec![1], vec![], vec![]], &[1, 2, 3]);
        let heap = ToyHeap::new(&memory);
        let at = |id| memory.address(id);
        let roots = [Root::new(RootKind::StackWord, Addr::new(8), at(0))];
        let budget = MemoryBudget::unbounded();
        let retained = Retained::find(Graph::new(&heap), &roots, &budget, |_| {}).unwrap();
        let outside = [(at(1), 1000), (at(2), 500)];
        let mut role = |_| TypeRole::Program;
        let tree = OwnerTree::find(&retained.live, &[vec![at(0)]], None, &[], &outside, &mut role, &budget).unwrap();
        let sum = memory.size(0) + memory.size(1) + 1000;
        assert_eq!(tree.bytes(tree.node(at(0)).unwrap()), sum);
        assert_eq!(tree.node(at(2)), None);
    }
}
