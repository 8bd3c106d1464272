//! Marks that the VM leaves on stacks: where Java called native code (JavaFrameAnchor, javaFrameAnchor.hpp), and where
//! a virtual thread is mounted (ContinuationEntry).

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::registers::Regs;
use crate::runtimes::api::{FrameAt, Mark};
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::code::Code;
use crate::runtimes::hotspot::threads::JavaThread;
use crate::runtimes::hotspot::vm::Vm;
use crate::targets::Arch;

/// The VM's classes of these marks, as shown in rows.
const ANCHOR: &str = "JavaFrameAnchor";
const CONTINUATION: &str = "ContinuationEntry";

/// `frame::entry_frame_call_wrapper_offset` of x86_64, if the VM's constants lack it.
const CALL_WRAPPER: i64 = -6;

/// Returns the marks on a thread's stack, lowest address first.
pub(super) fn marks(vm: &Vm<'_>, code: &Code<'_>, thread: &JavaThread) -> Vec<Mark> {
    if vm.process.arch() != Arch::X86_64 {
        return Vec::new();
    }
    let mut out = Vec::new();
    let java = vm.at("JavaThread", thread.address);
    let mut next = java.addr_of("_anchor").ok().and_then(|at| anchor(vm, at, thread.stack));
    // Each anchor must be above the previous one, so the loop ends.
    while let Some(regs) = next.take() {
        if out.len() >= limits::MAX_JAVA_ANCHORS || out.last().is_some_and(|last: &Mark| last.addr >= regs.sp()) {
            break;
        }
        let wrapper = wrapper(vm, code, thread, &regs);
        out.push(mark(ANCHOR, regs));
        next = wrapper.and_then(|at| anchor(vm, vm.at("JavaCallWrapper", at).addr_of("_anchor").ok()?, thread.stack));
    }
    out.extend(continuation(vm, thread));
    out.sort_by_key(|mark| mark.addr);
    out
}

fn mark(class: &'static str, regs: Regs) -> Mark {
    Mark { addr: regs.sp(), class, method: None, regs: Some(regs), exact: false, objects: Vec::new() }
}

/// Returns the registers of the frame in the anchor at `at`. `None` if the anchor is not set.
fn anchor(vm: &Vm<'_>, at: Addr, stack: Option<AddrRange>) -> Option<Regs> {
    let anchor = vm.at("JavaFrameAnchor", at);
    let sp = anchor.ptr("_last_Java_sp").ok().filter(|sp| stack.is_some_and(|stack| stack.contains(*sp)))?;
    let pc = anchor.ptr("_last_Java_pc").ok().filter(|pc| !pc.is_null());
    // If the VM did not store the address, it is the return address of the callee.
    let pc = pc.or_else(|| vm.memory.ptr(sp.checked_sub(WORD)?).ok())?;
    let mut regs = Regs::new(vm.process.arch(), pc, sp);
    let fp = anchor.ptr("_last_Java_fp").ok().filter(|fp| !fp.is_null());
    regs.set(regs.fp_number(), fp.map(Addr::get));
    Some(regs)
}

/// Returns the JavaCallWrapper of the call that entered the Java frames from `from` upwards.
fn wrapper(vm: &Vm<'_>, code: &Code<'_>, thread: &JavaThread, from: &Regs) -> Option<Addr> {
    let mut regs = from.clone();
    for _ in 0..limits::MAX_STACK_FRAMES {
        let at = FrameAt { tid: thread.tid.unwrap_or(0), regs: &regs, exact: false, stack: thread.stack };
        if code.is_call_stub(&at) {
            let words = vm.constant("frame::entry_frame_call_wrapper_offset").unwrap_or(CALL_WRAPPER);
            let slot = regs.fp()?.wrapping_offset(words.wrapping_mul(WORD as i64));
            return vm.memory.ptr(slot).ok();
        }
        // The stack pointer only rises.
        regs = code.caller_of(&at)?;
    }
    None
}

/// Returns the mark of the frame below which a virtual thread is mounted. The thread's oldest frames may still be in
/// the heap. Then only this mark leads to the frame above (continuationEntry.hpp).
fn continuation(vm: &Vm<'_>, thread: &JavaThread) -> Option<Mark> {
    let entry = vm.at("JavaThread", thread.address).ptr("_cont_entry").ok()?;
    thread.stack.filter(|stack| stack.contains(entry))?;
    let pc = vm.static_ptr("ContinuationEntry", "_return_pc").ok().filter(|pc| !pc.is_null())?;
    let mut regs = Regs::new(vm.process.arch(), pc, entry);
    let fp = vm.size_of("ContinuationEntry").ok().and_then(|size| entry.checked_add(size));
    regs.set(regs.fp_number(), fp.map(Addr::get));
    Some(mark(CONTINUATION, regs))
}
