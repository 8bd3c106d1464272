//! Goroutines: their state, their stacks, and what they wait for.

mod list;
mod unwind;

pub(super) use list::{Goroutine, List};

use crate::process::Process;
use crate::runtimes::api::LightThread;
use crate::runtimes::go::code::Code;

/// Name of goroutines that the runtime started for itself.
const SYSTEM: &str = "(runtime)";

/// First functions of goroutines that the runtime starts, and that run the program's code.
const NOT_SYSTEM: [&str; 5] =
    ["runtime.main", "runtime.handleAsyncEvent", "runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups"];

/// Visits all goroutines that have not ended, by number.
pub(super) fn each(process: &Process, code: &Code<'_>, list: &List, visit: &mut dyn FnMut(LightThread)) {
    for g in &list.all {
        let (frames, missing) = unwind::frames(process, code, list, g);
        visit(LightThread {
            address: g.at,
            id: Some(g.id),
            name: is_system(code, g).then(|| SYSTEM.to_owned()),
            state: Some(g.state),
            carrier: list.thread_of(g).map(|m| m.tid).filter(|tid| *tid != 0),
            wait: None,
            created_by: created_by(code, g),
            frames: unwind::light(code, &frames),
            missing,
        });
    }
}

/// Whether the runtime started it for itself (`isSystemGoroutine`).
pub(super) fn is_system(code: &Code<'_>, g: &Goroutine) -> bool {
    let first = code.functions().and_then(|functions| functions.at(g.startpc));
    first.is_some_and(|func| func.name.starts_with("runtime.") && !NOT_SYSTEM.contains(&&*func.name))
}

/// The function with the `go` statement that started a goroutine.
pub(super) fn created_by(code: &Code<'_>, g: &Goroutine) -> Option<crate::runtimes::api::Activation> {
    let place = (!g.gopc.is_null()).then(|| code.place(g.gopc, false))??;
    // Go names the function whose code has the statement, inlined or not.
    place.all.first().map(|(activation, _)| activation.clone())
}
