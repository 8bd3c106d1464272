//! All objects that roots lead to.
//!
//! Number 0 stands for all roots together. Each kind of root has a number of its own too: what
//! that dominates is kept by roots of this kind alone. The objects that live follow, nearest to the roots first: whatever
//! dominates a number is lower.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{FREE, Losses, Object, ObjectReader, Part, Root, RootKind};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::deep::Uppers;
use crate::runtimes::graph::ids::{Ids, Walked};
use crate::runtimes::graph::narrow::Narrow;
use crate::runtimes::graph::order::Order;
use crate::runtimes::graph::reach::reach;
use crate::runtimes::graph::read::{KindSum, Read};
use crate::runtimes::graph::room::{GraphError, Held, Room};
use crate::runtimes::graph::rows::Rows;
use crate::runtimes::graph::states::States;

/// All roots of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The kind.
    pub kind: RootKind,
    /// Its number.
    pub number: u32,
    /// How many of them lead to an object.
    pub roots: u64,
    /// Whether their objects may be arrays of static variables.
    pub static_arrays: bool,
    /// Their objects, by their numbers in the heap.
    pub(super) entries: Vec<u32>,
}

/// Bytes for each object that are in memory whatever the bound: where rows are, and up to fourteen rows of bits.
const IN_MEMORY: u64 = 2;

/// How large a graph is, known before the search in it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Objects of the heap.
    pub objects: u64,
    /// References between them, and those that lead to no object.
    pub references: u64,
    /// Bytes of all tables at once, where all objects live and none is referred to by several; what these take comes on top.
    pub bytes: u64,
}

impl Needs {
    /// `width`: bytes that an object's type takes.
    fn of(ids: &Ids, rows: &Rows, width: u64, room: &Room) -> Needs {
        let objects = u64::from(ids.len());
        let now = room.taken().saturating_add(room.in_files());
        // The order of all (its numbers, and three bits each) beside the references; after these, what each keeps and two
        // types of each, or which types are above.
        let order = 4 * objects + objects * 3 / 8;
        let sums = (4 + width.max(2)) * objects;
        let bytes = now + order + sums.saturating_sub(rows.bytes());
        Needs { objects, references: rows.references, bytes }
    }
}

/// The objects of a heap that live, and the heap.
pub struct Live<'g> {
    pub(super) graph: Graph<'g>,
    pub(super) numbered: Arc<Numbered>,
}

impl Deref for Live<'_> {
    type Target = Numbered;

    fn deref(&self) -> &Numbered {
        &self.numbered
    }
}

/// What is known of the objects of a heap that live, without the heap: whoever asks again needs no second search.
pub struct Numbered {
    pub(super) ids: Ids,
    pub(super) states: States,
    pub(super) order: Order,
    /// Kinds of roots, in the order of their numbers.
    pub sources: Vec<Source>,
    /// What could not be walked: no object of it is known.
    pub losses: Losses,
    /// Roots that lead to no object.
    pub stray_roots: u64,
    _held: Held,
}

/// What is found with them.
pub(super) struct Found {
    /// What dominates numbers, where it is not what the shortest way comes from.
    pub(super) uppers: Option<Uppers>,
    /// Types of all objects, by number in the heap, and sums by type.
    pub(super) kinds: Narrow,
    pub(super) sums: Vec<KindSum>,
    /// References of live objects that lead to no object.
    pub(super) strays: u64,
    /// References of all objects.
    pub(super) references: u64,
}

impl<'g> Live<'g> {
    /// Find what `roots`, and objects in frozen segments, lead to, and what dominates what. `told` is told of how many objects
    /// and references there are, and what that takes, before the search begins.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn find(
        graph: Graph<'g>,
        roots: &[Root],
        room: &Room,
        told: impl FnOnce(Needs),
    ) -> Result<(Live<'g>, Found), GraphError> {
        let frozen = |out: &mut Vec<u64>, part: &Part, object: &Object| {
            if part.generation.frozen && object.kind != FREE {
                out.push(object.addr.get());
            }
        };
        let (ids, Walked { seen, losses }) = Ids::new(graph.heap, room, frozen, |_| {})?;
        if ids.len() as usize > limits::MAX_LIVE_OBJECTS {
            return Err(GraphError::TooMany);
        }
        room.reserve(u64::from(ids.len()).saturating_mul(IN_MEMORY));
        let (sources, stray_roots) = sources(graph, &ids, roots, &seen.concat());
        let Read { rows, states, kinds, sums, _held } = Read::all(graph, &ids, room)?;
        let references = rows.references;
        told(Needs::of(&ids, &rows, kinds.width(), room));
        let reached = reach(&rows, &states, ids.len(), &sources, room)?;
        let uppers = Uppers::find(rows, &states, &sources, &reached, room)?;
        let strays = reached.strays;
        let numbered = Arc::new(Numbered { ids, states, order: reached.order, sources, losses, stray_roots, _held });
        Ok((Live { graph, numbered }, Found { uppers, kinds, sums, strays, references }))
    }

    /// Numbers given: to all roots, kinds of roots, and objects that live.
    pub fn len(&self) -> usize {
        self.order.len() as usize
    }

    /// Whether no root leads to anything.
    pub fn is_empty(&self) -> bool {
        self.order.len() <= self.order.base()
    }

    /// The object of that number; none for what stands for roots.
    pub fn object(&self, number: u32) -> Option<Addr> {
        self.ids.address(self.graph.space, self.order.id(number)?)
    }

    /// The number of the object at `addr`; `Some(0)` where no root leads to it.
    pub fn number_of(&self, addr: Addr) -> Option<u32> {
        self.numbers_of(&[addr]).first().copied().flatten()
    }

    /// The same of several: all numbers are looked through once.
    pub fn numbers_of(&self, addrs: &[Addr]) -> Vec<Option<u32>> {
        let id = |addr: &Addr| self.ids.find(self.graph.space, addr.get());
        let ids: Vec<Option<u32>> = addrs.iter().map(id).collect();
        let wanted: HashSet<u32> = ids.iter().flatten().copied().filter(|&id| self.states.lives(id)).collect();
        let known = self.order.numbers_of(&wanted);
        ids.into_iter().map(|id| id.map(|id| known.get(&id).copied().unwrap_or(0))).collect()
    }

    /// A reader of objects.
    pub fn reader(&self) -> Box<dyn ObjectReader + 'g> {
        self.graph.reader()
    }

    /// The kind of root that a number stands for.
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.sources.iter().find(|s| s.number == number)
    }

    /// Which of two numbers is of the object at the lower address.
    pub fn by_address(&self, number: u32) -> u32 {
        self.order.id(number).unwrap_or(0)
    }
}

/// Kinds of roots with their objects, and how many roots lead to none.
fn sources(graph: Graph<'_>, ids: &Ids, roots: &[Root], frozen: &[u64]) -> (Vec<Source>, u64) {
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
    let mut sources = Vec::new();
    for (number, (kind, entries)) in (1..).zip(by_kind) {
        let static_arrays = with_statics.contains(&kind);
        sources.push(Source { kind, number, roots: entries.len() as u64, static_arrays, entries });
    }
    (sources, stray_roots)
}
