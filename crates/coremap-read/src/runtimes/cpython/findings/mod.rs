//! Findings about a Python process: where the memory is, which containers and caches retain most of it and under which
//! names, nearly empty arenas, large arrays.

mod arenas;
mod caches;
mod containers;
mod global_names;
mod large;
mod namespaces;
mod referrers;

pub(super) use arenas::is_nearly_empty;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::{KindBytes, RetainedSizes};
use crate::runtimes::cpython::CPython;
use global_names::GlobalNames;
use referrers::NamedObjects;

/// All findings about one CPython. `used`: memory of the process by kind. `retained`: retained sizes of its objects.
/// Without them there are no findings about containers and caches.
pub(super) fn findings(python: &CPython<'_>, used: &KindBytes, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
    let mut out: Vec<Finding> = arenas::findings(python, used);
    out.extend(collector_off(python));
    let Some(heap) = python.objects() else { return out };
    let candidates = containers::candidates(heap);
    let globals = GlobalNames::read(python, heap, &candidates);
    let containers = retained.map(|sizes| containers::largest(heap, &globals, sizes)).unwrap_or_default();
    // Finding referrers takes passes over all objects, so all are searched together.
    let asked: Vec<Addr> = containers.iter().map(|c| c.object).chain(large::largest(&candidates)).collect();
    let named = NamedObjects::of(heap, &globals, &asked);
    if let Some(sizes) = retained {
        out.extend(containers::findings(heap, &containers, &named, sizes));
        out.extend(caches::findings(heap, &candidates, sizes));
    }
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
