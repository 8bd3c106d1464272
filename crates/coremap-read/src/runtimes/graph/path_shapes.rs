//! Shapes of paths from roots: root kind, then types and fields.
//!
//! A list has as many paths as nodes, and a tree has more. So an object referenced by one of its own type belongs to
//! the same step. So does an object referenced by the same field of the same type as at an earlier step of the path. No
//! shape then contains a step twice.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
pub use crate::runtimes::api::FieldKey;
use crate::runtimes::api::{Link, TypeIndex, TypeInfo};
use crate::runtimes::graph::Retained;
use crate::runtimes::graph::budget::{GraphError, Table};

/// Maximum number of earlier steps that a new step is compared with.
const MAX_BACK: usize = 64;

/// Maximum number of fields recorded per shape by which objects of a step reference each other.
const MAX_LOOPS: usize = 4;

/// Number of entries in the cache of steps. A power of two.
const CACHE: usize = 1 << 12;

/// A step, and the shape that it leads to.
type Cached = ((ShapeIndex, FieldKey, TypeIndex), ShapeIndex);

/// Index of a shape in [`Shapes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeIndex(pub u32);

/// The last step of a path, linked to the shape of the path before it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Shape of the path before this step. `None` for a root kind.
    pub before: Option<ShapeIndex>,
    /// How objects of the previous step reference those of this step.
    pub by: FieldKey,
    /// Type of the objects. `None` for a root kind.
    pub kind: Option<TypeIndex>,
    /// Fields, or elements, by which objects of this step reference each other.
    pub loops: Vec<FieldKey>,
}

/// The shapes of the shortest paths to all live objects.
pub struct Shapes<'r, 'g> {
    retained: &'r Retained<'g>,
    statics: &'r HashSet<Addr>,
    all: Vec<Shape>,
    by_step: HashMap<(ShapeIndex, FieldKey, TypeIndex), ShapeIndex>,
    /// One-entry cache per slot; neighbouring objects usually take the same step.
    cache: Vec<Option<Cached>>,
    /// Shape by number.
    of: Table<u32>,
    infos: Vec<Option<TypeInfo>>,
    /// By type: whether fields are identified by their offset alone.
    plain: Vec<bool>,
    full: bool,
}

impl<'r, 'g> Shapes<'r, 'g> {
    /// Creates an empty set of shapes. `statics` are the addresses of static variables.
    ///
    /// # Errors
    /// [`GraphError::NoSpace`]
    pub fn new(retained: &'r Retained<'g>, statics: &'r HashSet<Addr>) -> Result<Shapes<'r, 'g>, GraphError> {
        let none = Shape { before: None, by: FieldKey::Root, kind: None, loops: Vec::new() };
        Ok(Shapes {
            retained,
            statics,
            all: vec![none],
            by_step: HashMap::new(),
            cache: vec![None; CACHE],
            of: retained.budget.table(retained.live.len())?,
            infos: Vec::new(),
            plain: Vec::new(),
            full: false,
        })
    }

    /// Adds the next number of a [`super::ShortestPathTree`], with its parent and the link from it.
    pub fn enter(&mut self, number: u32, parent: u32, link: Option<Link>) {
        let before = self.of(parent);
        let shape = match self.retained.kind(number) {
            None => self.add(Shape { before: None, by: FieldKey::Root, kind: None, loops: Vec::new() }),
            Some(kind) => {
                let by = self.key(parent, link);
                self.step(before, by, kind)
            }
        };
        if let Some(of) = self.of.get_mut(number as usize) {
            *of = shape.unwrap_or(before).0;
        }
    }

    /// Shape of the path to an object.
    pub fn of(&self, number: u32) -> ShapeIndex {
        ShapeIndex(self.of.get(number as usize).copied().unwrap_or(0))
    }

    /// The last step of a shape.
    pub fn get(&self, shape: ShapeIndex) -> Option<&Shape> {
        self.all.get(shape.0 as usize)
    }

    /// The shapes of all prefixes of a path, from the root kind to the whole path.
    pub fn steps(&self, shape: ShapeIndex) -> Vec<ShapeIndex> {
        let mut out = vec![shape];
        // The index decreases with each step, so the loop ends.
        while let Some(before) = out.last().and_then(|&s| self.get(s)?.before) {
            out.push(before);
        }
        out.reverse();
        out
    }

    /// Whether the limit on shapes was reached. Further paths count as the shape of their prefix.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn add(&mut self, shape: Shape) -> Option<ShapeIndex> {
        if self.all.len() >= limits::MAX_SHAPES {
            self.full = true;
            return None;
        }
        self.all.push(shape);
        Some(ShapeIndex(self.all.len() as u32 - 1))
    }

    fn step(&mut self, before: ShapeIndex, by: FieldKey, kind: TypeIndex) -> Option<ShapeIndex> {
        let offset = match by {
            FieldKey::Field(offset) | FieldKey::Element(offset) => offset as u32,
            _ => 0,
        };
        let hash = before.0 ^ kind.0.rotate_left(12) ^ offset.rotate_left(24);
        let slot = (hash.wrapping_mul(0x9e37_79b9) >> 20) as usize % CACHE;
        if let Some(&Some((key, found))) = self.cache.get(slot)
            && key == (before, by, kind)
        {
            return Some(found);
        }
        let found = self.find_or_add(before, by, kind)?;
        if let Some(slot) = self.cache.get_mut(slot) {
            *slot = Some(((before, by, kind), found));
        }
        Some(found)
    }

    fn find_or_add(&mut self, before: ShapeIndex, by: FieldKey, kind: TypeIndex) -> Option<ShapeIndex> {
        if let Some(&known) = self.by_step.get(&(before, by, kind)) {
            return Some(known);
        }
        let same = self.repeated_step(before, by, kind);
        let found = match same {
            Some(same) => {
                let loops = self.all.get_mut(same.0 as usize).filter(|_| same == before).map(|s| &mut s.loops);
                if let Some(loops) = loops.filter(|l| l.len() < MAX_LOOPS && !l.contains(&by)) {
                    loops.push(by);
                }
                same
            }
            None => self.add(Shape { before: Some(before), by, kind: Some(kind), loops: Vec::new() })?,
        };
        self.by_step.insert((before, by, kind), found);
        Some(found)
    }

    /// The earlier step that this step repeats. `None` if it is new.
    fn repeated_step(&self, before: ShapeIndex, by: FieldKey, kind: TypeIndex) -> Option<ShapeIndex> {
        let last = self.get(before)?;
        if matches!(by, FieldKey::Static(_) | FieldKey::Root) {
            return None;
        }
        if last.kind == Some(kind) {
            return Some(before);
        }
        let mut at = before;
        for _ in 0..MAX_BACK {
            let step = self.get(at)?;
            let up = step.before?;
            if step.kind == Some(kind) && step.by == by && self.get(up)?.kind == last.kind {
                return Some(at);
            }
            at = up;
        }
        None
    }

    fn key(&mut self, parent: u32, link: Option<Link>) -> FieldKey {
        let offset = match link {
            None => return FieldKey::Root,
            Some(Link::NoField(how)) => return FieldKey::NoField(how),
            Some(Link::Field(offset)) => offset,
        };
        let kind = self.retained.kind(parent).map_or(usize::MAX, |kind| kind.0 as usize);
        if self.plain.get(kind) == Some(&true) {
            return FieldKey::Field(offset);
        }
        let info = self.info(parent);
        if info.is_some_and(|info| !info.represents_types && info.elements.is_none()) {
            if self.plain.len() <= kind {
                self.plain.resize(kind + 1, false);
            }
            if let Some(plain) = self.plain.get_mut(kind) {
                *plain = true;
            }
        }
        if info.is_some_and(|info| info.represents_types)
            && let heap = self.retained.live.graph.heap
            && let Some(place) = self.retained.live.object(parent).map(|at| heap.slot_address(at, offset))
            && heap.static_at(place, &[]).is_some()
        {
            return FieldKey::Static(place);
        }
        let Some(elements) = info.and_then(|info| info.elements) else { return FieldKey::Field(offset) };
        // Static variables are in arrays that roots reference.
        if self.is_array_of_statics(parent)
            && let Some(place) = self.retained.live.object(parent).map(|at| at.saturating_add(offset))
            && self.statics.contains(&place)
        {
            return FieldKey::Static(place);
        }
        // An object with elements may have fields before them.
        match offset.checked_sub(elements.start) {
            Some(at) => FieldKey::Element(at % elements.size.max(1)),
            None => FieldKey::Field(offset),
        }
    }

    fn is_array_of_statics(&self, number: u32) -> bool {
        let before = self.get(self.of(number)).and_then(|s| s.before);
        before.is_some_and(|b| {
            let source = self.retained.live.root_nodes.get((b.0 as usize).wrapping_sub(1));
            source.is_some_and(|s| s.static_arrays)
        })
    }

    fn info(&mut self, number: u32) -> Option<TypeInfo> {
        let kind = self.retained.kind(number)?;
        let at = kind.0 as usize;
        if self.infos.len() <= at {
            self.infos.resize(at + 1, None);
        }
        let known = self.infos.get_mut(at)?;
        if known.is_none() {
            *known = self.retained.live.graph.heap.type_info(kind);
        }
        *known
    }
}
