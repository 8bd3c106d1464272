//! What stands out in a Python process: where the memory is, which containers and caches have most of it and what they
//! are called in the program, arenas that are nearly empty, large arrays.

mod arenas;
mod caches;
mod containers;
mod holders;
mod large;
mod places;
mod weigh;

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::{Confidence, Kind};
use crate::runtimes::cpython::CPython;
use holders::Named;
use places::Places;

/// Everything that is told of one interpreter; `written`: bytes of the process that were written, by kind.
pub(super) fn findings(python: &CPython<'_>, written: &BTreeMap<Kind, u64>) -> Vec<Finding> {
    let mut out: Vec<Finding> = arenas::findings(python, written);
    out.extend(collector_off(python));
    let Some(heap) = python.objects() else { return out };
    let candidates = containers::candidates(heap);
    let places = Places::read(python, heap);
    let containers = containers::most(heap, &places, &candidates);
    // Who holds an object takes passes over all: they are asked for together.
    let asked: Vec<Addr> = containers.iter().map(|c| c.object).chain(large::largest(&candidates)).collect();
    let named = Named::of(heap, &places, &asked);
    out.extend(containers::findings(heap, &containers, &named));
    out.extend(caches::findings(heap, &candidates));
    out.extend(large::findings(heap, &candidates, &named));
    out
}

/// Cycles of objects are never freed where the collector is off.
fn collector_off(python: &CPython<'_>) -> Option<Finding> {
    let runtime = python.runtime();
    let off = runtime.interpreters.iter().any(|interpreter| {
        let gc = runtime.view("PyInterpreterState", *interpreter).addr_of("gc");
        gc.is_ok_and(|gc| runtime.view("_gc_runtime_state", gc).u32("enabled") == Ok(0))
    });
    off.then(|| {
        let text = "The cyclic garbage collector is off (gc.disable()), so objects in reference cycles are never \
                    freed.";
        Finding::new("collector-off", Severity::Info, text, "_gc_runtime_state.enabled")
            .known(Confidence::Exact)
            .more("heapstat")
    })
}
