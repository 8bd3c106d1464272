//! Lists of single objects.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::addr::AddrRange;
use crate::diag::WarningCode;
use crate::limits;
use crate::process::Process;
use crate::report::{ListedObject, Name};
use crate::runtimes::api::{Heap, HeapRange, ManagedRuntime, TypeIndex, UnwalkedRanges};
use crate::sums::SaturatingAdd;
use crate::units::exact;

/// Lists objects in `range` whose type satisfies `pick`, by address. Also returns the number of objects that were not
/// listed.
pub fn list(
    process: &Process,
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    range: Option<AddrRange>,
    pick: &(dyn Fn(TypeIndex) -> bool + Sync),
) -> (Vec<ListedObject>, u64) {
    struct Listing {
        known: HashMap<u32, Option<Name>>,
        out: Vec<ListedObject>,
        more: u64,
        losses: UnwalkedRanges,
    }
    let fresh = || Listing { known: HashMap::new(), out: Vec::new(), more: 0, losses: UnwalkedRanges::default() };
    let of_part = |mut share: Listing, part: &HeapRange| {
        let Listing { known, out, more, losses } = &mut share;
        if range.is_some_and(|range| range.intersect(&part.range).is_none()) {
            return share;
        }
        heap.walker().walk(part, losses, &mut |object| {
            if range.is_some_and(|range| !range.contains(object.addr)) {
                return;
            }
            let name = known
                .entry(object.kind.0)
                .or_insert_with(|| pick(object.kind).then(|| heap.type_name(object.kind).into()));
            let Some(name) = name else { return };
            if out.len() >= limits::MAX_LISTED_OBJECTS {
                *more += 1;
                return;
            }
            out.push(ListedObject {
                address: object.addr,
                name: name.clone(),
                size: object.size,
                generation: part.generation.name,
                heap: part.heap,
            });
        });
        share
    };
    let join = |mut a: Listing, b: Listing| {
        a.out.extend(b.out);
        a.more.add_saturating(b.more);
        a.losses.bytes = a.losses.bytes.saturating_add(b.losses.bytes);
        a
    };
    let mut share = heap.ranges().par_iter().fold(fresh, of_part).reduce(fresh, join);
    if share.losses.bytes > 0 {
        if heap.in_gc() {
            process.diag.excuse(WarningCode::OF_HEAP);
        }
        process.diag.partial(
            WarningCode::HeapWalk,
            format!("{}: {} bytes of the heap could not be walked", runtime.label(), exact(share.losses.bytes)),
        );
    }
    share.out.sort_by_key(|o| o.address);
    share.more.add_saturating(share.out.len().saturating_sub(limits::MAX_LISTED_OBJECTS) as u64);
    share.out.truncate(limits::MAX_LISTED_OBJECTS);
    (share.out, share.more)
}
