//! What the bytes of Python's memory are: what of an object is structure, and what is the program's own.
//!
//! Counts, lengths, types, flags and references are structure. Digits, characters, bytes and hashes are values: an integer is its
//! own hash, and has its place in the table of a dict by it. Texts that answers print as names are structure too.
//!
//! | file | does |
//! |---|---|
//! | `forms` | objects, by the form of their type |
//! | `memory` | memory that objects own |
//! | `search` | all objects once: what they lead to in program files, and what they own |
//! | `shared` | what threads that walk side by side share |
//! | `names` | which texts and numbers answers print |
//! | `alike` | objects that there are one of for each small integer and each letter |
//! | `numbers` | fields of objects written in C that are read by name |

mod alike;
mod forms;
mod memory;
mod names;
mod numbers;
mod search;
mod shared;

use std::collections::HashSet;
use std::sync::Mutex;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, WORD};
use crate::runtimes::api::anatomy::{Anatomy, Meaning, Scattered};
use crate::runtimes::api::{FREE, Heap as _, Losses, Object};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use forms::Anatomist;
use names::Names;
use shared::{Kinds, Numbers, Shared};

/// No more bytes stand before an object: heads of the collector and of a debugging allocator, and what an instance has there.
const LONGEST_PREFIX: u64 = 64;

/// What the bytes of one CPython's objects are, told when they are asked for: to know it of all at once would take a quarter of the heap.
struct Described<'h> {
    heap: &'h Heap<'h>,
    names: Names,
    /// Blocks that objects own and that tell what they are by themselves, by their numbers.
    owned: Numbers,
}

impl CPython<'_> {
    /// What all objects are, what they own, and the structures of the allocator. `shown`: texts that answers print as names of threads.
    ///
    /// `visit`: names, wherever they are, and all bytes that [`Described`] does not tell of, as they lie outside of the block of
    /// who tells of them. What is visited by neither is nothing known.
    fn described(
        &self,
        shown: &HashSet<String>,
        visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
    ) -> Option<Described<'_>> {
        let heap = self.objects()?;
        for arenas in self.arenas() {
            visit(AddrRange::sized(arenas.array, arenas.array_bytes), Meaning::Structure);
        }
        self.collector(visit);
        let mut names = Names::read(self, heap, shown);
        let (mut fixed, owned) = search::all(self, heap, &mut names, visit);
        let alike = alike::all(heap, &fixed, &names);
        // All of a table, as all of it decides where it begins.
        fixed.extend(alike.iter().map(|(at, _)| *at));
        fixed.sort_unstable();
        fixed.dedup();
        let anatomy = Described { heap, names, owned };
        anatomy.far(visit);
        for &at in &fixed {
            if let Some(found) = kind_of(heap, at) {
                Anatomist::new(heap, &anatomy.names, visit).object(at, &found, at, true);
                search::owned(heap, at, &found, visit);
            }
        }
        anatomy.names.places().for_each(|place| visit(AddrRange::sized(place, WORD), Meaning::Structure));
        alike.iter().for_each(|&(at, other)| visit(AddrRange::sized(at, WORD), Meaning::Alike(other)));
        Some(anatomy)
    }

    /// Whether the collector is on.
    fn collector(&self, visit: &mut dyn FnMut(AddrRange, Meaning)) {
        let runtime = self.runtime();
        for &interpreter in &runtime.interpreters {
            let gc = runtime.view("PyInterpreterState", interpreter).addr_of("gc");
            if let Some(at) = gc.ok().and_then(|gc| runtime.view("_gc_runtime_state", gc).addr_of("enabled").ok()) {
                visit(AddrRange::sized(at, 4), Meaning::Structure);
            }
        }
    }
}

impl Anatomy for CPython<'_> {
    fn scattered<'a>(
        &'a self,
        shown: &HashSet<String>,
        visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
    ) -> Option<Box<dyn Scattered + 'a>> {
        Some(Box::new(self.described(shown, visit)?))
    }
}

impl Scattered for Described<'_> {
    /// Visit what is known of `range`, and some of what lies around it.
    fn each_in(&self, range: AddrRange, visit: &mut dyn FnMut(AddrRange, Meaning)) {
        // Before an object stands some of it.
        let around =
            AddrRange::new(range.start.saturating_sub(LONGEST_PREFIX), range.end.saturating_add(LONGEST_PREFIX));
        let mut kinds = Kinds::new(self.heap);
        let mut headers = Vec::new();
        self.heap.each_in(around, &mut |header| headers.push(header), &mut |object| {
            self.object(object, &mut kinds, &mut |bytes, part, near| {
                if near {
                    visit(bytes, part);
                }
            });
            if let Some(kind) = Heap::owned_of_kind(object.kind)
                && self.heap.number_of(object.addr).is_some_and(|number| self.owned.has(number))
            {
                memory::tell(self.heap, AddrRange::sized(object.addr, object.size), kind, visit);
            }
        });
        headers.into_iter().for_each(|header| visit(header, Meaning::Structure));
    }
}

impl Described<'_> {
    /// Visit names, and what objects tell of bytes that lie outside of their blocks.
    fn far(&self, visit: &mut (dyn FnMut(AddrRange, Meaning) + Send)) {
        let visit = Mutex::new(visit);
        self.heap.parts().par_iter().for_each_init(
            || (self.heap.walker(), Kinds::new(self.heap)),
            |(walker, kinds), part| {
                let mut found = Shared::new(&visit);
                walker.walk(part, &mut Losses::default(), &mut |object| {
                    self.object(object, kinds, &mut |bytes, part, near| {
                        if !near || matches!(part, Meaning::Name(..)) {
                            found.add(bytes, part);
                        }
                    });
                });
            },
        );
    }

    /// Tell of an object or of a free block, and of what lies in its block.
    fn object(&self, object: &Object, kinds: &mut Kinds<'_>, visit: &mut dyn FnMut(AddrRange, Meaning, bool)) {
        let (found, prefix) = kinds.of(object.kind);
        let start = object.addr.saturating_sub(prefix);
        let end = start.saturating_add(object.size);
        let mut tell = |bytes: AddrRange, part| visit(bytes, part, start <= bytes.start && bytes.end <= end);
        let mut anatomist = Anatomist::new(self.heap, &self.names, &mut tell);
        if object.kind == FREE {
            anatomist.free(object.addr, end);
        } else if let Some(found) = found {
            anatomist.object(object.addr, &found, end, false);
        }
    }
}

/// The type of what may be an object, in the heap or not.
fn kind_of(heap: &Heap<'_>, at: Addr) -> Option<std::sync::Arc<crate::runtimes::cpython::objects::PyType>> {
    let kind = heap.objects().type_of(at).filter(|_| at.is_aligned(8) && !at.is_null())?;
    heap.type_at(kind)
}
