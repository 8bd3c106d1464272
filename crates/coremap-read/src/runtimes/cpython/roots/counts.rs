//! Objects whose reference count exceeds the references found. C code references them from unknown memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{FROM_C, IMMORTAL, STATIC};
use crate::addr::Addr;
use crate::runtimes::api::{Heap as _, Root, UnwalkedRanges};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::TypeForm;

/// Reference counts from this one on mark immortal objects, which are never freed. `_Py_IMMORTAL_INITIAL_REFCNT` is
/// 2^32 - 1 in 3.12 and 3.13, and 3 << 30 in 3.14; the marks begin at half of that. Up to 3.11 there are none.
const NEVER_FREED: u64 = 1 << 30;

/// First minor version with immortal objects (PEP 683).
const IMMORTAL_SINCE: u32 = 12;

const BATCH: usize = 256;

/// Adds roots for objects with references from unknown memory, and removes known roots that are not real references.
pub(super) fn add_unfound(heap: &Heap<'_>, known: &mut Vec<Root>) {
    let counts: Vec<AtomicU32> = (0..heap.number_limit()).map(|_| AtomicU32::new(0)).collect();
    let count = |at: Addr| {
        if let Some(counter) = heap.number_of(at).and_then(|number| counts.get(number)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    heap.ranges().par_iter().for_each_init(
        || (heap.walker(), heap.reader(), Vec::new()),
        |(walker, reader, batch), heap_range| {
            walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                let mut from = Some(0);
                while let Some(place) = from {
                    from = reader.targets(object.addr.get(), place, BATCH, batch);
                    batch.iter().for_each(|(_, to)| count(Addr::new(*to)));
                }
            });
        },
    );
    known.retain(|root| {
        let inside = heap.number_of(root.object).and_then(|number| counts.get(number));
        !inside.is_some_and(|inside| is_left_over(heap, root, u64::from(inside.load(Ordering::Relaxed))))
    });
    // A root is a reference too. One that was found conservatively may be chance.
    let mut found_roots: HashMap<Addr, u32> = HashMap::new();
    known.iter().for_each(|root| *found_roots.entry(root.object).or_insert(0) += 1);
    let refcnt = heap.objects().shape.refcnt;
    let never_freed = if heap.runtime().minor() >= IMMORTAL_SINCE { NEVER_FREED } else { u64::MAX };
    let found = heap.ranges().par_iter().map_init(
        || heap.walker(),
        |walker, heap_range| {
            let mut out = Vec::new();
            walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                // Blocks without a known owner belong to the interpreter or to C code.
                if Heap::is_other(object.kind) {
                    out.push(Root::new(FROM_C, object.addr, object.addr));
                    return;
                }
                let Some(number) = heap.number_of(object.addr).filter(|_| heap.is_object(object.addr)) else { return };
                let place = object.addr.wrapping_add(refcnt);
                let own = heap.refcnt(object.addr);
                let inside = counts.get(number).map_or(0, |c| u64::from(c.load(Ordering::Relaxed)));
                let outside = found_roots.get(&object.addr).map_or(0, |n| u64::from(*n));
                if own >= never_freed {
                    out.push(Root::new(IMMORTAL, place, object.addr));
                } else if own > inside.saturating_add(outside) {
                    out.push(Root::new(FROM_C, place, object.addr));
                }
            });
            out
        },
    );
    let found: Vec<Root> = found.flatten().collect();
    known.extend(found);
}

/// Whether a root is a stale entry in the interpreter's free list of dicts or lists (`free_list`, a static array up to
/// 3.9). The object was taken from there and reused; all counted references to it are from `inside` the heap.
fn is_left_over(heap: &Heap<'_>, root: &Root, inside: u64) -> bool {
    let of_the_interpreter = root.kind == STATIC && heap.runtime().range.contains(root.address);
    of_the_interpreter
        && heap.refcnt(root.object) <= inside
        && heap.type_of(root.object).is_some_and(|kind| matches!(kind.form, TypeForm::Dict | TypeForm::List))
}
