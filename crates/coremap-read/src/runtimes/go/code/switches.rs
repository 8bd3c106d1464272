//! Functions that change the stack: calls on the scheduler's stack, and signal handlers.
//!
//! Sources: runtime/asm_amd64.s (`systemstack`, `mcall`, `morestack`), sys_linux_amd64.s (`sigtramp`), and the kernel's
//! `ucontext` for x86_64, which it stores behind the handler's return address.

use super::{Func, Place};
use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::registers::{Regs, x86_64};
use crate::runtimes::api::FrameAt;
use crate::runtimes::go::goroutines::List;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::targets::Arch;

/// The function that runs another one on the scheduler's stack (`g0`) and returns to its goroutine.
const CALLS: &str = "runtime.systemstack";

/// Functions that leave their goroutine for the scheduler's stack.
const LEAVES: [&str; 2] = ["runtime.mcall", "runtime.morestack"];

/// First functions of Go's signal handlers.
const SIGNAL_HANDLERS: [&str; 2] = ["runtime.sigtramp", "runtime.cgoSigtramp"];

/// Offsets of registers in a `ucontext`: rbp, rsp, rip.
const UC_RBP: u64 = 40 + 8 * 10;
const UC_RSP: u64 = 40 + 8 * 15;
const UC_RIP: u64 = 40 + 8 * 16;

/// Whether a function's caller is on another stack.
pub(super) fn switches(func: &Func) -> bool {
    &*func.name == CALLS || LEAVES.contains(&&*func.name)
}

/// Whether this is the first function of a signal handler. Its caller is the code that the signal interrupted.
pub(in crate::runtimes::go) fn handles_signals(func: &Func) -> bool {
    SIGNAL_HANDLERS.contains(&&*func.name)
}

/// Registers that the kernel stored for a handler whose frame is at `sp` and has `size` bytes.
pub(in crate::runtimes::go) fn saved_registers(memory: &dyn Memory, sp: Addr, size: u64) -> Option<Regs> {
    // The return address is followed by the context.
    let context = sp.checked_add(size)?.checked_add(8)?;
    let word = |offset: u64| memory.u64(context.checked_add(offset)?).ok();
    let (ip, sp) = (Addr::new(word(UC_RIP)?), Addr::new(word(UC_RSP)?));
    if ip.is_null() || sp.is_null() {
        return None;
    }
    let mut regs = Regs::new(Arch::X86_64, ip, sp);
    regs.set(x86_64::RBP, word(UC_RBP));
    Some(regs)
}

/// Returns the registers at the time of a signal, from the frame of its handler.
pub(super) fn context(runtime: &Runtime<'_>, at: &FrameAt<'_>, place: &Place) -> Option<Regs> {
    saved_registers(runtime.memory(), at.regs.sp(), place.size?)
}

/// Registers of the goroutine that called this function, if its thread still runs it.
pub(super) fn origin(runtime: &Runtime<'_>, list: &List, at: &FrameAt<'_>, place: &Place) -> Option<Regs> {
    if &*place.func.name != CALLS {
        return None;
    }
    let m = list.threads.iter().find(|m| m.tid == at.tid)?;
    let (memory, shape) = (runtime.memory(), runtime.shape());
    let g = Record::read(memory, m.current, shape.g.size).filter(|_| !m.current.is_null())?;
    let sched = shape.g.sched;
    let (ip, sp) = (g.ptr(sched + shape.gobuf.pc), g.ptr(sched + shape.gobuf.sp));
    let stack = AddrRange::new(g.ptr(0), g.ptr(8));
    if !stack.contains(sp) || stack.contains(at.regs.sp()) || !runtime.is_code(ip) {
        return None;
    }
    let mut regs = Regs::new(at.regs.arch(), ip, sp);
    regs.set(x86_64::RBP, Some(g.u64(sched + shape.gobuf.bp)));
    Some(regs)
}
