//! Nodes of linked lists in the ownership tree. A node may belong to another object than its list's owner. The list
//! then continues after that node.

use std::collections::HashMap;

use crate::runtimes::api::{TypeIndex, TypeRole};
use crate::runtimes::graph::owner_tree::{NONE, TreeNode};

/// Whether a node of a list was reached from its list, or from another node of it.
pub(super) fn in_its_list(parent: &[u32], kinds: &[u32], id: u32, role: &mut dyn FnMut(TypeIndex) -> TypeRole) -> bool {
    let kind = |id: u32| kinds.get(id as usize).copied();
    let up = parent.get(id as usize).copied().filter(|up| (*up as usize) < parent.len());
    up.and_then(kind)
        .is_some_and(|up| Some(up) == kind(id) || matches!(role(TypeIndex(up)), TypeRole::Collection | TypeRole::Part))
}

/// List nodes that belong to other objects, and the rest of the list after each. The rest belongs to the node of the
/// list that leads to such a node.
#[derive(Default)]
pub(super) struct Lists {
    /// The following nodes, by node. Each node is passed once.
    next: HashMap<u32, Vec<u32>>,
    /// Nodes to which a list led before they were read, each with the list's node that led there.
    early: HashMap<u32, u32>,
}

impl Lists {
    /// Adds a node that does not belong to its list's owner.
    pub(super) fn add(&mut self, id: u32, next: Vec<u32>, parent: &mut [u32], order: &mut Vec<TreeNode>) {
        self.next.insert(id, next);
        if let Some(by) = self.early.remove(&id) {
            self.pass(id, by, parent, order);
        }
    }

    /// Continues a list at `to`, which has a parent already. The list's node `by` leads to it.
    pub(super) fn pass(&mut self, to: u32, by: u32, parent: &mut [u32], order: &mut Vec<TreeNode>) {
        let mut open = vec![to];
        while let Some(at) = open.pop() {
            let Some(next) = self.next.remove(&at) else {
                if at == to {
                    self.early.entry(to).or_insert(by);
                }
                continue;
            };
            open.extend(next.into_iter().filter(|next| !claim(parent, *next, by, order)));
        }
    }
}

/// Gives a node its parent, if it has none.
pub(super) fn claim(parent: &mut [u32], id: u32, up: u32, order: &mut Vec<TreeNode>) -> bool {
    match parent.get_mut(id as usize) {
        Some(entry) if *entry == NONE => {
            *entry = up;
            order.push(id);
            true
        }
        _ => false,
    }
}
