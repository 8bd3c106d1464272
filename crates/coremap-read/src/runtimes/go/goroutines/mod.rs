//! Goroutines: their state, their stacks, and what they wait for.
//!
//! | file | contents |
//! |---|---|
//! | `list` | all goroutines and threads |
//! | `unwind` | stacks of goroutines |
//! | `channels`, `semaphores`, `waits` | what goroutines wait for |
//! | `holders` | goroutines that likely hold a lock |
//! | `facts` | goroutines and their waits, for findings |

mod channels;
mod facts;
mod holders;
mod list;
mod semaphores;
mod unwind;
mod waits;

pub(super) use channels::Channel;
pub(super) use list::{Goroutine, List};

use crate::process::Process;
use crate::runtimes::api::{Activation, LightThread};
use crate::runtimes::go::code::Code;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::Types;
use unwind::PlacedFrame;
use waits::Waits;

/// Name of goroutines that the runtime started for itself.
const SYSTEM: &str = "(runtime)";

/// First functions of goroutines that the runtime starts to run the program's code.
const NOT_SYSTEM: [&str; 5] =
    ["runtime.main", "runtime.handleAsyncEvent", "runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups"];

/// Visits all goroutines that have not ended, by number.
pub(super) fn each(
    runtime: &Runtime<'_>,
    types: &Types<'_>,
    code: &Code<'_>,
    list: &List,
    visit: &mut dyn FnMut(LightThread),
) {
    let waits = Waits::new(runtime, types, list);
    for g in &list.all {
        let (frames, missing) = unwind::frames(runtime.process, code, list, g);
        let waited = waits.of(g, names(&frames));
        visit(LightThread {
            address: g.at,
            id: Some(g.id),
            name: is_system(code, g).then(|| SYSTEM.to_owned()),
            state: Some(g.state),
            carrier: list.thread_of(g).map(|m| m.tid).filter(|tid| *tid != 0),
            wait: waits.row(g, &waited),
            created_by: created_by(code, g),
            frames: unwind::light(code, &frames),
            missing,
        });
    }
}

/// Functions on the stack of a goroutine, innermost first.
pub(super) fn frames_of(process: &Process, code: &Code<'_>, list: &List, g: &Goroutine) -> Vec<Activation> {
    let (frames, _) = unwind::frames(process, code, list, g);
    frames.iter().flat_map(|frame| frame.place.all.iter().map(|(activation, _)| activation.clone())).collect()
}

/// Names of the functions of a stack, innermost first.
fn names(frames: &[PlacedFrame]) -> impl Iterator<Item = &str> {
    frames.iter().flat_map(|frame| frame.place.all.iter().map(|(activation, _)| activation.method.name.as_str()))
}

/// Whether the runtime started the goroutine for itself (`isSystemGoroutine`).
fn is_system(code: &Code<'_>, g: &Goroutine) -> bool {
    let first = code.functions().and_then(|functions| functions.at(g.startpc));
    first.is_some_and(|func| func.name.starts_with("runtime.") && !NOT_SYSTEM.contains(&&*func.name))
}

/// The function with the `go` statement that started a goroutine.
fn created_by(code: &Code<'_>, g: &Goroutine) -> Option<Activation> {
    let place = (!g.gopc.is_null()).then(|| code.place(g.gopc, false))??;
    place.all.first().map(|(activation, _)| activation.clone())
}
