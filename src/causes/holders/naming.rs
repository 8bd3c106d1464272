//! Names of objects by the program's own fields: `Account.lock`, `static Shop.SESSIONS`.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::causes::holders::roots::{NamedRoots, RootName};
use crate::report::Name;
use crate::runtimes::api::{Link, ManagedRuntime, ObjectNames, TypeIndex, TypeRole};
use crate::runtimes::graph::{OwnerTree, Parent, TreeNode};

/// Maximum number of steps up to the program's own field.
const STEPS: usize = 24;

/// Maximum number of children of an object whose links are named.
const NAMED_CHILDREN: usize = 64;

/// Names of nodes of one tree.
pub(super) struct Namer<'n, 't, 'r, 'g> {
    pub(super) tree: &'t OwnerTree<'r, 'g>,
    pub(super) roots: &'t NamedRoots,
    pub(super) names: &'n mut ObjectNames<'g>,
    pub(super) runtime: &'t dyn ManagedRuntime,
    /// Number and bytes of the buffers outside of the heap that each node owns.
    pub(super) outside: HashMap<TreeNode, (u64, u64)>,
    roles: HashMap<TypeIndex, TypeRole>,
}

impl<'n, 't, 'r, 'g> Namer<'n, 't, 'r, 'g> {
    pub(super) fn new(
        tree: &'t OwnerTree<'r, 'g>,
        roots: &'t NamedRoots,
        names: &'n mut ObjectNames<'g>,
        runtime: &'t dyn ManagedRuntime,
    ) -> Self {
        Namer { tree, roots, names, runtime, outside: HashMap::new(), roles: HashMap::new() }
    }

    /// Returns the bytes of all buffers outside of the heap.
    pub(super) fn outside_sum(&self) -> u64 {
        self.outside.values().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Returns number and bytes of the buffers outside of the heap that the nodes and their subtrees own.
    pub(super) fn outside_of(&self, nodes: &[TreeNode]) -> (u64, u64) {
        if self.outside.is_empty() {
            return (0, 0);
        }
        let (mut count, mut sum) = (0_u64, 0_u64);
        let mut open = nodes.to_vec();
        let mut visited = 0_usize;
        // Each node of a tree is visited once.
        while let Some(node) = open.pop() {
            visited += 1;
            if self.tree.budget.is_late_at(visited) {
                break;
            }
            if let Some((buffers, bytes)) = self.outside.get(&node) {
                (count, sum) = (count.saturating_add(*buffers), sum.saturating_add(*bytes));
            }
            open.extend(self.tree.children(node));
        }
        (count, sum)
    }

    pub(super) fn role(&mut self, kind: TypeIndex) -> TypeRole {
        let runtime = self.runtime;
        *self.roles.entry(kind).or_insert_with(|| runtime.type_role(kind))
    }

    pub(super) fn type_name(&mut self, kind: TypeIndex) -> Name {
        self.names.of_kind(kind)
    }

    /// Returns the link from the parent as text: a field, or `[]` for an element. `None` for an object of a root.
    pub(super) fn link(&mut self, node: TreeNode) -> Option<String> {
        // If there are many children, they are elements. To find the link of each one would be quadratic.
        if let Parent::Object(up) = self.tree.parent(node)?
            && self.tree.children(up).len() > NAMED_CHILDREN
        {
            return Some("[]".to_owned());
        }
        let (up, link) = self.tree.link(node)?;
        self.link_text(up, link)
    }

    pub(super) fn link_text(&mut self, from: Addr, link: Link) -> Option<String> {
        let text = self.names.link(from, link)?.to_string();
        let is_index = text.strip_prefix('[').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        Some(if is_index { text.split_once(']').map_or(text.clone(), |(_, rest)| format!("[]{rest}")) } else { text })
    }

    /// Returns the root that leads to a node.
    pub(super) fn root(&self, node: TreeNode) -> Option<&RootName> {
        let mut at = node;
        // The tree has no cycle, and at most as many levels as nodes.
        loop {
            match self.tree.parent(at)? {
                Parent::Object(up) => at = up,
                Parent::Root(root) => return self.roots.name(root),
            }
        }
    }

    /// Returns the nearest field of the program that leads to a node, as `Type.field`, else the static variable.
    pub(super) fn holder(&mut self, node: TreeNode) -> Option<String> {
        self.holder_at(node).map(|(name, _)| name)
    }

    /// Like `holder`, with the holder of the object that has the field: `Store.db (objects of Directory.stores)`.
    pub(super) fn holders(&mut self, node: TreeNode) -> Option<String> {
        let (name, owner) = self.holder_at(node)?;
        let outer = owner.and_then(|owner| self.holder(owner));
        Some(outer.filter(|outer| *outer != name).map_or(name.clone(), |outer| format!("{name} (objects of {outer})")))
    }

    /// Returns the nearest field of the program that leads to a node, with the object that has it.
    fn holder_at(&mut self, node: TreeNode) -> Option<(String, Option<TreeNode>)> {
        let mut at = node;
        let mut link: Option<String> = None;
        for _ in 0..STEPS {
            match self.tree.parent(at)? {
                Parent::Root(root) => {
                    let of_static = |name: &RootName| match name {
                        RootName::Static(name) | RootName::Other(name) => Some(name.to_string()),
                        _ => None,
                    };
                    let kind = self.type_name(self.tree.kind(at)).shown();
                    // Internal fields of a collection are not named.
                    let is_collection = self.role(self.tree.kind(at)) == TypeRole::Collection;
                    let is_hub = self.role(self.tree.kind(at)) == TypeRole::Hub;
                    let is_named = self.runtime.names_entries(self.tree.kind(at));
                    let name = self.roots.name(root).and_then(of_static).map(|name| match &link {
                        // An attribute of a class.
                        Some(inner) if is_hub && inner.starts_with("[\"") => format!("{name}.{}", plain(inner)),
                        Some(inner) if is_named && is_field(inner) && !INNER.contains(&plain(inner)) => {
                            format!("{name} → {}", plain(inner))
                        }
                        // An entry of an instance's dict is its attribute.
                        Some(inner) if !is_collection && (!inner.starts_with('[') || inner.starts_with("[\"")) => {
                            format!("{name} ({kind}) → {}", plain(inner))
                        }
                        _ => name,
                    });
                    return name.map(|name| (name, None));
                }
                Parent::Object(up) => {
                    let text = self.link(at).unwrap_or_default();
                    // The dict of an instance counts as the instance itself.
                    let is_dict = text == "__dict__" || text == "(dict)";
                    if !is_dict {
                        link = Some(text);
                    }
                    // A variable of a suspended function is closer than the variable that retains the function.
                    if let Some(local) = link.as_ref().filter(|link| is_local(link)) {
                        return Some((local.clone(), None));
                    }
                    if let Some(name) = self.tree.address(up).and_then(|entry| self.runtime.named_by(entry)) {
                        let variable = self.tree.node(name);
                        let name = variable.and_then(|at| self.holder(at).or_else(|| self.field_of(at)));
                        return name.map(|name| (format!("thread-local variable {name}"), None));
                    }
                    let kind = self.tree.kind(up);
                    if self.role(kind) == TypeRole::Program && link.as_deref().is_some_and(is_field) {
                        let name = self.type_name(kind);
                        let field = link.unwrap_or_default();
                        return Some((format!("{name}.{}", plain(&field)), Some(up)));
                    }
                    at = up;
                }
            }
        }
        None
    }

    /// Returns the variable or field that refers to the node itself.
    fn field_of(&mut self, node: TreeNode) -> Option<String> {
        match self.tree.parent(node)? {
            Parent::Root(root) => match self.roots.name(root)? {
                RootName::Static(name) | RootName::Other(name) => Some(name.to_string()),
                _ => None,
            },
            Parent::Object(up) => {
                let field = self.link(node)?;
                let kind = self.type_name(self.tree.kind(up));
                Some(format!("{kind}.{}", plain(&field)))
            }
        }
    }

    /// Returns a name for an object: the program's field that leads to it, and its type. If several objects may have
    /// this name, also its address.
    pub(super) fn label(&mut self, object: Addr) -> Option<String> {
        let node = self.tree.node(object)?;
        // A condition or lock inside a collection is named by the collection, and the private part of a latch by the
        // latch.
        let node = match self.tree.parent(node) {
            Some(Parent::Object(up)) => match (self.role(self.tree.kind(node)), self.role(self.tree.kind(up))) {
                (_, TypeRole::Collection) | (TypeRole::Part, TypeRole::Library) => up,
                _ => node,
            },
            _ => node,
        };
        // The dict of an instance is no collection.
        let is_dict = self.link(node).is_some_and(|link| link == "__dict__" || link == "(dict)");
        let node = if is_dict { self.tree.node(object)? } else { node };
        let kind = self.type_name(self.tree.kind(node));
        let own = self.role(self.tree.kind(node)) == TypeRole::Program;
        // Elements of a collection share its name.
        let is_element = match self.tree.parent(node) {
            Some(Parent::Object(up)) => self.role(self.tree.kind(up)) == TypeRole::Part,
            _ => false,
        };
        let holder = self.holder(node).filter(|holder| !holder.contains("Lambda"));
        Some(match (own, holder) {
            // An object of the program is named by its own type.
            (true, Some(holder)) => format!("the {kind} at {object} (in {holder})"),
            (true, None) => format!("the {kind} at {object}"),
            (false, Some(holder)) if is_element => format!("the {kind} at {object} (in {holder})"),
            (false, Some(holder)) => format!("{holder} ({kind})"),
            (false, None) => return None,
        })
    }
}

/// A runtime's own links to the entries of an object.
const INNER: [&str; 2] = ["properties", "elements"];

/// Whether a link is a field rather than an element.
fn is_field(link: &str) -> bool {
    !link.starts_with("[]") && !link.starts_with('(') && !link.is_empty()
}

/// Whether a link is a variable of a function's frame: `local queue of main`.
pub(super) fn is_local(link: &str) -> bool {
    link.strip_prefix("local ").is_some_and(|rest| rest.contains(" of "))
}

/// A field without the notation of a dict: `lock` for `["lock"]` and `.lock`.
pub(super) fn plain(field: &str) -> &str {
    let inner = field.strip_prefix("[\"").and_then(|rest| rest.strip_suffix("\"]"));
    inner.unwrap_or(field).trim_start_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_as_the_program_writes_them() {
        assert_eq!(["lock", ".lock", "[\"lock\"]"].map(plain), ["lock"; 3]);
        assert!(is_field("[\"lock\"]") && !is_field("[]") && !is_field("(dict keys)"));
    }
}
