//! Objects listed one by one.

use std::collections::HashMap;

use rayon::prelude::*;
use regex::Regex;

use crate::analysis::heap_notes::tell_in_gc;
use crate::limits;
use crate::managed::{Heap, Losses, ManagedRuntime, Part, TypeIndex};
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{ListedObject, Name, ObjectsReport};
use crate::session::Session;
use crate::units::exact;

/// Objects that `pick` takes, by address, and how many more there are than listed.
pub(super) fn list(
    process: &Process,
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    pick: &(dyn Fn(TypeIndex) -> bool + Sync),
) -> (Vec<ListedObject>, u64) {
    struct Share {
        known: HashMap<u32, Option<Name>>,
        out: Vec<ListedObject>,
        more: u64,
        losses: Losses,
    }
    let fresh = || Share { known: HashMap::new(), out: Vec::new(), more: 0, losses: Losses::default() };
    let of_part = |mut share: Share, part: &Part| {
        let Share { known, out, more, losses } = &mut share;
        heap.walker().walk(part, losses, &mut |object| {
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
    let join = |mut a: Share, b: Share| {
        a.out.extend(b.out);
        a.more += b.more;
        a.losses.bytes = a.losses.bytes.saturating_add(b.losses.bytes);
        a
    };
    let mut share = heap.parts().par_iter().fold(fresh, of_part).reduce(fresh, join);
    if share.losses.bytes > 0 {
        process.diag.partial(
            "heap-walk",
            format!("{}: {} bytes of the heap could not be walked", runtime.label(), exact(share.losses.bytes)),
        );
    }
    share.out.sort_by_key(|o| o.address);
    share.more += share.out.len().saturating_sub(limits::MAX_LISTED_OBJECTS) as u64;
    share.out.truncate(limits::MAX_LISTED_OBJECTS);
    (share.out, share.more)
}

/// List the objects of the types whose name matches.
pub fn objects(session: &Session<'_>, name: &Regex) -> ObjectsReport {
    session.process.target().expect_scan();
    let mut report = ObjectsReport::default();
    for runtime in session.runtimes() {
        let Some(heap) = runtime.heap() else { continue };
        let _phase = session.process.enter(Phase::References);
        tell_in_gc(session.process, runtime, heap);
        let (objects, more) = list(session.process, runtime, heap, &|kind| name.is_match(&heap.type_name(kind)));
        report.more += more;
        report.size = objects.iter().map(|o| o.size).fold(report.size, u64::saturating_add);
        report.objects.extend(objects);
    }
    report
}
