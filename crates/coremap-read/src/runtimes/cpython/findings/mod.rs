//! Findings about a Python process: where the memory is, which containers and caches retain most of it and under which
//! names, nearly empty arenas, large arrays.

mod arenas;
mod caches;
mod containers;
mod global_names;
mod large;
mod referrers;
mod retained_estimate;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::KindBytes;
use crate::runtimes::cpython::CPython;
use global_names::GlobalNames;
use referrers::NamedObjects;

/// All findings about one CPython. `used`: memory of the process by kind.
pub(super) fn findings(python: &CPython<'_>, used: &KindBytes) -> Vec<Finding> {
    let mut out: Vec<Finding> = arenas::findings(python, used);
    out.extend(collector_off(python));
    let Some(heap) = python.objects() else { return out };
    let candidates = containers::candidates(heap);
    let globals = GlobalNames::read(python, heap);
    let containers = containers::largest(heap, &globals, &candidates);
    // Finding referrers takes passes over all objects, so all are searched together.
    let asked: Vec<Addr> = containers.iter().map(|c| c.object).chain(large::largest(&candidates)).collect();
    let named = NamedObjects::of(heap, &globals, &asked);
    out.extend(containers::findings(heap, &containers, &named));
    out.extend(caches::findings(heap, &candidates));
    out.extend(large::findings(heap, &candidates, &named));
    out
}

/// A note if the collector is off. Reference cycles are then never freed.
fn collector_off(python: &CPython<'_>) -> Option<Finding> {
    python.is_collector_off().then(|| {
        let text = "The cyclic garbage collector is off (gc.disable()), so objects in reference cycles are never \
                    freed.";
        Finding::new("collector-off", Severity::Info, text, "_gc_runtime_state.enabled")
            .known(Confidence::Exact)
            .more("heapstat")
    })
}
