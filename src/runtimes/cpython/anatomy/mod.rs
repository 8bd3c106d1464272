//! Meaning of the bytes of Python's memory: which bytes of an object are structure, and which are the program's.
//!
//! Counts, lengths, types, flags and references are structure. Digits, characters, bytes and hashes are values. (An
//! integer is its own hash, which determines its position in a dict's table.) Texts that reports print as names stay.
//!
//! | file | contents |
//! |---|---|
//! | `forms` | objects, by the form of their type |
//! | `memory` | memory that objects own |
//! | `search` | a pass over all objects: their references into program files, and what they own |
//! | `shared` | data shared by the threads of a walk |
//! | `names` | texts and numbers that reports print |
//! | `alike` | objects that exist once per small integer and letter |
//! | `numbers` | numeric fields of C objects that are read by name |

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

/// Maximum number of bytes before an object: headers of the collector and of the debug allocator, and an instance's
/// pre-header.
const LONGEST_PREFIX: u64 = 64;

/// Describes the bytes of one CPython's objects on demand. Storing all descriptions would need a quarter of the heap's
/// size.
struct Described<'h> {
    heap: &'h Heap<'h>,
    names: Names,
    /// Owned blocks that determine their own description, by number.
    owned: Numbers,
}

impl CPython<'_> {
    /// Describes all objects, owned memory, and the allocator's structures. `shown`: texts that reports print as thread
    /// names.
    ///
    /// `visit` receives all names, wherever they are. It also receives the bytes that [`Described`] does not describe,
    /// because they are outside the block of the object that describes them. Bytes that neither describes are unknown.
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
        // Include the whole table, because the whole table determines where it begins.
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

    /// Keeps the flag that shows whether the collector is enabled.
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
    fn each_in(&self, range: AddrRange, visit: &mut dyn FnMut(AddrRange, Meaning)) {
        // An object's prefix precedes it.
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
    /// Visits names, and bytes that an object describes outside its own block.
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

    /// Describes an object or a free block. `visit` also receives whether the bytes are in the object's own block.
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

/// Type of a possible object, in the heap or in static data.
fn kind_of(heap: &Heap<'_>, at: Addr) -> Option<std::sync::Arc<crate::runtimes::cpython::objects::PyType>> {
    let kind = heap.objects().type_of(at).filter(|_| at.is_aligned(8) && !at.is_null())?;
    heap.type_at(kind)
}
