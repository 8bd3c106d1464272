//! Follows a coroutine to what it awaits.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::cpython::frames::{PyFrame, frame_at};
use crate::runtimes::cpython::objects::Objects;
use crate::runtimes::cpython::runtime::Runtime;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// `gi_frame_state` of a running coroutine. Higher values mean that it is done (Include/internal/pycore_frame.h).
const EXECUTING: i8 = 0;

/// A coroutine, generator or asynchronous generator that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspended {
    pub(super) frame: PyFrame,
    /// The top of its operand stack. If it awaits something, this is the awaited object.
    pub(super) top: Option<Addr>,
}

/// State of the coroutine at `object`, which must be one. `None` if it is done.
pub(super) fn suspended(runtime: &Runtime<'_>, objects: &Objects<'_>, object: Addr) -> Option<Suspended> {
    let Some(shape) = objects.shape.generator else { return by_frame_object(runtime, object) };
    let mut state = [0; 1];
    runtime.memory.read(object.checked_add(shape.frame_state)?, &mut state).ok()?;
    let state = state[0].cast_signed();
    if state > EXECUTING {
        return None;
    }
    let at = object.checked_add(shape.frame)?;
    let frame = frame_at(runtime, at).ok()?;
    let top = || {
        let view = runtime.view("_PyInterpreterFrame", at);
        let variables = view.addr_of("localsplus").ok()?;
        let locals = runtime.view("PyCodeObject", frame.code).u32("co_nlocalsplus").ok()?;
        let operands = variables.checked_add(8 * u64::from(locals))?;
        let end = match view.ptr("stackpointer") {
            Ok(end) => end,
            Err(_) => variables.checked_add(8 * u64::from(view.u32("stacktop").ok()?))?,
        };
        let slot = end.checked_sub(8).filter(|slot| *slot >= operands)?;
        Some(Addr::new(runtime.memory.peek_u64(slot).ok()? & !STACK_REF_TAGS)).filter(|at| !at.is_null())
    };
    Some(Suspended { frame, top: if state == EXECUTING { None } else { top() } })
}

/// The same for 3.9 and 3.10, where the frame is a separate object.
fn by_frame_object(runtime: &Runtime<'_>, object: Addr) -> Option<Suspended> {
    let at = runtime.view("PyGenObject", object).ptr("gi_frame").ok().filter(|at| !at.is_null())?;
    let frame = frame_at(runtime, at).ok()?;
    let view = runtime.view("PyFrameObject", at);
    let operands = view.ptr("f_valuestack").ok()?;
    let top = || {
        let end = match view.ptr("f_stacktop") {
            Ok(end) => end,
            Err(_) => operands.checked_add(8 * u64::try_from(view.u32("f_stackdepth").ok()?.cast_signed()).ok()?)?,
        };
        let slot = end.checked_sub(8).filter(|slot| *slot >= operands)?;
        runtime.memory.ptr(slot).ok().filter(|at| !at.is_null())
    };
    Some(Suspended { frame, top: top() })
}
