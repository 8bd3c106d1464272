//! The tree of roots above the objects: nodes without size, whose types have names in brackets. The names are those of
//! dotnet-gcdump and PerfView (microsoft/perfview, DotNetHeapDumpGraphReader.cs, GCHeapDumper.cs). Other kinds of
//! roots have the runtime's names.

use std::collections::BTreeMap;

use crate::export::gcdump::NumberedHeap;
use crate::export::variables::variables;
use crate::runtimes::api::{Root, RootKind};

/// A child of a tree node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Node(u32),
    /// An object, by its number over all heaps.
    Object(u32),
}

#[derive(Debug)]
pub(super) struct RootNode {
    /// Name of its type, without brackets.
    pub(super) name: String,
    pub(super) children: Vec<Child>,
}

/// The tree of roots. Its first node is the root of all.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<RootNode>,
    /// Number of roots that point to an object, without variables.
    pub(super) roots: u64,
    /// Number of roots that point to none.
    pub(super) strays: u64,
    /// Number of static variables that point to an object.
    pub(super) statics: u64,
}

impl Tree {
    /// Creates the tree of all heaps' roots, below a common node unless there is exactly one heap.
    pub(super) fn of(heaps: &[NumberedHeap<'_>]) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), roots: 0, strays: 0, statics: 0 };
        let above = (heaps.len() != 1).then(|| tree.node(None, "Roots".to_owned()));
        for heap in heaps {
            let top = tree.node(above, heap.source.root.clone());
            tree.of_heap(top, heap);
        }
        tree
    }

    fn of_heap(&mut self, top: u32, numbered: &NumberedHeap<'_>) {
        self.variables(top, numbered);
        let mut by_kind: BTreeMap<RootKind, Vec<u32>> = BTreeMap::new();
        for root in numbered.source.roots {
            match numbered.number(root.object) {
                Some(object) => by_kind.entry(root.kind).or_default().push(object),
                None => self.strays += 1,
            }
        }
        let (objects, first) = (&numbered.objects, numbered.first);
        let frozen = numbered.source.heap.ranges().iter().filter(|part| part.generation.frozen);
        let frozen = frozen.flat_map(|part| objects.within(part.range)).map(|(number, _)| first + number);
        let frozen: Vec<u32> = frozen.collect();
        if !frozen.is_empty() {
            by_kind.insert(RootKind::Frozen, frozen);
        }
        let (mut local, mut other) = (None, None);
        for (kind, all) in by_kind {
            self.roots += all.len() as u64;
            let node = match kind {
                RootKind::Stack | RootKind::StackWord => {
                    *local.get_or_insert_with(|| self.node(Some(top), "local vars".to_owned()))
                }
                _ => {
                    let other = *other.get_or_insert_with(|| self.node(Some(top), "other roots".to_owned()));
                    self.node(Some(other), kind.name().to_owned())
                }
            };
            if let Some(node) = self.nodes.get_mut(node as usize) {
                node.children.extend(all.into_iter().map(Child::Object));
            }
        }
    }

    fn node(&mut self, below: Option<u32>, name: String) -> u32 {
        let number = self.nodes.len() as u32;
        self.nodes.push(RootNode { name, children: Vec::new() });
        if let Some(parent) = below.and_then(|below| self.nodes.get_mut(below as usize)) {
            parent.children.push(Child::Node(number));
        }
        number
    }

    /// Adds a node for each static variable in an array that a root retains, directly or through another array. Its
    /// object is reachable through the array too. So the nodes add names, and don't change what is reachable.
    fn variables(&mut self, top: u32, numbered: &NumberedHeap<'_>) {
        let known = |root: &&Root| numbered.number(root.object).is_some();
        let all = variables(numbered.source.heap, numbered.source.roots.iter().filter(known));
        let named = all.iter().filter_map(|variable| Some((&*variable.name, numbered.number(variable.object)?)));
        let mut named: Vec<(&str, u32)> = named.collect();
        named.sort_unstable();
        named.dedup();
        let of_threads = |name: &str| name.starts_with("thread static ");
        for (group, prefix, threads) in
            [("static vars", "static ", false), ("thread static vars", "thread static ", true)]
        {
            let mut node = None;
            for &(name, object) in named.iter().filter(|(name, _)| of_threads(name) == threads) {
                let group = *node.get_or_insert_with(|| self.node(Some(top), group.to_owned()));
                let name = name.strip_prefix(prefix).unwrap_or(name);
                let variable = self.node(Some(group), format!("{prefix}var {name}"));
                if let Some(node) = self.nodes.get_mut(variable as usize) {
                    node.children.push(Child::Object(object));
                }
                self.statics += 1;
            }
        }
    }
}
