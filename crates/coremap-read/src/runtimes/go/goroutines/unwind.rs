//! Stacks of goroutines, by the tables of frame sizes.
//!
//! A return address is at the stack pointer plus the frame's size. A goroutine that runs has its registers in its
//! thread. If a signal interrupted it, the thread is on the stack for signals (gsignal).
//!
//! Source: runtime/traceback.go.

use std::sync::Arc;

use super::list::{Goroutine, List, RUNNING};
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::api::LightFrame;
use crate::runtimes::go::code::{Code, Place, handles_signals, saved_registers};

/// Why frames are missing.
pub(super) const NO_TABLES: &str = "the tables of the program's functions are not in the core";
const NO_FUNCTION: &str = "the next code address is in no Go function";
const NO_SIZE: &str = "the frame's size is unknown";
const LEFT_STACK: &str = "the next frame is outside of the goroutine's stack";
const UNREADABLE: &str = "the stack is not in the core";
const TOO_MANY: &str = "more frames than coremap follows";

/// A frame: one function of the machine code, with those inlined into it.
pub(super) struct PlacedFrame {
    pub(super) pc: Addr,
    pub(super) sp: Addr,
    pub(super) place: Arc<Place>,
}

/// Start of a stack walk.
#[derive(Clone, Copy)]
struct Start {
    pc: Addr,
    sp: Addr,
    /// Whether execution was interrupted there, so that the address is no return address.
    exact: bool,
}

/// Returns the frames of a goroutine, innermost first, and why more are missing.
pub(super) fn frames(
    process: &Process,
    code: &Code<'_>,
    list: &List,
    g: &Goroutine,
) -> (Vec<PlacedFrame>, Option<&'static str>) {
    if code.functions().is_none() {
        return (Vec::new(), Some(NO_TABLES));
    }
    let start = start(process, code, list, g);
    walk(&process.memory, code, start, g.stack, |_| false)
}

fn start(process: &Process, code: &Code<'_>, list: &List, g: &Goroutine) -> Start {
    let left = Start { pc: g.pc, sp: g.sp, exact: false };
    let running = || {
        let m = list.thread_of(g).filter(|_| g.status == RUNNING)?;
        let thread = process.threads().iter().find(|thread| thread.tid == m.tid)?;
        let (pc, sp) = (thread.registers.ip(), thread.registers.sp());
        if g.stack.contains(sp) {
            return Some(Start { pc, sp, exact: true });
        }
        interrupted(&process.memory, code, m.gsignal, pc, sp).filter(|start| g.stack.contains(start.sp))
    };
    running().unwrap_or(left)
}

/// Returns where a signal interrupted a thread that now runs on its signal stack.
fn interrupted(memory: &dyn Memory, code: &Code<'_>, gsignal: Addr, pc: Addr, sp: Addr) -> Option<Start> {
    let stack = AddrRange::new(memory.ptr(gsignal).ok()?, memory.ptr(gsignal.checked_add(8)?).ok()?);
    if !stack.contains(sp) {
        return None;
    }
    let is_handler = |place: &Place| handles_signals(&place.func);
    let (frames, _) = walk(memory, code, Start { pc, sp, exact: true }, stack, is_handler);
    let last = frames.last().filter(|frame| is_handler(&frame.place))?;
    let regs = saved_registers(memory, last.sp, last.place.size?)?;
    Some(Start { pc: regs.ip(), sp: regs.sp(), exact: true })
}

/// Walks a stack until its first function, or until `is_last`.
fn walk(
    memory: &dyn Memory,
    code: &Code<'_>,
    start: Start,
    stack: AddrRange,
    is_last: impl Fn(&Place) -> bool,
) -> (Vec<PlacedFrame>, Option<&'static str>) {
    let Start { mut pc, mut sp, mut exact } = start;
    let mut out = Vec::new();
    for _ in 0..limits::MAX_GO_FRAMES {
        let Some(place) = code.place(pc, exact) else { return (out, Some(NO_FUNCTION)) };
        let (size, ended) = (place.size, place.top || is_last(&place));
        exact = Code::interrupts(&place.func);
        out.push(PlacedFrame { pc, sp, place });
        if ended {
            return (out, None);
        }
        let Some(size) = size else { return (out, Some(NO_SIZE)) };
        let Some(slot) = sp.checked_add(size).filter(|slot| stack.contains(*slot)) else {
            return (out, Some(LEFT_STACK));
        };
        let Ok(caller) = memory.ptr(slot) else { return (out, Some(UNREADABLE)) };
        (pc, sp) = (caller, slot.saturating_add(8));
    }
    (out, Some(TOO_MANY))
}

/// Converts frames to the form that all runtimes use, without the functions that Go's own traces leave out.
pub(super) fn light(code: &Code<'_>, frames: &[PlacedFrame]) -> Vec<LightFrame> {
    let rows = frames.iter().flat_map(|frame| {
        let shown = frame.place.all.iter().filter(|(_, id)| !code.is_wrapper(*id));
        shown.map(|(activation, _)| LightFrame { ip: frame.pc, sp: frame.sp, activation: activation.clone() })
    });
    rows.collect()
}
