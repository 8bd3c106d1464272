//! A pass over all objects. Finds the static objects that they reference, the objects with names, and owned memory.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::kind_of;
use super::memory;
use super::names::KeptNames;
use super::shared::{BatchedVisit, BlockSet, TypeCache};
use crate::addr::{Addr, AddrRange, union};
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::api::{Heap as _, TypeIndex, UnwalkedRanges};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::{Heap, Reference};
use crate::runtimes::cpython::objects::{PyType, TypeForm};

#[derive(Default)]
struct SearchResult {
    /// Possible objects in program files.
    images: HashSet<Addr>,
    kinds: HashSet<TypeIndex>,
    types: Vec<Addr>,
    /// Addresses of code objects and functions.
    named: Vec<Addr>,
}

impl SearchResult {
    fn append(&mut self, other: SearchResult) {
        self.images.extend(other.images);
        self.kinds.extend(other.kinds);
        self.types.extend(other.types);
        self.named.extend(other.named);
    }
}

/// Finds the static objects in program files that other objects reference: types, names, small integers. Also collects
/// the names of all code and functions.
///
/// The second result has the owned blocks that [`memory::is_self_describing`] accepts. `visit` receives all other
/// memory owned by objects of the heap.
pub(super) fn all(
    python: &CPython<'_>,
    heap: &Heap<'_>,
    names: &mut KeptNames,
    visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
) -> (Vec<Addr>, BlockSet) {
    let images = union(python.runtime().process.modules.iter().map(|module| module.range).collect());
    let is_of_image = |at: Addr| {
        let i = images.partition_point(|range| range.end <= at);
        images.get(i).is_some_and(|range| range.contains(at)) && at.is_aligned(8)
    };
    let owned_blocks = BlockSet::new(heap.number_limit());
    let found = walk(heap, &is_of_image, &owned_blocks, visit);
    let mut types: HashSet<Addr> = found.types.iter().copied().collect();
    for found in found.kinds.iter().filter_map(|kind| heap.type_of_kind(*kind)) {
        names.of_type(heap, &found);
    }
    found.types.iter().filter_map(|at| heap.type_at(*at)).for_each(|class| names.of_type(heap, &class));
    for &at in &found.named {
        if let Some(kind) = kind_of(heap, at) {
            names.add_code(heap, at, &kind);
        }
    }
    let mut queue: Vec<Addr> = found.images.iter().copied().collect();
    let mut seen = found.images;
    let mut lead = |to: Addr, queue: &mut Vec<Addr>| {
        if is_of_image(to) && seen.insert(to) {
            queue.push(to);
        }
    };
    for number in 0..heap.types() as u32 {
        if let Some(found) = heap.type_of_kind(TypeIndex(number)) {
            lead(found.address, &mut queue);
            // An extension may create a type in a block that nothing but its objects references (numpy does for
            // `void`).
            if !is_of_image(found.address) && types.insert(found.address) {
                queue.push(found.address);
            }
        }
    }
    let mut out = Vec::new();
    while let Some(at) = queue.pop() {
        let Some(found) = kind_of(heap, at) else { continue };
        out.push(at);
        names.add_code(heap, at, &found);
        lead(found.address, &mut queue);
        heap.each_reference(at, &found, |reference| match reference {
            Reference::Object(to) => lead(to, &mut queue),
            Reference::Memory(..) => {}
        });
    }
    (out, owned_blocks)
}

/// Describes the memory that the object at `at` owns.
pub(super) fn owned(heap: &Heap<'_>, at: Addr, kind: &PyType, visit: &mut dyn FnMut(AddrRange, Meaning)) {
    heap.each_reference(at, kind, |reference| match reference {
        Reference::Memory(range, kind) => memory::describe(heap, range, kind, visit),
        Reference::Object(_) => {}
    });
}

fn walk(
    heap: &Heap<'_>,
    is_of_image: &(impl Fn(Addr) -> bool + Sync),
    owned_blocks: &BlockSet,
    visit: &mut (dyn FnMut(AddrRange, Meaning) + Send),
) -> SearchResult {
    let (visit, all) = (Mutex::new(visit), Mutex::new(SearchResult::default()));
    heap.ranges().par_iter().for_each_init(
        || (heap.walker(), TypeCache::new(heap)),
        |(walker, kinds), heap_range| {
            let (mut far, mut found) = (BatchedVisit::new(&visit), SearchResult::default());
            walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                let (Some(kind), _) = kinds.of(object.kind) else { return };
                found.kinds.insert(object.kind);
                if kind.form == TypeForm::Type {
                    found.types.push(object.addr);
                }
                if KeptNames::are_in(&kind) {
                    found.named.push(object.addr);
                }
                heap.each_reference(object.addr, &kind, |reference| match reference {
                    Reference::Object(to) => {
                        if is_of_image(to) {
                            found.images.insert(to);
                        }
                    }
                    Reference::Memory(range, kind) if memory::is_self_describing(heap, range, kind) => {
                        heap.number_of(range.start).into_iter().for_each(|number| owned_blocks.add(number));
                    }
                    Reference::Memory(range, kind) => {
                        memory::describe(heap, range, kind, &mut |bytes, meaning| far.add(bytes, meaning))
                    }
                });
            });
            all.lock().unwrap_or_else(PoisonError::into_inner).append(found);
        },
    );
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
