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
//! | `interned` | objects that exist once per small integer and letter |
//! | `numeric_fields` | numeric fields of C objects that are read by name |

mod forms;
mod interned;
mod memory;
mod names;
mod numeric_fields;
mod search;
mod shared;

use std::collections::HashSet;
use std::sync::Mutex;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, WORD};
use crate::runtimes::api::anatomy::{Anatomy, Meaning, Scattered};
use crate::runtimes::api::{FREE, Heap as _, Object, UnwalkedRanges};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use forms::ObjectDescriber;
use names::KeptNames;
use shared::{BatchedVisit, BlockSet, TypeCache};

/// Maximum number of bytes before an object: headers of the collector and of the debug allocator, and an instance's
/// pre-header.
const LONGEST_PREFIX: u64 = 64;

/// Describes the bytes of one CPython's objects on demand. Storing all descriptions would need a quarter of the heap's
/// size.
struct ScatteredObjects<'h> {
    heap: &'h Heap<'h>,
    names: KeptNames,
    /// Owned blocks that determine their own description, by number.
    owned: BlockSet,
}

impl CPython<'_> {
    /// Describes all objects, owned memory, and the allocator's structures. `shown`: texts that reports print as thread
    /// names.
    ///
    /// `visit` receives all names, wherever they are. It also receives the bytes that [`ScatteredObjects`] does not
    /// describe, because they are outside the block of the object that describes them. Bytes that neither describes are
    /// unknown.
    fn scattered_objects(
        &self,
        shown: &HashSet<String>,
        visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
    ) -> Option<ScatteredObjects<'_>> {
        let heap = self.objects()?;
        for arenas in self.arenas() {
            visit(AddrRange::sized(arenas.array, arenas.array_bytes), Meaning::Structure);
        }
        self.collector(visit);
        let mut names = KeptNames::read(self, heap, shown);
        let (mut fixed, owned) = search::all(self, heap, &mut names, visit);
        let interned = interned::all(heap, &fixed, &names);
        // Include the whole table, because the whole table determines where it begins.
        fixed.extend(interned.iter().map(|(at, _)| *at));
        fixed.sort_unstable();
        fixed.dedup();
        let anatomy = ScatteredObjects { heap, names, owned };
        anatomy.describe_outside(visit);
        for &at in &fixed {
            if let Some(found) = kind_of(heap, at) {
                ObjectDescriber::new(heap, &anatomy.names, visit).object(at, &found, at, true);
                search::owned(heap, at, &found, visit);
            }
        }
        anatomy.names.name_refs().for_each(|place| visit(AddrRange::sized(place, WORD), Meaning::Structure));
        interned.iter().for_each(|&(at, other)| visit(AddrRange::sized(at, WORD), Meaning::Interchangeable(other)));
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
        Some(Box::new(self.scattered_objects(shown, visit)?))
    }
}

impl Scattered for ScatteredObjects<'_> {
    fn each_in(&self, range: AddrRange, visit: &mut dyn FnMut(AddrRange, Meaning)) {
        // An object's prefix precedes it.
        let around =
            AddrRange::new(range.start.saturating_sub(LONGEST_PREFIX), range.end.saturating_add(LONGEST_PREFIX));
        let mut types = TypeCache::new(self.heap);
        let mut headers = Vec::new();
        self.heap.each_in(around, &mut |header| headers.push(header), &mut |object| {
            self.object(object, &mut types, &mut |bytes, meaning, near| {
                if near {
                    visit(bytes, meaning);
                }
            });
            if let Some(kind) = Heap::owned_of_kind(object.kind)
                && self.heap.number_of(object.addr).is_some_and(|number| self.owned.has(number))
            {
                memory::describe(self.heap, AddrRange::sized(object.addr, object.size), kind, visit);
            }
        });
        headers.into_iter().for_each(|header| visit(header, Meaning::Structure));
    }
}

impl ScatteredObjects<'_> {
    /// Visits names, and bytes that an object describes outside its own block.
    fn describe_outside(&self, visit: &mut (dyn FnMut(AddrRange, Meaning) + Send)) {
        let visit = Mutex::new(visit);
        self.heap.ranges().par_iter().for_each_init(
            || (self.heap.walker(), TypeCache::new(self.heap)),
            |(walker, types), heap_range| {
                let mut found = BatchedVisit::new(&visit);
                walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                    self.object(object, types, &mut |bytes, meaning, near| {
                        if !near || matches!(meaning, Meaning::Name(..)) {
                            found.add(bytes, meaning);
                        }
                    });
                });
            },
        );
    }

    /// Describes an object or a free block. `visit` also receives whether the bytes are in the object's own block.
    fn object(&self, object: &Object, types: &mut TypeCache<'_>, visit: &mut dyn FnMut(AddrRange, Meaning, bool)) {
        let (found, prefix) = types.of(object.kind);
        let start = object.addr.saturating_sub(prefix);
        let end = start.saturating_add(object.size);
        let mut describe = |bytes: AddrRange, meaning| visit(bytes, meaning, start <= bytes.start && bytes.end <= end);
        let mut describer = ObjectDescriber::new(self.heap, &self.names, &mut describe);
        if object.kind == FREE {
            describer.free(object.addr, end);
        } else if let Some(found) = found {
            describer.object(object.addr, &found, end, false);
        }
    }
}

/// Type of a possible object, in the heap or in static data.
fn kind_of(heap: &Heap<'_>, at: Addr) -> Option<std::sync::Arc<crate::runtimes::cpython::objects::PyType>> {
    let kind = heap.objects().type_of(at).filter(|_| at.is_aligned(8) && !at.is_null())?;
    heap.type_at(kind)
}
