//! All objects that roots keep alive.
//!
//! Number 0 is a virtual root. Below it, one number per root kind dominates whatever only that kind reaches. Live
//! objects follow in breadth-first order, so whatever dominates a number is lower.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{FREE, HeapRange, Object, ObjectReader, Root, RootKind, UnwalkedRanges};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::adjacency::Adjacency;
use crate::runtimes::graph::bfs_order::BfsOrder;
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget};
use crate::runtimes::graph::heap_pass::{HeapPass, KindSum};
use crate::runtimes::graph::object_ids::{ObjectIds, WalkResult};
use crate::runtimes::graph::packed_index::PackedIndices;
use crate::runtimes::graph::root_bfs::{Reached, reach};
use crate::runtimes::graph::shared_dominators::SharedDominators;
use crate::runtimes::graph::visit_states::VisitStates;

/// All roots of one kind, as a node of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootNode {
    /// Kind of the roots.
    pub kind: RootKind,
    /// Number of the root kind.
    pub number: u32,
    /// Number of roots of this kind that reference an object.
    pub roots: u64,
    /// Whether objects of these roots may be arrays of static variables.
    pub static_arrays: bool,
    /// IDs of the referenced objects. Those of words on stacks are only objects that no other root leads to.
    pub(super) entries: Vec<u32>,
}

/// Bytes per object that are in memory whatever the budget: positions of rows, and up to fourteen bit sets.
const IN_MEMORY: u64 = 2;

/// Size of a graph, known before the search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphSize {
    /// Number of objects in the heap.
    pub objects: u64,
    /// Number of references, including those that point to no object.
    pub references: u64,
    /// Peak size of all tables in bytes, if all objects are live and none has several referrers. Objects with several
    /// referrers need more.
    pub bytes: u64,
}

impl GraphSize {
    /// `width`: bytes per object for its type.
    fn of(ids: &ObjectIds, adjacency: &Adjacency, width: u64, budget: &MemoryBudget) -> GraphSize {
        let objects = u64::from(ids.len());
        let now = budget.used().saturating_add(budget.in_files());
        // During the search: the order (a number and three bits per object) besides the references. After it, without
        // the references: retained bytes per object, and either types in two orders or the sets of dominating types.
        let order = 4 * objects + objects * 3 / 8;
        let sums = (4 + width.max(2)) * objects;
        let bytes = now + order + sums.saturating_sub(adjacency.bytes());
        GraphSize { objects, references: adjacency.references, bytes }
    }
}

/// The live objects of a heap, with access to the heap.
pub struct LiveGraph<'g> {
    pub(super) graph: Graph<'g>,
    pub(super) objects: Arc<LiveObjects>,
}

impl Deref for LiveGraph<'_> {
    type Target = LiveObjects;

    fn deref(&self) -> &LiveObjects {
        &self.objects
    }
}

/// The live objects without the heap. Stored, so that a second question needs no second search.
pub struct LiveObjects {
    pub(super) ids: ObjectIds,
    pub(super) states: VisitStates,
    pub(super) order: BfsOrder,
    /// Root kinds, in the order of their numbers.
    pub root_nodes: Vec<RootNode>,
    /// Ranges that could not be walked. Their objects are unknown.
    pub unwalked: UnwalkedRanges,
    /// Number of roots that reference no object.
    pub stray_roots: u64,
    _charge: Charge,
}

/// Further results of the search.
pub(super) struct GraphData {
    pub(super) shared_dominators: Option<SharedDominators>,
    /// Types of all objects by ID, and sums by type.
    pub(super) kinds: PackedIndices,
    pub(super) sums: Vec<KindSum>,
    pub(super) strays: u64,
    pub(super) references: u64,
}

impl<'g> LiveGraph<'g> {
    /// Finds what `roots`, and objects in frozen segments, keep alive, and the dominators. Calls `on_size` with the
    /// graph's size and memory needs before the search begins.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn find(
        graph: Graph<'g>,
        roots: &[Root],
        budget: &MemoryBudget,
        on_size: impl FnOnce(GraphSize),
    ) -> Result<(LiveGraph<'g>, GraphData), GraphError> {
        let frozen = |out: &mut Vec<u64>, heap_range: &HeapRange, object: &Object| {
            if heap_range.generation.frozen && object.kind != FREE {
                out.push(object.addr.get());
            }
        };
        let (ids, WalkResult { seen, unwalked }) = ObjectIds::new(graph.heap, budget, frozen, |_| {})?;
        if ids.len() as usize > limits::MAX_LIVE_OBJECTS {
            return Err(GraphError::TooMany);
        }
        budget.reserve(u64::from(ids.len()).saturating_mul(IN_MEMORY));
        let (mut root_nodes, stray_roots) = root_nodes(graph, &ids, roots, &seen.concat());
        let HeapPass { adjacency, states, kinds, sums, _charge } = HeapPass::run(graph, &ids, budget)?;
        let references = adjacency.references;
        on_size(GraphSize::of(&ids, &adjacency, kinds.width(), budget));
        let reached = precise_first(&adjacency, &states, ids.len(), &mut root_nodes, budget)?;
        let shared_dominators = SharedDominators::find(adjacency, &states, &root_nodes, &reached, budget)?;
        let strays = reached.strays;
        let numbered =
            Arc::new(LiveObjects { ids, states, order: reached.order, root_nodes, unwalked, stray_roots, _charge });
        Ok((LiveGraph { graph, objects: numbered }, GraphData { shared_dominators, kinds, sums, strays, references }))
    }

    /// Number of nodes: virtual root, root kinds and live objects.
    pub fn len(&self) -> usize {
        self.order.len() as usize
    }

    /// Whether no root reaches any object.
    pub fn is_empty(&self) -> bool {
        self.order.len() <= self.order.base()
    }

    /// Address of the object with this number. `None` for the virtual root and for root kinds.
    pub fn object(&self, number: u32) -> Option<Addr> {
        self.ids.address(self.graph.space, self.order.id(number)?)
    }

    /// Whether there is an object at `addr`, and roots reach it.
    pub fn is_live(&self, addr: Addr) -> bool {
        self.ids.find(self.graph.space, addr.get()).is_some_and(|id| self.states.is_visited(id))
    }

    /// Numbers of the objects at `addrs`. `Some(0)` if an object is not live, `None` if there is no object. Scans all
    /// live objects once, so ask for all addresses together.
    pub fn numbers_of(&self, addrs: &[Addr]) -> Vec<Option<u32>> {
        let id = |addr: &Addr| self.ids.find(self.graph.space, addr.get());
        let ids: Vec<Option<u32>> = addrs.iter().map(id).collect();
        let wanted: HashSet<u32> = ids.iter().flatten().copied().filter(|&id| self.states.is_visited(id)).collect();
        let known = self.order.numbers_of(&wanted);
        ids.into_iter().map(|id| id.map(|id| known.get(&id).copied().unwrap_or(0))).collect()
    }

    /// Creates an object reader. Each thread needs its own.
    pub fn reader(&self) -> Box<dyn ObjectReader + 'g> {
        self.graph.reader()
    }

    /// The root kind with this number.
    pub fn root_node(&self, number: u32) -> Option<&RootNode> {
        self.root_nodes.iter().find(|s| s.number == number)
    }
}

/// Searches from all roots, from words of stacks only where no other root leads.
///
/// A word that may be a reference is no evidence for an object that is alive anyway. It is often left over from an
/// earlier call. As a root it would be the shortest path to what others retain, and would cut their dominators short.
fn precise_first(
    adjacency: &Adjacency,
    states: &VisitStates,
    count: u32,
    root_nodes: &mut [RootNode],
    budget: &MemoryBudget,
) -> Result<Reached, GraphError> {
    let words = root_nodes.iter().position(|node| node.kind == RootKind::StackWord && !node.entries.is_empty());
    let Some(words) = words else { return reach(adjacency, states, count, root_nodes, budget) };
    let mut entries = root_nodes.get_mut(words).map(|node| std::mem::take(&mut node.entries)).unwrap_or_default();
    let reached = reach(adjacency, states, count, root_nodes, budget)?;
    entries.retain(|&id| !states.is_visited(id));
    if entries.is_empty() {
        return Ok(reached);
    }
    // Children are numbered in the order of their parents, and root kinds precede all objects. So the search starts
    // over.
    reached.order.unvisit(states);
    drop(reached);
    if let Some(node) = root_nodes.get_mut(words) {
        node.entries = entries;
    }
    reach(adjacency, states, count, root_nodes, budget)
}

/// Root kinds with the objects of their roots, and the number of roots that reference no object.
fn root_nodes(graph: Graph<'_>, ids: &ObjectIds, roots: &[Root], frozen: &[u64]) -> (Vec<RootNode>, u64) {
    let mut by_kind: BTreeMap<RootKind, Vec<u32>> = BTreeMap::new();
    let with_statics: BTreeSet<RootKind> = roots.iter().filter(|r| r.static_arrays == 1).map(|r| r.kind).collect();
    let mut stray_roots = 0;
    for root in roots {
        match ids.find(graph.space, root.object.get()) {
            Some(id) => by_kind.entry(root.kind).or_default().push(id),
            None => stray_roots += 1,
        }
    }
    if !frozen.is_empty() {
        let frozen = frozen.iter().filter_map(|&addr| ids.find(graph.space, addr));
        by_kind.insert(RootKind::Frozen, frozen.collect());
    }
    let mut root_nodes = Vec::new();
    for (number, (kind, entries)) in (1..).zip(by_kind) {
        let static_arrays = with_statics.contains(&kind);
        root_nodes.push(RootNode { kind, number, roots: entries.len() as u64, static_arrays, entries });
    }
    (root_nodes, stray_roots)
}
