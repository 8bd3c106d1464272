//! The runtime's explicit Frames: records that its code leaves on the stack where managed code is left or entered. The
//! Thread has a list of them.
//!
//! Up to .NET 9 a Frame's class follows from its vtable, whose addresses are in g_dacTable (inc/vptr_list.h). From .NET
//! 10 on the class is a number.
//!
//! Saved registers are variables of the program, unless they are addresses. So `peek_u64` reads them, which does not
//! record them as structures: `scrub` keeps only those that point into mapped memory.
//!
//! Sources: docs/design/datacontracts/StackWalk.md; src/coreclr/vm/frames.h; vm/amd64: cgencpu.h (TransitionBlock,
//! CalleeSavedRegisters), gmscpu.h (MachState).

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Stop, Walks};
use crate::phase::Phase;
use crate::registers::Regs;
use crate::runtimes::api::{Mark, ProtectedRef};
use crate::runtimes::coreclr::runtime::Runtime;
use crate::runtimes::coreclr::threads::ManagedThread;
use crate::runtimes::coreclr::threads::frame_registers::{self, Names};
use crate::runtimes::coreclr::threads::list::FRAME_TOP;
use crate::targets::Arch;

/// Bits of InlinedCallFrame.Datum: bit 0 means that it is no MethodDesc. Exception handling uses one more (.NET 9 on).
const NO_METHOD: u64 = 3;

/// Registers of the calling frame that a class of Frames stores.
#[derive(Clone, Copy)]
enum SavedRegisters {
    /// Stack pointer, return address and frame pointer of a call out of managed code.
    Call,
    /// A TransitionBlock.
    Transition,
    /// All registers, in the Frame.
    Context,
    /// All registers, through a pointer.
    ContextPointer,
    /// Registers in a LazyMachState.
    Machine,
    /// The return address that a hijack replaced.
    Hijack,
    /// No registers.
    Nothing,
}

/// Known classes of Frames.
const CLASSES: [(&str, SavedRegisters); 29] = [
    ("InlinedCallFrame", SavedRegisters::Call),
    ("PInvokeCalliFrame", SavedRegisters::Transition),
    ("PrestubMethodFrame", SavedRegisters::Transition),
    ("StubDispatchFrame", SavedRegisters::Transition),
    ("CallCountingHelperFrame", SavedRegisters::Transition),
    ("ExternalMethodFrame", SavedRegisters::Transition),
    ("DynamicHelperFrame", SavedRegisters::Transition),
    ("FaultingExceptionFrame", SavedRegisters::Context),
    ("SoftwareExceptionFrame", SavedRegisters::Context),
    ("ResumableFrame", SavedRegisters::ContextPointer),
    ("RedirectedThreadFrame", SavedRegisters::ContextPointer),
    ("HelperMethodFrame", SavedRegisters::Machine),
    ("HelperMethodFrame_1OBJ", SavedRegisters::Machine),
    ("HelperMethodFrame_2OBJ", SavedRegisters::Machine),
    ("HelperMethodFrame_3OBJ", SavedRegisters::Machine),
    ("HelperMethodFrame_PROTECTOBJ", SavedRegisters::Machine),
    ("HijackFrame", SavedRegisters::Hijack),
    ("FuncEvalFrame", SavedRegisters::Nothing),
    ("GCFrame", SavedRegisters::Nothing),
    ("SecureDelegateFrame", SavedRegisters::Nothing),
    ("MulticastFrame", SavedRegisters::Nothing),
    ("ProtectByRefsFrame", SavedRegisters::Nothing),
    ("ProtectValueClassFrame", SavedRegisters::Nothing),
    ("DebuggerClassInitMarkFrame", SavedRegisters::Nothing),
    ("DebuggerSecurityCodeMarkFrame", SavedRegisters::Nothing),
    ("DebuggerExitFrame", SavedRegisters::Nothing),
    ("DebuggerU2MCatchHandlerFrame", SavedRegisters::Nothing),
    ("ExceptionFilterFrame", SavedRegisters::Nothing),
    ("InterpreterFrame", SavedRegisters::Nothing),
];

/// Reads the Frames of one runtime.
pub(crate) struct FrameClasses<'p> {
    memory: &'p dyn Memory,
    layout: &'p Layout,
    arch: Arch,
    names: &'static Names,
    by_identifier: HashMap<u64, (&'static str, SavedRegisters)>,
    /// Bounds of the lists of all threads. A Frame is on one stack only.
    frames: Walks,
    gc_frames: Walks,
    /// Each reference counts as a step.
    references: Walks,
}

impl<'p> FrameClasses<'p> {
    /// A reader for the Frames of `runtime`.
    pub(crate) fn new(memory: &'p dyn Memory, runtime: &'p Runtime) -> FrameClasses<'p> {
        let layout = &runtime.layout;
        let identifier = |name: &str| {
            let by_vtable = || runtime.globals.global(layout, name).ok().map(|vtable| vtable.get());
            layout.value(&format!("{name}Identifier")).or_else(by_vtable)
        };
        let by_identifier = CLASSES.into_iter().filter_map(|(name, saved)| Some((identifier(name)?, (name, saved))));
        let walks = |limit| Walks::new(Phase::Frames, limit);
        FrameClasses {
            memory,
            layout,
            arch: runtime.arch,
            names: frame_registers::layout_names(runtime.arch),
            by_identifier: by_identifier.collect(),
            frames: walks(limits::MAX_EXPLICIT_FRAMES),
            gc_frames: walks(limits::MAX_EXPLICIT_FRAMES),
            references: walks(limits::MAX_STACK_REFS),
        }
    }

    /// Reads the list that begins at `first`, with the error that ended it early. On one stack newer Frames have lower
    /// addresses, so a descending address ends the list with an error. The handler of an overflow runs on another
    /// stack, which may be anywhere. Its Frames precede those on the thread's own `stack`.
    pub(crate) fn list(&self, first: Addr, stack: Option<AddrRange>) -> (Vec<Mark>, Option<String>) {
        let mut out: Vec<Mark> = Vec::new();
        let end = self.frames.begin().follow(first, |at| {
            if out.last().is_some_and(|last| !follows(last.addr, at, stack)) {
                return Err("it is out of order".to_owned());
            }
            let view = self.view("Frame", at);
            let identifier = view.u64("Identifier").map_err(|e| e.to_string())?;
            let next = view.ptr("Next").map_err(|e| e.to_string())?;
            let (class, saved) =
                self.by_identifier.get(&identifier).copied().unwrap_or(("Frame", SavedRegisters::Nothing));
            out.push(Mark {
                addr: at,
                class,
                method: self.method(at, saved),
                regs: self.regs(at, class, saved),
                objects: self.objects(at, class).map_err(|e| format!("the references {e}"))?,
                exact: matches!(saved, SavedRegisters::ContextPointer) || class == "FaultingExceptionFrame",
            });
            Ok(next_of(next))
        });
        (out, end.err().map(|why| format!("the list of explicit Frames {why}")))
    }

    /// References of a Frame: pointers to them, or a run of adjacent ones.
    fn objects(&self, at: Addr, class: &str) -> Result<Vec<ProtectedRef>, Stop> {
        let plain = |address| ProtectedRef { address, interior: false };
        let pointers = |count: u64| {
            let first = self.view("HelperMethodFrame", at).addr_of("Objects").ok();
            let slot = |i| first.and_then(|f| self.memory.ptr(f.checked_add(8 * i)?).ok()).filter(|p| !p.is_null());
            (0..count).filter_map(slot).map(plain).collect()
        };
        Ok(match class {
            "HelperMethodFrame_1OBJ" => pointers(1),
            "HelperMethodFrame_2OBJ" => pointers(2),
            "HelperMethodFrame_3OBJ" => pointers(3),
            "HelperMethodFrame_PROTECTOBJ" => {
                let Ok(run) = self.view("HelperMethodFrame", at).addr_of("Objects") else { return Ok(Vec::new()) };
                let count = self.memory.u32(run.saturating_add(8)).unwrap_or(0);
                match self.memory.ptr(run) {
                    Ok(first) => self.run_of(first, count, false)?,
                    Err(_) => Vec::new(),
                }
            }
            "GCFrame" => self.gc_frame(at).unwrap_or(Ok(Vec::new()))?,
            _ => Vec::new(),
        })
    }

    /// References of a GCFrame.
    fn gc_frame(&self, at: Addr) -> Option<Result<Vec<ProtectedRef>, Stop>> {
        let view = self.view("GCFrame", at);
        let interior = view.u32("GCFlags").ok()? != 0;
        Some(self.run_of(view.ptr("ObjRefs").ok()?, view.u32("NumObjRefs").ok()?, interior))
    }

    /// A run of adjacent references.
    fn run_of(&self, first: Addr, count: u32, interior: bool) -> Result<Vec<ProtectedRef>, Stop> {
        let count = u64::from(count).min(limits::MAX_PROTECTED);
        self.references.spend(first, count)?;
        Ok((0..count).map(|i| ProtectedRef { address: first.saturating_add(8 * i), interior }).collect())
    }

    /// References in a thread's GCFrames, which are not Frames from .NET 5 on, with the error that ended the list
    /// early.
    pub(crate) fn protected(&self, thread: &ManagedThread) -> (Vec<ProtectedRef>, Option<String>) {
        let mut out = Vec::new();
        let first = thread.gc_frame.filter(|_| self.layout.positive("GCFrame", "CurThread").is_ok());
        let mut last = Addr::NULL;
        let end = self.gc_frames.begin().follow(first.unwrap_or_default(), |node| {
            let view = self.view("GCFrame", node);
            // A node of another thread is invalid.
            if !follows(last, node, thread.stack) || view.ptr("CurThread") != Ok(thread.address) {
                return Err("it does not belong to this thread".to_owned());
            }
            let refs = self.gc_frame(node).ok_or("it can't be read")?;
            out.extend(refs.map_err(|e| format!("the references {e}"))?);
            last = node;
            Ok(view.ptr("Next").map_or(Addr::NULL, next_of))
        });
        (out, end.err().map(|why| format!("the list of GCFrames {why}")))
    }

    fn view(&self, kind: &'static str, at: Addr) -> StructView<'p> {
        StructView::new(self.memory, self.layout, kind, at)
    }

    fn method(&self, at: Addr, saved: SavedRegisters) -> Option<Addr> {
        match saved {
            SavedRegisters::Call => self
                .view("InlinedCallFrame", at)
                .ptr("Datum")
                .ok()
                .filter(|d| d.masked(NO_METHOD).is_null() && !d.is_null()),
            SavedRegisters::Transition => {
                self.view("FramedMethodFrame", at).ptr("MethodDescPtr").ok().filter(|d| !d.is_null())
            }
            _ => None,
        }
    }

    fn regs(&self, at: Addr, class: &'static str, saved: SavedRegisters) -> Option<Regs> {
        let some = |a: Addr| (!a.is_null()).then_some(a);
        match saved {
            SavedRegisters::Nothing => None,
            SavedRegisters::Call => {
                let frame = self.view("InlinedCallFrame", at);
                // Without a return address there is no call in progress.
                let ip = some(frame.ptr("CallerReturnAddress").ok()?)?;
                let mut regs = self.at(ip, frame.ptr("CallSiteSP").ok()?);
                regs.set(regs.fp_number(), self.register(frame.addr_of("CalleeSavedFP").ok()));
                Some(regs)
            }
            SavedRegisters::Transition => {
                let block = some(self.view("FramedMethodFrame", at).ptr("TransitionBlockPtr").ok()?)?;
                let view = self.view("TransitionBlock", block);
                let sp = block.checked_add(self.layout.size("TransitionBlock").ok()?)?;
                let mut regs = self.at(view.ptr("ReturnAddress").ok()?, sp);
                self.callee_saved(view.addr_of("CalleeSavedRegisters").ok()?, &mut regs);
                Some(regs)
            }
            SavedRegisters::Context => self.context(self.view(class, at).addr_of("TargetContext").ok()?),
            SavedRegisters::ContextPointer => {
                self.context(some(self.view("ResumableFrame", at).ptr("TargetContextPtr").ok()?)?)
            }
            SavedRegisters::Machine => self.machine(self.view("HelperMethodFrame", at).addr_of("MachState").ok()?),
            SavedRegisters::Hijack => {
                let frame = self.view("HijackFrame", at);
                let arguments = some(frame.ptr("HijackArgsPtr").ok()?)?;
                let sp = arguments.checked_add(self.layout.size("HijackArgs").ok()?)?;
                let mut regs = self.at(frame.ptr("ReturnAddress").ok()?, sp);
                self.callee_saved(self.view("HijackArgs", arguments).addr_of("CalleeSavedRegisters").ok()?, &mut regs);
                Some(regs)
            }
        }
    }

    /// Registers with only these known. The return address may be signed.
    fn at(&self, ip: Addr, sp: Addr) -> Regs {
        let mut regs = Regs::new(self.arch, ip, sp);
        regs.set_ip(ip.get());
        regs
    }

    /// The register saved at an address.
    fn register(&self, at: Option<Addr>) -> Option<u64> {
        self.memory.peek_u64(at?).ok()
    }

    fn callee_saved(&self, at: Addr, regs: &mut Regs) {
        let view = self.view("CalleeSavedRegisters", at);
        for (name, number) in self.names.callee_saved {
            regs.set(*number, self.register(view.addr_of(name).ok()));
        }
    }

    fn context(&self, at: Addr) -> Option<Regs> {
        let view = self.view("T_CONTEXT", at);
        let mut regs = self.at(view.ptr(self.names.ip).ok()?, view.ptr(self.names.sp).ok()?);
        for (name, number) in self.names.context {
            regs.set(*number, self.register(view.addr_of(name).ok()));
        }
        (!regs.ip().is_null()).then_some(regs)
    }

    /// Registers of the managed caller if the runtime has unwound to it already. Otherwise those of the runtime code
    /// that made the Frame.
    fn machine(&self, at: Addr) -> Option<Regs> {
        let state = self.view("LazyMachState", at);
        let word = |array: Addr, i: usize| self.memory.u64(array.checked_add(8 * i as u64)?).ok();
        // x86_64 has a pointer to the return address. arm64 has the return address and a flag for its validity.
        let found = match state.has("IsValid") {
            true => Some(state.ptr("Pc").ok()?).filter(|_| state.u32("IsValid") != Ok(0)),
            false => match state.ptr("pRetAddr").ok()? {
                Addr::NULL => None,
                at => Some(self.memory.ptr(at).ok()?),
            },
        };
        if let Some(ip) = found {
            let mut regs = self.at(ip, state.ptr(self.names.sp).ok()?);
            let pointers = state.addr_of("Pointers").ok()?;
            for (i, number) in self.names.machine.iter().enumerate() {
                let slot = word(pointers, i).filter(|&p| p != 0);
                regs.set(*number, self.register(slot.map(Addr::new)));
            }
            return Some(regs);
        }
        let (ip, sp) = self.names.capture;
        let mut regs = self.at(state.ptr(ip).ok()?, state.ptr(sp).ok()?);
        let captured = state.addr_of("Capture").ok()?;
        for (i, number) in self.names.machine.iter().enumerate() {
            regs.set(*number, self.register(captured.checked_add(8 * i as u64)));
        }
        Some(regs)
    }
}

/// Whether a node at `next` may follow a node at `last` in a list. Lists go up the stack, or from another stack back to
/// the thread's own `stack`.
fn follows(last: Addr, next: Addr, stack: Option<AddrRange>) -> bool {
    let is_own = |at| stack.is_some_and(|stack| stack.contains(at));
    match (is_own(last), is_own(next)) {
        (true, false) => false,
        (false, true) => true,
        (true, true) | (false, false) => next > last,
    }
}

/// Returns the next node; null after the last one.
fn next_of(next: Addr) -> Addr {
    if next == FRAME_TOP { Addr::NULL } else { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_up_one_stack_and_back_to_the_threads_own_once() {
        let own = Some(AddrRange::new(Addr::new(0x4000), Addr::new(0x8000)));
        let is = |last: u64, next: u64, stack| follows(Addr::new(last), Addr::new(next), stack);
        // From the stack of a handler, wherever it is.
        assert!(is(0x9000, 0x4100, own) && is(0x1000, 0x4100, own));
        assert!(is(0x4100, 0x4200, own) && is(0x9000, 0x9100, own));
        assert!(!is(0x4200, 0x4100, own) && !is(0x4200, 0x4200, own) && !is(0x9100, 0x9000, own));
        assert!(!is(0x4200, 0x9000, own), "nothing leads away from the own stack");
        assert!(is(0x9000, 0x9100, None) && !is(0x9000, 0x4100, None));
    }
}
