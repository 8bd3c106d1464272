//! What the bytes of Python's memory are: what of an object is structure, and what is the program's own.
//!
//! Counts, lengths, types, flags and references are structure. Digits, characters, bytes and hashes are values: an integer is its
//! own hash, and has its place in the table of a dict by it. Texts that answers print as names are structure too.
//!
//! | file | does |
//! |---|---|
//! | `forms` | objects, by the form of their type |
//! | `names` | which texts and numbers answers print |
//! | `alike` | objects that there are one of for each small integer and each letter |
//! | `numbers` | fields of objects written in C that are read by name |

mod alike;
mod forms;
mod names;
mod numbers;

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange, union};
use crate::cpython::CPython;
use crate::cpython::heap::{Heap, Hold};
use crate::cpython::objects::Form;
use crate::managed::{FREE, Heap as _, Losses, TypeIndex};
use forms::Anatomist;
use names::Names;

/// Bytes of a pointer.
const WORD: u64 = 8;

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The interpreter's.
    Structure,
    /// A name, in units of so many bytes, and whether it is of the interpreter's own library.
    Name(u8, bool),
    /// The program's, whatever they look like.
    Value,
    /// Characters, in units of so many bytes.
    Text(u8),
    /// An object that tells its value by its place: who leads there may lead to the object at this address as well.
    Alike(Addr),
}

impl CPython<'_> {
    /// Visit the bytes of all objects, of what they own, and of the allocator's structures; what is not visited is nothing
    /// known. `shown`: texts that answers print as names of threads.
    pub(crate) fn anatomy(&self, shown: &HashSet<String>, visit: &mut dyn FnMut(AddrRange, Part)) {
        let Some(heap) = self.objects() else { return };
        for arenas in self.arenas() {
            visit(AddrRange::sized(arenas.array, arenas.array_bytes), Part::Structure);
        }
        heap.each_pool_header(|range| visit(range, Part::Structure));
        self.collector(visit);
        let mut names = Names::read(self, heap, shown);
        let mut fixed = fixed(self, heap, &mut names);
        let alike = alike::all(heap, &fixed, &names);
        // All of a table, as all of it decides where it begins.
        fixed.extend(alike.iter().map(|(at, _)| *at));
        fixed.sort_unstable();
        fixed.dedup();
        let mut anatomist = Anatomist::new(heap, &names, visit);
        each(heap, &mut |at, kind, end| {
            if kind == FREE {
                anatomist.free(at, end);
            } else if let Some(found) = heap.type_of_kind(kind) {
                anatomist.object(at, &found, end, false);
            }
        });
        for &at in &fixed {
            if let Some(found) = kind_of(heap, at) {
                anatomist.object(at, &found, at, true);
            }
        }
        names.places().for_each(|place| visit(AddrRange::sized(place, WORD), Part::Structure));
        alike.iter().for_each(|&(at, other)| visit(AddrRange::sized(at, WORD), Part::Alike(other)));
    }

    /// Whether the collector is on.
    fn collector(&self, visit: &mut dyn FnMut(AddrRange, Part)) {
        let runtime = self.runtime();
        for &interpreter in &runtime.interpreters {
            let gc = runtime.view("PyInterpreterState", interpreter).addr_of("gc");
            if let Some(at) = gc.ok().and_then(|gc| runtime.view("_gc_runtime_state", gc).addr_of("enabled").ok()) {
                visit(AddrRange::sized(at, 4), Part::Structure);
            }
        }
    }
}

/// Visit the objects of the heap: where, of what type, and where their block ends.
fn each(heap: &Heap<'_>, visit: &mut dyn FnMut(Addr, TypeIndex, Addr)) {
    let mut walker = heap.walker();
    for part in heap.parts() {
        walker.walk(part, &mut Losses::default(), &mut |object| {
            let start = object.addr.saturating_sub(heap.prefix(object.kind));
            visit(object.addr, object.kind, start.saturating_add(object.size));
        });
    }
}

/// The type of what may be an object, in the heap or not.
fn kind_of(heap: &Heap<'_>, at: Addr) -> Option<std::sync::Arc<crate::cpython::objects::PyType>> {
    let kind = heap.objects().type_of(at).filter(|_| at.is_aligned(8) && !at.is_null())?;
    heap.type_at(kind)
}

/// Objects that are part of program files, and that others lead to: types, names, small integers. On the way all code and functions
/// are asked for their names.
fn fixed(python: &CPython<'_>, heap: &Heap<'_>, names: &mut Names<'_>) -> Vec<Addr> {
    let images = union(python.runtime().process.modules.iter().map(|module| module.range).collect());
    let is_of_image = |at: Addr| {
        let i = images.partition_point(|range| range.end <= at);
        images.get(i).is_some_and(|range| range.contains(at))
    };
    let mut seen: HashSet<Addr> = HashSet::new();
    let mut queue: Vec<Addr> = Vec::new();
    let mut lead = |to: Addr, queue: &mut Vec<Addr>| {
        if is_of_image(to) && to.is_aligned(8) && seen.insert(to) {
            queue.push(to);
        }
    };
    let (mut kinds, mut types): (HashSet<TypeIndex>, HashSet<Addr>) = Default::default();
    each(heap, &mut |at, kind, _| {
        let Some(found) = heap.type_of_kind(kind) else { return };
        if kinds.insert(kind) {
            names.of_type(heap, &found);
        }
        if found.form == Form::Type
            && let Some(class) = heap.type_at(at)
        {
            types.insert(at);
            names.of_type(heap, &class);
        }
        names.take(heap, at, &found);
        heap.each_hold(at, &found, |hold| match hold {
            Hold::Object(to) => lead(to, &mut queue),
            Hold::Memory(..) => {}
        });
    });
    for number in 0..heap.types() as u32 {
        if let Some(found) = heap.type_of_kind(TypeIndex(number)) {
            lead(found.address, &mut queue);
            // An extension may make one in a block of its own, to which nothing leads but objects of it (numpy's for `void`).
            if !is_of_image(found.address) && types.insert(found.address) {
                queue.push(found.address);
            }
        }
    }
    let mut out = Vec::new();
    while let Some(at) = queue.pop() {
        let Some(found) = kind_of(heap, at) else { continue };
        out.push(at);
        names.take(heap, at, &found);
        lead(found.address, &mut queue);
        heap.each_hold(at, &found, |hold| match hold {
            Hold::Object(to) => lead(to, &mut queue),
            Hold::Memory(..) => {}
        });
    }
    out
}
