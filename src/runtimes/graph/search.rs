//! Why an object is alive: paths to it from roots.
//!
//! From one root after the other, level by level: the first time that the
//! object is met, the way to it is a shortest one. What a root that does not
//! lead to it keeps is dead for all others: it is marked, and never looked at
//! again. The marks are a bit for each word of the heap. What was come to stands in a queue, in four bytes each, and where from is two
//! bits ([`super::order`]).

use std::collections::HashSet;
use std::hint::black_box;

use crate::addr::Addr;
use crate::core::mapped::table::Number;
use crate::limits;
use crate::runtimes::api::space::Run;
use crate::runtimes::api::{Link, Looked, ObjectReader, Root};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::ahead::{self, run};
use crate::runtimes::graph::bits::Ranked;
use crate::runtimes::graph::marks::Marks;
use crate::runtimes::graph::pieces::{PIECE, Pieces};
use crate::runtimes::graph::room::{GraphError, Room};

/// Objects that are looked at together, and references that are kept of some hundred objects before they are taken.
const TOGETHER: usize = 64;
const MOST: usize = 1 << 16;

/// No word of the heap.
const NOWHERE: u64 = u64::MAX;

/// One way from a root to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The root.
    pub root: Root,
    /// From the root's object to the one asked for; with each, how it holds the
    /// next.
    pub steps: Vec<(Addr, Option<Link>)>,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// A shortest path from each root that leads to the object.
    pub paths: Vec<Path>,
    /// Whether roots were left out, as there are paths enough.
    pub more: bool,
    /// Objects that were looked at.
    pub objects: u64,
}

/// Searches for ways to one object.
pub struct Search<'g> {
    graph: Graph<'g>,
    target: u64,
    objects: u64,
    room: Room,
}

impl<'g> Search<'g> {
    /// Search for `target`. What `room` has no memory for goes to files.
    pub fn new(graph: Graph<'g>, target: Addr, room: &Room) -> Search<'g> {
        Search { graph, target: target.get(), objects: 0, room: room.clone() }
    }

    /// A shortest path from each of `roots` that leads to the object, at most
    /// `most` of them; of roots of the same object, only the first counts.
    ///
    /// # Errors
    /// [`GraphError`]
    pub fn run(mut self, roots: &[Root], most: usize) -> Result<Found, GraphError> {
        let mut found = Found::default();
        let mut marks = Marks::new(self.graph.space.words(), &self.room)?;
        let mut seen = HashSet::new();
        for root in roots {
            if !seen.insert(root.object) {
                continue;
            }
            if found.paths.len() >= most {
                found.more = true;
                break;
            }
            let way = self.from(root.object.get(), &mut marks)?;
            marks.settle(way.is_none());
            if let Some(way) = way {
                found.paths.push(Path { root: *root, steps: self.links(&way) });
            }
        }
        found.objects = self.objects;
        Ok(found)
    }

    /// A shortest way from `start` to the object, both included.
    fn from(&mut self, start: u64, marks: &mut Marks) -> Result<Option<Vec<u64>>, GraphError> {
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

    fn search<W: Word>(&mut self, index: u64, marks: &mut Marks) -> Result<Option<Vec<u64>>, GraphError> {
        let graph = self.graph;
        let mut walk: Walk<'_, 'g, W> = Walk {
            graph,
            target: self.target,
            marks,
            queue: Pieces::new(&self.room),
            head: 0,
            near: None,
            level: 1,
            firsts: Vec::new(),
            ways_on: Vec::new(),
            last: None,
            reader: None,
            end: None,
        };
        walk.push(index);
        run(&mut walk, || {
            let mut reader = graph.reader();
            let mut addrs = Vec::with_capacity(TOGETHER);
            move |all: &[Next], out: &mut Held| out.look(graph, &mut *reader, &mut addrs, all)
        });
        let met = if matches!(walk.end, Some(Ok(_))) { walk.level } else { walk.queue.len() };
        let way = walk.way();
        self.objects += met as u64;
        way
    }

    /// How each object of a way holds the next.
    fn links(&self, way: &[u64]) -> Vec<(Addr, Option<Link>)> {
        let mut reader = self.graph.reader();
        let holds = way
            .iter()
            .enumerate()
            .map(|(i, &object)| (Addr::new(object), way.get(i + 1).and_then(|&next| reader.link(object, next))));
        holds.take(limits::MAX_PATH).collect()
    }
}

/// The number of a word of the heap, as the queue has it.
trait Word: Number + Copy {
    fn of(index: u64) -> Self;
    fn index(self) -> u64;
}

impl Word for u32 {
    #[inline(always)]
    fn of(index: u64) -> u32 {
        index as u32
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self.into()
    }
}

impl Word for u64 {
    fn of(index: u64) -> u64 {
        index
    }

    fn index(self) -> u64 {
        self
    }
}

/// An object of the queue: its place there, and where it is.
#[derive(Clone, Copy)]
struct Next {
    place: usize,
    addr: u64,
}

/// What some objects hold.
#[derive(Default)]
struct Held {
    /// With each value the word of the heap that it leads to.
    values: Vec<(u64, u64)>,
    /// Where those of each object end.
    ends: Vec<usize>,
    /// The place in the last of them to go on from, where there is more.
    rest: Option<u32>,
    looked: Looked,
}

impl Held {
    /// Look at objects, until they hold [`MOST`].
    fn look(&mut self, graph: Graph<'_>, reader: &mut dyn ObjectReader, addrs: &mut Vec<u64>, all: &[Next]) {
        self.values.clear();
        self.ends.clear();
        self.rest = None;
        while let Some(some) = all.get(self.ends.len()..).filter(|some| !some.is_empty()) {
            addrs.clear();
            addrs.extend(some.iter().take(TOGETHER).map(|next| next.addr));
            // Objects lie anywhere: asked for together, they come together.
            black_box(addrs.iter().fold(0, |sum, &addr| sum ^ graph.first_word(addr)));
            reader.look(addrs, MOST - self.values.len(), &mut self.looked);
            let before = self.values.len();
            let place =
                |value: u64| graph.space.run(value).filter(|_| value & 7 == 0).map_or(NOWHERE, |run| run.index(value));
            self.values.extend(self.looked.held.iter().map(|&value| (value, place(value))));
            self.ends.extend(self.looked.ends.iter().map(|end| before + end));
            self.rest = self.looked.next;
            if self.rest.is_some() || self.values.len() >= MOST {
                return;
            }
        }
    }
}

/// A search from one root.
struct Walk<'s, 'g, W> {
    graph: Graph<'g>,
    target: u64,
    marks: &'s mut Marks,
    queue: Pieces<W>,
    head: usize,
    near: Option<&'g Run<'g>>,
    /// Where the level ends that is taken.
    level: usize,
    /// By place: the first that was come to from where it was, and what others were come to from.
    firsts: Vec<u64>,
    ways_on: Vec<u64>,
    last: Option<usize>,
    reader: Option<Box<dyn ObjectReader + 'g>>,
    /// The place of the object that leads to the one searched for; or why there is no answer.
    end: Option<Result<usize, GraphError>>,
}

impl<W: Word> ahead::Search for Walk<'_, '_, W> {
    type Next = Next;
    type Looked = Held;

    fn next(&mut self, most: usize, out: &mut Vec<Next>) {
        let to = self.queue.len().min(self.head + most - out.len());
        for place in self.head..to {
            let index = self.index(place);
            if self.near.and_then(|run| run.address(index)).is_none() {
                self.near = self.graph.space.run_of(index);
            }
            out.push(Next { place, addr: self.near.and_then(|run| run.address(index)).unwrap_or(0) });
        }
        self.head = to;
    }

    fn take(&mut self, all: &[Next], held: &Held) -> bool {
        // Marks lie anywhere too. They are asked for by the thread that sets them: what another one has read, it would have to take back.
        black_box(held.values.iter().fold(0, |sum, &(_, index)| sum ^ self.marks.word(index)));
        let mut from = 0;
        for (next, &end) in all.iter().zip(&held.ends) {
            self.enter(next.place);
            let values = held.values.get(from..end).unwrap_or_default();
            values.iter().all(|&(value, index)| self.meet(next.place, value, index));
            from = end;
            if self.end.is_some() {
                return false;
            }
        }
        // What held too much to be looked at ahead.
        let done = held.ends.len();
        let last = done.checked_sub(1).and_then(|at| all.get(at)).zip(held.rest);
        let rest = all.get(done..).unwrap_or_default().iter().map(|&next| (next, 0));
        for (next, place) in last.map(|(&next, place)| (next, place)).into_iter().chain(rest) {
            self.enter(next.place);
            self.read(next, place);
            if self.end.is_some() {
                return false;
            }
        }
        true
    }
}

impl<'g, W: Word> Walk<'_, 'g, W> {
    fn index(&self, place: usize) -> u64 {
        self.queue.get(place).map_or(0, Word::index)
    }

    fn push(&mut self, index: u64) {
        let at = self.queue.len();
        if at.is_multiple_of(PIECE) {
            let words = (at + PIECE) / 64;
            self.firsts.resize(words, 0);
            self.ways_on.resize(words, 0);
        }
        if at >= u32::MAX as usize {
            return self.end = Some(Err(GraphError::TooMany));
        }
        if let Err(e) = self.queue.push(W::of(index)) {
            self.end = Some(Err(e));
        }
    }

    /// An object is taken: with the first of a level, all of that are known.
    #[inline(always)]
    fn enter(&mut self, place: usize) {
        if place == self.level {
            self.level = self.queue.len();
        }
    }

    /// The object at a place holds a value; whether to go on.
    #[inline(always)]
    fn meet(&mut self, from: usize, value: u64, index: u64) -> bool {
        if value == self.target {
            self.end = Some(Ok(from));
            return false;
        }
        if index != NOWHERE && self.marks.mark(index) {
            if self.last != Some(from) {
                self.last = Some(from);
                let at = self.queue.len();
                self.push(index);
                set(&mut self.firsts, at);
                set(&mut self.ways_on, from);
            } else {
                self.push(index);
            }
        }
        self.end.is_none()
    }

    /// Read what an object holds from a place on.
    fn read(&mut self, next: Next, place: u32) {
        let graph = self.graph;
        let mut reader = self.reader.take().unwrap_or_else(|| graph.reader());
        let mut some = Vec::new();
        let mut more = Some(place);
        while let Some(place) = more {
            more = reader.targets(next.addr, place, MOST, &mut some);
            for &(_, value) in &some {
                let run = graph.space.run(value).filter(|_| value & 7 == 0);
                if !self.meet(next.place, value, run.map_or(NOWHERE, |run| run.index(value))) {
                    more = None;
                    break;
                }
            }
        }
        self.reader = Some(reader);
    }

    /// The way that was found.
    fn way(self) -> Result<Option<Vec<u64>>, GraphError> {
        let Some(end) = self.end.clone().transpose()? else { return Ok(None) };
        let addr = |place: usize| {
            let index = self.index(place);
            self.graph.space.run_of(index).and_then(|run| run.address(index)).unwrap_or(0)
        };
        let mut out = vec![self.target, addr(end)];
        let (firsts, ways_on) = (Ranked::new(self.firsts.clone()), Ranked::new(self.ways_on.clone()));
        let mut at = end as u32;
        while at != 0
            && let Some(up) = firsts.rank(at + 1).checked_sub(1).and_then(|rank| ways_on.select(rank))
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
