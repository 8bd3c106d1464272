//! Why an object is alive: shortest paths to it from roots.
//!
//! Searches breadth-first from one root after the other, so the first path that reaches the object is a shortest one.
//! If a root does not lead to the object, nothing reachable from it does. The words of those objects stay marked, and
//! later searches skip them.
//!
//! Marks take one bit per word of the heap. The queue takes four bytes per visited object, and the parent links take
//! two bits ([`super::bfs_order`]).

use std::collections::HashMap;
use std::hint::black_box;

use crate::addr::Addr;
use crate::core::mapped::table::Number;
use crate::limits;
use crate::runtimes::api::space::MemoryRun;
use crate::runtimes::api::{Link, ObjectBatch, ObjectReader, Root};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::budget::{GraphError, MemoryBudget};
use crate::runtimes::graph::parallel_bfs::{self, run};
use crate::runtimes::graph::rank_select::RankedBits;
use crate::runtimes::graph::segmented_vec::{SEGMENT, SegmentedVec};
use crate::runtimes::graph::visited::VisitedWords;

/// Number of objects read in one batch, and the maximum number of references stored before they are processed.
const BATCH: usize = 64;
const MAX_REFS: usize = 1 << 16;

/// Represents the absence of a word in the heap.
const NOWHERE: u64 = u64::MAX;

/// A shortest path from a root to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The root that the path starts from.
    pub root: Root,
    /// Objects from the root's object to the target. Each has the link to the next object; the last has none.
    pub steps: Vec<(Addr, Option<Link>)>,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct FoundPaths {
    /// A shortest path for each root that leads to the object.
    pub paths: Vec<Path>,
    /// Whether roots were skipped because there were enough paths.
    pub more: bool,
    /// Number of objects visited.
    pub objects: u64,
}

/// Searches for paths from roots to one object.
pub struct PathSearch<'g> {
    graph: Graph<'g>,
    target: u64,
    objects: u64,
    budget: MemoryBudget,
}

impl<'g> PathSearch<'g> {
    /// Creates a search for `target`. Tables that exceed `budget` go to files.
    pub fn new(graph: Graph<'g>, target: Addr, budget: &MemoryBudget) -> PathSearch<'g> {
        PathSearch { graph, target: target.get(), objects: 0, budget: budget.clone() }
    }

    /// Returns a shortest path for each of `roots` that leads to the object, at most `limit` paths. If several roots
    /// reference the same object, only the first is used.
    ///
    /// # Errors
    /// [`GraphError`]
    pub fn run(self, roots: &[Root], limit: usize) -> Result<FoundPaths, GraphError> {
        self.search_from(roots, limit, false)
    }

    /// Like [`PathSearch::run`], but returns a path for each root, also if several reference the same object.
    ///
    /// # Errors
    /// [`GraphError`]
    pub fn run_for_each_root(self, roots: &[Root], limit: usize) -> Result<FoundPaths, GraphError> {
        self.search_from(roots, limit, true)
    }

    fn search_from(mut self, roots: &[Root], limit: usize, each_root: bool) -> Result<FoundPaths, GraphError> {
        let mut found = FoundPaths::default();
        let mut marks = VisitedWords::new(self.graph.space.words(), &self.budget)?;
        // Index of the path from each root's object. `None` if there is none.
        let mut seen: HashMap<Addr, Option<usize>> = HashMap::new();
        for root in roots {
            let known = seen.get(&root.object).copied();
            if known.is_some_and(|path| path.is_none() || !each_root) {
                continue;
            }
            if found.paths.len() >= limit {
                found.more = true;
                break;
            }
            if let Some(path) = known.flatten().and_then(|path| found.paths.get(path)) {
                let steps = path.steps.clone();
                found.paths.push(Path { root: *root, steps });
                continue;
            }
            let path = self.path_from(root.object.get(), &mut marks)?;
            marks.commit_or_undo(path.is_none());
            seen.insert(root.object, path.as_ref().map(|_| found.paths.len()));
            if let Some(path) = path {
                found.paths.push(Path { root: *root, steps: self.with_links(&path) });
            }
        }
        found.objects = self.objects;
        Ok(found)
    }

    /// A shortest path from `start` to the target, both included.
    fn path_from(&mut self, start: u64, marks: &mut VisitedWords) -> Result<Option<Vec<u64>>, GraphError> {
        if start == self.target {
            return Ok(Some(vec![start]));
        }
        let Some(index) = self.graph.space.run(start).map(|run| run.index(start)) else { return Ok(None) };
        if !marks.mark(index) {
            return Ok(None);
        }
        match u32::try_from(self.graph.space.words()) {
            Ok(_) => self.search::<u32>(index, marks),
            Err(_) => self.search::<u64>(index, marks),
        }
    }

    fn search<W: QueueEntry>(&mut self, index: u64, marks: &mut VisitedWords) -> Result<Option<Vec<u64>>, GraphError> {
        let graph = self.graph;
        let mut walk: RootSearch<'_, 'g, W> = RootSearch {
            graph,
            budget: &self.budget,
            target: self.target,
            marks,
            queue: SegmentedVec::new(&self.budget),
            head: 0,
            near: None,
            level: 1,
            first_children: Vec::new(),
            with_children: Vec::new(),
            last: None,
            reader: None,
            end: None,
        };
        walk.push(index);
        run(&mut walk, || {
            let mut reader = graph.reader();
            let mut addrs = Vec::with_capacity(BATCH);
            move |all: &[QueuedObject], out: &mut RefBatch| out.look(graph, &mut *reader, &mut addrs, all)
        });
        let reached = if matches!(walk.end, Some(Ok(_))) { walk.level } else { walk.queue.len() };
        let path = walk.path();
        self.objects += reached as u64;
        path
    }

    /// Adds the link to the next object to each step.
    fn with_links(&self, path: &[u64]) -> Vec<(Addr, Option<Link>)> {
        let mut reader = self.graph.reader();
        let holds = path
            .iter()
            .enumerate()
            .map(|(i, &object)| (Addr::new(object), path.get(i + 1).and_then(|&next| reader.link(object, next))));
        holds.take(limits::MAX_PATH).collect()
    }
}

/// Number of a word of the heap, as stored in the queue.
trait QueueEntry: Number + Copy {
    fn of(index: u64) -> Self;
    fn index(self) -> u64;
}

impl QueueEntry for u32 {
    #[inline(always)]
    fn of(index: u64) -> u32 {
        index as u32
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self.into()
    }
}

impl QueueEntry for u64 {
    fn of(index: u64) -> u64 {
        index
    }

    fn index(self) -> u64 {
        self
    }
}

/// A queued object: its index in the queue, and its address.
#[derive(Clone, Copy)]
struct QueuedObject {
    position: usize,
    addr: u64,
}

#[derive(Default)]
struct RefBatch {
    /// Each reference, with the number of the word that it points to ([`NOWHERE`] if it is outside the heap).
    values: Vec<(u64, u64)>,
    /// End index in `values` of each object's references.
    ends: Vec<usize>,
    /// Position in the last object to continue from, if it has more references.
    rest: Option<u32>,
    looked: ObjectBatch,
}

impl RefBatch {
    /// Reads objects until [`MAX_REFS`] references are stored.
    fn look(&mut self, graph: Graph<'_>, reader: &mut dyn ObjectReader, addrs: &mut Vec<u64>, all: &[QueuedObject]) {
        self.values.clear();
        self.ends.clear();
        self.rest = None;
        while let Some(some) = all.get(self.ends.len()..).filter(|some| !some.is_empty()) {
            addrs.clear();
            addrs.extend(some.iter().take(BATCH).map(|next| next.addr));
            // Objects are scattered in memory. Touching all of them first lets the cache misses overlap.
            black_box(addrs.iter().fold(0, |sum, &addr| sum ^ graph.first_word(addr)));
            reader.read_batch(addrs, MAX_REFS - self.values.len(), &mut self.looked);
            let before = self.values.len();
            let place =
                |value: u64| graph.space.run(value).filter(|_| value & 7 == 0).map_or(NOWHERE, |run| run.index(value));
            self.values.extend(self.looked.references.iter().map(|&value| (value, place(value))));
            self.ends.extend(self.looked.ends.iter().map(|end| before + end));
            self.rest = self.looked.next;
            if self.rest.is_some() || self.values.len() >= MAX_REFS {
                return;
            }
        }
    }
}

/// The search from one root.
struct RootSearch<'s, 'g, W> {
    graph: Graph<'g>,
    budget: &'s MemoryBudget,
    target: u64,
    marks: &'s mut VisitedWords,
    queue: SegmentedVec<W>,
    head: usize,
    near: Option<&'g MemoryRun<'g>>,
    /// End of the current level in the queue.
    level: usize,
    /// One bit per queue index: whether the object is the first that was reached from its parent.
    first_children: Vec<u64>,
    /// One bit per queue index: whether other objects were first reached from it.
    with_children: Vec<u64>,
    last: Option<usize>,
    reader: Option<Box<dyn ObjectReader + 'g>>,
    /// Queue index of the object that references the target, or the error that ended the search.
    end: Option<Result<usize, GraphError>>,
}

impl<W: QueueEntry> parallel_bfs::Traversal for RootSearch<'_, '_, W> {
    type Queued = QueuedObject;
    type Refs = RefBatch;

    fn take_queued(&mut self, limit: usize, out: &mut Vec<QueuedObject>) {
        let to = self.queue.len().min(self.head + limit - out.len());
        for place in self.head..to {
            let index = self.index(place);
            if self.near.and_then(|run| run.address(index)).is_none() {
                self.near = self.graph.space.run_of(index);
            }
            out.push(QueuedObject { position: place, addr: self.near.and_then(|run| run.address(index)).unwrap_or(0) });
        }
        self.head = to;
    }

    fn process(&mut self, all: &[QueuedObject], held: &RefBatch) -> bool {
        if let Err(e) = self.budget.in_time() {
            self.end = Some(Err(e));
            return false;
        }
        // Marks are scattered too. Touch them in the thread that sets them; other threads' caches would only have to
        // give the lines up.
        black_box(held.values.iter().fold(0, |sum, &(_, index)| sum ^ self.marks.word(index)));
        let mut from = 0;
        for (next, &end) in all.iter().zip(&held.ends) {
            self.enter(next.position);
            let values = held.values.get(from..end).unwrap_or_default();
            // Of paths of one length, the one through the last reference: SOS shows the same.
            values.iter().rev().all(|&(value, index)| self.visit_ref(next.position, value, index));
            from = end;
            if self.end.is_some() {
                return false;
            }
        }
        // Objects with too many references to be read ahead.
        let done = held.ends.len();
        let last = done.checked_sub(1).and_then(|at| all.get(at)).zip(held.rest);
        let rest = all.get(done..).unwrap_or_default().iter().map(|&next| (next, 0));
        for (next, place) in last.map(|(&next, place)| (next, place)).into_iter().chain(rest) {
            self.enter(next.position);
            self.read(next, place);
            if self.end.is_some() {
                return false;
            }
        }
        true
    }
}

impl<'g, W: QueueEntry> RootSearch<'_, 'g, W> {
    fn index(&self, place: usize) -> u64 {
        self.queue.get(place).map_or(0, QueueEntry::index)
    }

    fn push(&mut self, index: u64) {
        let at = self.queue.len();
        if at.is_multiple_of(SEGMENT) {
            let words = (at + SEGMENT) / 64;
            self.first_children.resize(words, 0);
            self.with_children.resize(words, 0);
        }
        if at >= u32::MAX as usize {
            return self.end = Some(Err(GraphError::TooMany));
        }
        if let Err(e) = self.queue.push(W::of(index)) {
            self.end = Some(Err(e));
        }
    }

    /// Must be called for each object taken from the queue. At the first of a level, the whole level is queued, so its
    /// end is known.
    #[inline(always)]
    fn enter(&mut self, place: usize) {
        if place == self.level {
            self.level = self.queue.len();
        }
    }

    /// Processes a reference of the object at queue index `from`. Returns whether to continue.
    #[inline(always)]
    fn visit_ref(&mut self, from: usize, value: u64, index: u64) -> bool {
        if value == self.target {
            self.end = Some(Ok(from));
            return false;
        }
        if index != NOWHERE && self.marks.mark(index) {
            if self.last != Some(from) {
                self.last = Some(from);
                let at = self.queue.len();
                self.push(index);
                set(&mut self.first_children, at);
                set(&mut self.with_children, from);
            } else {
                self.push(index);
            }
        }
        self.end.is_none()
    }

    /// Reads and processes an object's references from position `place` on.
    fn read(&mut self, next: QueuedObject, place: u32) {
        let graph = self.graph;
        let mut reader = self.reader.take().unwrap_or_else(|| graph.reader());
        let mut some = Vec::new();
        let mut more = Some(place);
        while let Some(place) = more {
            more = reader.targets(next.addr, place, MAX_REFS, &mut some);
            for &(_, value) in &some {
                let run = graph.space.run(value).filter(|_| value & 7 == 0);
                if !self.visit_ref(next.position, value, run.map_or(NOWHERE, |run| run.index(value))) {
                    more = None;
                    break;
                }
            }
        }
        self.reader = Some(reader);
    }

    /// The path that was found, from the root's object to the target.
    fn path(self) -> Result<Option<Vec<u64>>, GraphError> {
        let Some(end) = self.end.clone().transpose()? else { return Ok(None) };
        let addr = |place: usize| {
            let index = self.index(place);
            self.graph.space.run_of(index).and_then(|run| run.address(index)).unwrap_or(0)
        };
        let mut out = vec![self.target, addr(end)];
        let (first_children, with_children) =
            (RankedBits::new(self.first_children.clone()), RankedBits::new(self.with_children.clone()));
        let mut at = end as u32;
        while at != 0
            && let Some(up) = first_children.rank(at + 1).checked_sub(1).and_then(|rank| with_children.select(rank))
        {
            out.push(addr(up as usize));
            at = up;
        }
        out.reverse();
        Ok(Some(out))
    }
}

fn set(words: &mut [u64], at: usize) {
    if let Some(word) = words.get_mut(at / 64) {
        *word |= 1 << (at % 64);
    }
}
