//! Descent in the ownership tree: into the heaviest group of alike children, until the memory spreads out.

use std::collections::HashMap;

use crate::causes::holders::elements::{Elements, elements};
use crate::causes::holders::naming::Namer;
use crate::causes::holders::roots::RootName;
use crate::runtimes::api::{TypeIndex, TypeRole};
use crate::runtimes::graph::{Parent, TreeNode};

/// Minimum size of a holder: as a share of the live bytes in percent, and in bytes.
const MIN_SHARE: u64 = 5;
const LEAST: u64 = 1 << 20;

/// Minimum share of a step's bytes, in percent, of a group of children that is followed.
const WAY: u64 = 30;

/// Minimum ratio of children to parents at which the children are elements of a collection.
const MANY: usize = 8;

/// Minimum length of a chain of objects of one type that counts as a list.
const CHAIN: usize = 12;

/// Minimum number of elements of a collection.
const ELEMENTS: u64 = 4;

/// Minimum share of a collection's bytes, in percent, at which its largest element is followed instead.
const ONE: u64 = 50;

/// Maximum number of children of one object whose links are named one by one.
const NAMED: usize = 64;

/// Maximum number of steps, and of holders.
const STEPS: usize = 64;
const HOLDERS: usize = 6;

/// A holder of memory.
pub(super) struct Holder {
    /// Start of the path: objects of one root, or of alike roots.
    pub(super) top: Vec<TreeNode>,
    /// The object, or the alike objects, below which the memory spreads out.
    pub(super) container: Vec<TreeNode>,
    /// Elements of the container.
    pub(super) elements: Elements,
    /// Bytes that the container retains.
    pub(super) bytes: u64,
    /// Bytes that would be freed with it, if these are much less: other references lead to the rest.
    pub(super) freed: Option<u64>,
    /// Whether the elements are below the container. Otherwise another holder has them, and this one refers to them.
    pub(super) owns: bool,
}

impl Holder {
    fn new(top: Vec<TreeNode>, container: Vec<TreeNode>, elements: Elements, bytes: u64) -> Holder {
        Holder { top, container, elements, bytes, freed: None, owns: true }
    }
}

/// Finds the largest holders. `live`: bytes of all live objects.
pub(super) fn find(namer: &mut Namer<'_, '_, '_, '_>, live: u64) -> Vec<Holder> {
    let least = (live / 100).saturating_mul(MIN_SHARE).max(LEAST);
    let mut ways = tops(namer, least);
    let mut out = Vec::new();
    let mut budget = HOLDERS * STEPS;
    while let Some(top) = ways.pop() {
        if out.len() >= HOLDERS || budget == 0 {
            break;
        }
        budget -= 1;
        let (holder, others) = follow(namer, top, least);
        out.extend(holder);
        ways.extend(others);
        ways.sort_by_key(|way| sum(namer, way));
    }
    out
}

fn sum(namer: &Namer<'_, '_, '_, '_>, nodes: &[TreeNode]) -> u64 {
    nodes.iter().map(|node| namer.tree.bytes(*node)).fold(0, u64::saturating_add)
}

/// Returns the objects of roots, largest last. Each static variable is a group of its own; others are merged by their
/// kind.
fn tops(namer: &Namer<'_, '_, '_, '_>, least: u64) -> Vec<Vec<TreeNode>> {
    let mut groups: HashMap<(RootName, TypeIndex), Vec<TreeNode>> = HashMap::new();
    for (index, node) in (0..).zip(namer.tree.tops()) {
        let Some(node) = *node else { continue };
        let Some(name) = namer.roots.name(index) else { continue };
        let kind = namer.tree.kind(node);
        let name = match name {
            RootName::Thread(_) => RootName::Kind("thread"),
            RootName::Frame(_, method) => RootName::Frame(None, method.clone()),
            other => other.clone(),
        };
        groups.entry((name, kind)).or_default().push(node);
    }
    let mut all: Vec<Vec<TreeNode>> = groups.into_values().filter(|nodes| sum(namer, nodes) >= least).collect();
    all.sort_by_key(|nodes| (sum(namer, nodes), nodes.first().copied()));
    all
}

/// A group of alike children of a step.
struct Group {
    nodes: Vec<TreeNode>,
    bytes: u64,
    kind: TypeIndex,
}

/// Returns the children of the nodes, grouped by link and type, heaviest first.
fn groups(namer: &mut Namer<'_, '_, '_, '_>, nodes: &[TreeNode]) -> Vec<Group> {
    let mut all: HashMap<(Option<String>, TypeIndex), Group> = HashMap::new();
    let mut visited = 0_usize;
    'all: for &node in nodes {
        let children = namer.tree.children(node);
        for &child in children {
            visited += 1;
            if namer.tree.budget.is_late_at(visited) {
                break 'all;
            }
            let named = nodes.len() == 1 && children.len() <= NAMED;
            let link = if named { namer.link(child) } else { None };
            let kind = namer.tree.kind(child);
            let group = all.entry((link, kind)).or_insert_with(|| Group { nodes: Vec::new(), bytes: 0, kind });
            group.bytes = group.bytes.saturating_add(namer.tree.bytes(child));
            group.nodes.push(child);
        }
    }
    let mut all: Vec<Group> = all.into_values().collect();
    all.sort_by_key(|group| (std::cmp::Reverse(group.bytes), group.nodes.first().copied()));
    all
}

/// Follows one path. Returns the holder at its end, and large branches of the path.
fn follow(namer: &mut Namer<'_, '_, '_, '_>, top: Vec<TreeNode>, least: u64) -> (Option<Holder>, Vec<Vec<TreeNode>>) {
    let mut others = Vec::new();
    let (mut at, mut bytes) = (top.clone(), sum(namer, &top));
    // Objects that another runtime holds are the elements of its collection.
    let is_other =
        top.first().and_then(|node| namer.root(*node)).is_some_and(|name| matches!(name, RootName::Other(_)));
    if is_other && top.len() as u64 >= ELEMENTS {
        let found = Elements::of_nodes(namer, &top, false);
        return (Some(Holder::new(top.clone(), top, found, bytes)), others);
    }
    let mut chain: Option<(Vec<TreeNode>, usize)> = None;
    for _ in 0..STEPS {
        let kind = at.first().map(|node| namer.tree.kind(*node));
        if let [one] = at.as_slice()
            && kind.is_some_and(|kind| namer.role(kind) == TypeRole::Collection)
            && !is_instance_dict(namer, *one)
            && !is_way(namer, *one)
        {
            let found = elements(namer, *one);
            if found.count() >= ELEMENTS && found.largest.saturating_mul(100) < bytes.saturating_mul(ONE) {
                return (Some(Holder::new(top, at, found, bytes)), others);
            }
        }
        // Several parts of one collection, such as one for each processor.
        if (2..=NAMED).contains(&at.len()) && kind.is_some_and(|kind| namer.role(kind) == TypeRole::Collection) {
            let parts = at.clone().into_iter().map(|node| elements(namer, node));
            let found = parts.reduce(Elements::join).unwrap_or_default();
            if found.count() >= ELEMENTS && found.largest.saturating_mul(100) < bytes.saturating_mul(ONE) {
                return (Some(Holder::new(top, at, found, bytes)), others);
            }
        }
        // Alike objects are followed together down to a type of the program.
        if at.len() > 1 && kind.is_some_and(|kind| namer.role(kind) == TypeRole::Program) {
            break;
        }
        let mut below = groups(namer, &at);
        let mut rest = below.split_off(below.len().min(1));
        let Some(best) = below.pop() else { break };
        if best.bytes.saturating_mul(100) < bytes.saturating_mul(WAY) {
            // Several parts of one object may each be large.
            let large: Vec<Vec<TreeNode>> =
                std::iter::once(best).chain(rest).filter(|group| group.bytes >= least).map(|g| g.nodes).collect();
            if large.len() > 1 && at.len() == 1 {
                others.extend(large);
                return (None, others);
            }
            break;
        }
        if at.len() == 1 {
            rest.retain(|group| group.bytes >= least);
            others.extend(rest.into_iter().map(|group| group.nodes));
        }
        if best.nodes.len() >= at.len().saturating_mul(MANY) {
            let found = Elements::of_nodes(namer, &best.nodes, false);
            return (Some(Holder::new(top, at, found, bytes)), others);
        }
        // A long chain of one type is a list. A short one is part of the path.
        if Some(best.kind) == kind {
            let (_, length) = chain.get_or_insert((at.clone(), 0));
            *length += 1;
        } else {
            chain = None;
        }
        if let Some((start, CHAIN)) = &chain {
            let found = Elements::of_nodes(namer, start, true);
            let whole = sum(namer, start);
            if found.largest.saturating_mul(100) < whole.saturating_mul(ONE) {
                return (Some(Holder::new(top, start.clone(), found, whole)), others);
            }
            // One element leads to most of the chain, for example to a chain of another type.
            let heaviest = found.sample.iter().copied().max_by_key(|node| namer.tree.bytes_before_next(*node));
            if let Some(node) = heaviest {
                (at, bytes) = (vec![node], namer.tree.bytes(node));
                chain = None;
                continue;
            }
        }
        (at, bytes) = (best.nodes, best.bytes);
    }
    let found = Elements::of_nodes(namer, &at, false);
    (Some(Holder::new(top, at, found, bytes)), others)
}

/// Whether most of an object's bytes are in one collection that is an entry with a name of the program:
/// `state.sessions`.
fn is_way(namer: &mut Namer<'_, '_, '_, '_>, node: TreeNode) -> bool {
    if !namer.runtime.names_entries(namer.tree.kind(node)) {
        return false;
    }
    let children = namer.tree.children(node);
    let heaviest = children.iter().copied().max_by_key(|child| namer.tree.bytes(*child));
    heaviest.is_some_and(|child| {
        let is_most = namer.tree.bytes(child).saturating_mul(100) >= namer.tree.bytes(node).saturating_mul(ONE);
        is_most && namer.role(namer.tree.kind(child)) == TypeRole::Collection
    })
}

/// Whether a node is an instance's dict, which counts as a part of the instance.
fn is_instance_dict(namer: &mut Namer<'_, '_, '_, '_>, node: TreeNode) -> bool {
    matches!(namer.tree.parent(node), Some(Parent::Object(_)))
        && namer.link(node).is_some_and(|link| link == "__dict__" || link == "(dict)")
}
