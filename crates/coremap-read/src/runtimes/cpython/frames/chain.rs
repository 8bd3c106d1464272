//! The Python frames of a thread, grouped into runs. All frames of a run are executed by one C frame.

use std::collections::HashMap;

use super::data_stack::Bridge;
use crate::addr::Addr;
use crate::layout::ViewError;
use crate::memory::walk::{Broken, Walks};
use crate::runtimes::cpython::runtime::{PyError, Runtime, follow};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// Values of `_PyInterpreterFrame.owner` (Include/internal/pycore_frame.h, pycore_interpframe_structs.h).
mod owner {
    /// The frame is inside a generator or coroutine.
    pub(super) const GENERATOR: u8 = 1;
    /// This value and higher ones mark a shim: a frame without code that the evaluation loop has on the C stack. Since
    /// 3.12.
    pub(super) const C_STACK: u8 = 3;
}

/// Size of a code unit in bytes.
const UNIT: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::cpython) struct PyFrame {
    /// Address of the PyFrameObject or `_PyInterpreterFrame`.
    pub(in crate::runtimes::cpython) address: Addr,
    pub(in crate::runtimes::cpython) code: Addr,
    /// Offset of the current instruction in bytes. Negative before the first one.
    pub(in crate::runtimes::cpython) offset: i64,
}

impl PyFrame {
    /// Address of the first local variable.
    pub(in crate::runtimes::cpython) fn variables(&self, runtime: &Runtime<'_>) -> Option<Addr> {
        let new = runtime.view("_PyInterpreterFrame", self.address).addr_of("localsplus");
        new.or_else(|_| runtime.view("PyFrameObject", self.address).addr_of("f_localsplus")).ok()
    }
}

/// Frames that one C frame executes, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtimes::cpython) struct PyRun {
    /// An address inside that C frame. `None` if unknown.
    pub(in crate::runtimes::cpython) anchor: Option<Addr>,
    pub(in crate::runtimes::cpython) frames: Vec<PyFrame>,
}

#[derive(Debug, Default)]
pub(in crate::runtimes::cpython) struct PyStack {
    /// Runs, newest first.
    pub(in crate::runtimes::cpython) runs: Vec<PyRun>,
    /// Why the list of frames ends early. `None` if it is complete.
    pub(in crate::runtimes::cpython) ended: Option<PyError>,
    /// Whether missing links were bridged by the order of frames in memory. Frames of generators may be missing then.
    pub(in crate::runtimes::cpython) bridged: bool,
}

/// Reads the frames of the thread with this thread state.
pub(in crate::runtimes::cpython) fn stack(runtime: &Runtime<'_>, walks: &Walks, tstate: Addr) -> PyStack {
    let view = runtime.view("PyThreadState", tstate);
    let mut out = Vec::new();
    let ended = if view.has("frame") {
        let frames = by_objects(runtime, walks, tstate, &mut out);
        frames.and_then(|()| anchor_by_cframes(runtime, walks, tstate, &mut out)).map(|()| false)
    } else {
        by_interpreter_frames(runtime, walks, tstate, &mut out)
    };
    out.retain(|run| !run.frames.is_empty());
    let bridged = ended.as_ref().is_ok_and(|bridged| *bridged);
    PyStack { runs: out, ended: ended.err(), bridged }
}

/// Reads one frame, without its callers.
pub(in crate::runtimes::cpython) fn frame_at(runtime: &Runtime<'_>, frame: Addr) -> Result<PyFrame, ViewError> {
    let view = runtime.view("_PyInterpreterFrame", frame);
    if !view.has("previous") {
        return frame_object(runtime, frame);
    }
    let field = |new, old| if view.has(new) { new } else { old };
    let code = view.ptr(field("f_executable", "f_code"))?;
    let code = Addr::new(code.get() & !STACK_REF_TAGS);
    let at = view.ptr(field("instr_ptr", "prev_instr"))?;
    let start = runtime.view("PyCodeObject", code).addr_of("co_code_adaptive")?;
    let offset = if at >= start { at.since(start) as i64 } else { -1 };
    Ok(PyFrame { address: frame, code, offset })
}

/// Reads a PyFrameObject of 3.9 or 3.10.
fn frame_object(runtime: &Runtime<'_>, frame: Addr) -> Result<PyFrame, ViewError> {
    let view = runtime.view("PyFrameObject", frame);
    let last = i64::from(view.u32("f_lasti")?.cast_signed());
    // `f_lasti` counts bytes in 3.9 and code units in 3.10.
    let offset = if runtime.minor() >= 10 { last.saturating_mul(UNIT as i64) } else { last };
    Ok(PyFrame { address: frame, code: view.ptr("f_code")?, offset })
}

fn by_objects(runtime: &Runtime<'_>, walks: &Walks, tstate: Addr, out: &mut Vec<PyRun>) -> Result<(), PyError> {
    let first = runtime.view("PyThreadState", tstate).ptr("frame")?;
    let next = |at: Addr| runtime.view("PyFrameObject", at).ptr("f_back");
    let mut bad = None;
    let walked = follow(walks, first, next, |at| match frame_object(runtime, at) {
        Ok(frame) => out.push(PyRun { anchor: None, frames: vec![frame] }),
        Err(e) => bad = Some(Broken::Unreadable(at, e)),
    });
    walked.and_then(|()| bad.map_or(Ok(()), Err)).map_err(PyError::list("frames"))
}

/// Sets the anchors of runs. In 3.10 each C frame of the evaluation loop has a CFrame.
fn anchor_by_cframes(runtime: &Runtime<'_>, walks: &Walks, tstate: Addr, runs: &mut [PyRun]) -> Result<(), PyError> {
    let view = runtime.view("PyThreadState", tstate);
    if !view.has("cframe") {
        return Ok(());
    }
    let mut all = Vec::new();
    each_cframe(runtime, walks, tstate, |at| all.push(at)).map_err(PyError::list("CFrames"))?;
    // The newest CFrame may have no Python frame yet, so match from the oldest.
    for (run, at) in runs.iter_mut().rev().zip(all.into_iter().rev()) {
        run.anchor = Some(at);
    }
    Ok(())
}

/// Visits the CFrames of a thread, newest first, without the one that the thread state contains (`root_cframe`). That
/// one ends the list, but not by a null pointer: 3.10 never sets its `previous`.
fn each_cframe(
    runtime: &Runtime<'_>,
    walks: &Walks,
    tstate: Addr,
    visit: impl FnMut(Addr),
) -> Result<(), Broken<ViewError>> {
    let thread = runtime.view("PyThreadState", tstate);
    let first = thread.ptr("cframe").map_err(|e| Broken::Unreadable(tstate, e))?;
    let root = thread.addr_of("root_cframe").ok();
    let or_end = |at: Addr| if Some(at) == root { Addr::NULL } else { at };
    follow(walks, or_end(first), |at| Ok(or_end(runtime.view("CFrame", at).ptr("previous")?)), visit)
}

fn by_interpreter_frames(
    runtime: &Runtime<'_>,
    walks: &Walks,
    tstate: Addr,
    out: &mut Vec<PyRun>,
) -> Result<bool, PyError> {
    let thread = runtime.view("PyThreadState", tstate);
    let (mut at, cframes) = if thread.has("current_frame") {
        (thread.ptr("current_frame")?, HashMap::new())
    } else {
        let cframe = thread.ptr("cframe")?;
        // May fail: the CFrame may be on a stack that is not in the core.
        let current = runtime.view("CFrame", cframe).ptr("current_frame").unwrap_or(Addr::NULL);
        (current, cframes(runtime, walks, tstate))
    };
    let mut bridge = Bridge::new(runtime, walks, tstate);
    if at.is_null() {
        at = bridge.next().unwrap_or(at);
    }
    let mut run = PyRun::default();
    let mut walk = walks.begin();
    while !at.is_null() {
        walk.step(at).map_err(|stop| PyError::list("frames")(stop.into()))?;
        let next = runtime.view("_PyInterpreterFrame", at).ptr("previous");
        match chain_entry(runtime, at).and_then(|found| Ok((found, next?))) {
            Ok((ChainEntry::Shim, next)) => {
                run.anchor = Some(at);
                out.push(std::mem::take(&mut run));
                at = next;
            }
            Ok((ChainEntry::Frame { frame, begun, entry }, next)) => {
                bridge.pass(at);
                if let Some(at) = cframes.get(&frame.address) {
                    run.anchor = Some(*at);
                }
                run.frames.extend(begun.then_some(frame));
                if entry {
                    out.push(std::mem::take(&mut run));
                }
                at = next;
            }
            Err(e) => {
                out.push(std::mem::take(&mut run));
                at = bridge.next().ok_or_else(|| PyError::list("frames")(Broken::Unreadable(at, e)))?;
            }
        }
    }
    out.push(run);
    Ok(bridge.was_used())
}

enum ChainEntry {
    /// A frame without code on the C stack. It ends a run.
    Shim,
    Frame {
        frame: PyFrame,
        /// Whether the frame has reached its first traceable instruction, so that a traceback would show it.
        begun: bool,
        /// Whether C code called it. Only in 3.11.
        entry: bool,
    },
}

fn chain_entry(runtime: &Runtime<'_>, at: Addr) -> Result<ChainEntry, ViewError> {
    let view = runtime.view("_PyInterpreterFrame", at);
    let owner = view.u8("owner")?;
    if owner >= owner::C_STACK {
        return Ok(ChainEntry::Shim);
    }
    let frame = frame_at(runtime, at)?;
    // As in `_PyFrame_IsIncomplete`: skip frames that have not begun, and those that call `__init__` for a type.
    let first = runtime.view("PyCodeObject", frame.code).u32("_co_firsttraceable")?;
    let begun = owner == owner::GENERATOR || frame.offset >= i64::from(first).saturating_mul(UNIT as i64);
    let entry = view.has("is_entry") && view.u8("is_entry")? != 0;
    Ok(ChainEntry::Frame { frame, begun, entry })
}

/// `_PyCFrame`s by the frame that is current in each (3.11, 3.12). Incomplete if their list breaks off.
fn cframes(runtime: &Runtime<'_>, walks: &Walks, tstate: Addr) -> HashMap<Addr, Addr> {
    let mut out = HashMap::new();
    let walked = each_cframe(runtime, walks, tstate, |at| {
        if let Ok(frame) = runtime.view("CFrame", at).ptr("current_frame") {
            out.insert(frame, at);
        }
    });
    // If this failed, frames are still reported, but without anchors.
    drop(walked);
    out
}
