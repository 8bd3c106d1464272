//! Why an object is alive: paths to it from roots.
//!
//! From one root after the other, level by level: the first time that the
//! object is met, the way to it is a shortest one. What a root that does not
//! lead to it keeps is dead for all others: it is marked, and never looked at
//! again. The marks are a bit for each word of the heap. Of where a level was
//! come to from, only now and then a level's objects are remembered; between two
//! of these, the way is searched again.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::managed::graph::Graph;
use crate::managed::graph::marks::Marks;
use crate::managed::{Link, ObjectReader, Root};

/// Objects of a level from which on it is shared between threads.
const SHARED: usize = 2048;

/// Objects that a thread takes at once.
const CHUNK: usize = 512;

/// Objects that are looked up before the first of them is read, and references before the first is marked.
const AHEAD: usize = 32;
const MANY: usize = 1 << 10;

/// Objects met between two levels that are remembered, and how many times as
/// many as such a level has.
const REMEMBER_EVERY: u64 = 1 << 16;
const REMEMBER_SHARE: u64 = 16;

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

/// A level of a search: objects, and where in the last remembered level each
/// comes from.
#[derive(Default)]
struct Level {
    objects: Vec<u64>,
    origins: Vec<u32>,
}

impl Level {
    fn push(&mut self, object: u64, origin: u32) {
        self.objects.push(object);
        self.origins.push(origin);
    }

    fn append(&mut self, mut other: Level) {
        self.objects.append(&mut other.objects);
        self.origins.append(&mut other.origins);
    }
}

/// Searches for ways to one object.
pub struct Search<'g> {
    graph: Graph<'g>,
    target: u64,
    marks: Marks,
    objects: u64,
    /// Readers that no thread uses now: there are many levels, and each reader has
    /// its cache to fill.
    readers: Mutex<Vec<Box<dyn ObjectReader + 'g>>>,
}

impl<'g> Search<'g> {
    /// Search for `target`.
    pub fn new(graph: Graph<'g>, target: Addr) -> Search<'g> {
        Search {
            graph,
            target: target.get(),
            marks: Marks::new(graph.space.words()),
            objects: 0,
            readers: Mutex::default(),
        }
    }

    /// A shortest path from each of `roots` that leads to the object, at most
    /// `most` of them; of roots of the same object, only the first counts.
    pub fn run(mut self, roots: &[Root], most: usize) -> Found {
        let mut found = Found::default();
        let mut seen = HashSet::new();
        for root in roots {
            if !seen.insert(root.object) {
                continue;
            }
            if found.paths.len() >= most {
                found.more = true;
                break;
            }
            let way = self.from(root.object.get());
            self.marks.settle(way.is_none());
            if let Some(way) = way {
                found.paths.push(Path { root: *root, steps: self.links(&way) });
            }
        }
        found.objects = self.objects;
        found
    }

    /// A shortest way from `start` to the object, both included.
    fn from(&mut self, start: u64) -> Option<Vec<u64>> {
        if start == self.target {
            return Some(vec![start]);
        }
        let index = self.graph.space.run(start)?.index(start);
        if !self.marks.mark(index) {
            return None;
        }
        let mut level = Level { objects: vec![start], origins: vec![0] };
        let mut remembered: Vec<Level> = vec![Level { objects: vec![start], origins: vec![0] }];
        let mut since = 0_u64;
        while !level.objects.is_empty() {
            self.objects += level.objects.len() as u64;
            let (mut next, hit) = self.expand(&level);
            if let Some(origin) = hit {
                return self.way(&remembered, origin);
            }
            since += next.objects.len() as u64;
            if since >= REMEMBER_EVERY.max(REMEMBER_SHARE.saturating_mul(next.objects.len() as u64)) {
                since = 0;
                let own = (0..next.objects.len() as u32).collect();
                let kept = Level { objects: next.objects.clone(), origins: std::mem::replace(&mut next.origins, own) };
                remembered.push(kept);
            }
            level = next;
        }
        None
    }

    /// The objects that those of `level` hold and that were not met before; or
    /// where the object that leads to the one searched for comes from.
    fn expand(&self, level: &Level) -> (Level, Option<u32>) {
        let len = level.objects.len();
        if len < SHARED {
            return self.expand_part(&level.objects, &level.origins);
        }
        let join = |mut a: (Level, Option<u32>), b: (Level, Option<u32>)| {
            a.0.append(b.0);
            (a.0, a.1.or(b.1))
        };
        level
            .objects
            .par_chunks(CHUNK.max(len / 64))
            .zip(level.origins.par_chunks(CHUNK.max(len / 64)))
            .map(|(objects, origins)| self.expand_part(objects, origins))
            .reduce(Default::default, join)
    }

    fn expand_part(&self, objects: &[u64], origins: &[u32]) -> (Level, Option<u32>) {
        let mut next = Level::default();
        let mut hit = None;
        let mut held = Vec::new();
        let spare = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = spare.unwrap_or_else(|| self.graph.reader());
        for (objects, origins) in objects.chunks(AHEAD).zip(origins.chunks(AHEAD)) {
            // Objects lie anywhere, and so do their marks: asked for together, they come together.
            black_box(objects.iter().fold(0, |sum, &object| sum ^ self.graph.first_word(object)));
            for (&object, &origin) in objects.iter().zip(origins) {
                reader.each(object, |_, value| {
                    if value == self.target {
                        hit = Some(origin);
                        return false;
                    }
                    if value & 7 == 0
                        && let Some(run) = self.graph.space.run(value)
                    {
                        held.push((run.index(value), value, origin));
                        if held.len() >= MANY {
                            self.meet(&mut held, &mut next);
                        }
                    }
                    true
                });
                if hit.is_some() {
                    break;
                }
            }
            if hit.is_some() {
                break;
            }
            self.meet(&mut held, &mut next);
        }
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        (next, hit)
    }

    /// Mark words, each with its address and an origin, and take those that were not yet.
    fn meet(&self, held: &mut Vec<(u64, u64, u32)>, next: &mut Level) {
        black_box(held.iter().fold(0, |sum, &(index, ..)| sum ^ self.marks.word(index)));
        for (index, value, origin) in held.drain(..) {
            if self.marks.mark(index) {
                next.push(value, origin);
            }
        }
    }

    /// The whole way, from the remembered levels' objects on it.
    fn way(&self, remembered: &[Level], mut origin: u32) -> Option<Vec<u64>> {
        let mut stations = vec![self.target];
        for level in remembered.iter().rev() {
            stations.push(*level.objects.get(origin as usize)?);
            origin = *level.origins.get(origin as usize)?;
        }
        stations.reverse();
        let mut out = vec![*stations.first()?];
        for (&from, &to) in stations.iter().zip(stations.iter().skip(1)) {
            out.extend(self.between(from, to)?);
        }
        Some(out)
    }

    /// A shortest way from one object to another, without the first.
    fn between(&self, from: u64, to: u64) -> Option<Vec<u64>> {
        let mut reader = self.graph.reader();
        let mut parents: HashMap<u64, u64> = HashMap::from([(from, from)]);
        let mut level = vec![from];
        while !level.is_empty() && !parents.contains_key(&to) {
            let mut next = Vec::new();
            for &object in &level {
                reader.each(object, |_, value| {
                    if value & 7 == 0 && self.graph.space.run(value).is_some() {
                        parents.entry(value).or_insert_with(|| {
                            next.push(value);
                            object
                        });
                    }
                    value != to
                });
            }
            level = next;
        }
        let mut out = Vec::new();
        let mut at = to;
        while at != from {
            out.push(at);
            at = *parents.get(&at)?;
        }
        out.reverse();
        Some(out)
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
