//! The runtime's explicit Frames: marks that its own code leaves on the stack
//! where managed code is left or entered, in a list from the Thread on.
//!
//! docs/design/datacontracts/StackWalk.md; src/coreclr/vm/frames.h;
//! vm/amd64: cgencpu.h (TransitionBlock, CalleeSavedRegisters), gmscpu.h
//! (MachState). Up to .NET 9 a Frame's class is told by its vtable, of which
//! g_dacTable has the addresses (inc/vptr_list.h); from .NET 10 on by a number.

use std::collections::HashMap;

use crate::addr::Addr;
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
use crate::targets::Arch;

/// FRAME_TOP: the end of the list.
const FRAME_TOP: Addr = Addr::MAX;

/// Bit of InlinedCallFrame.Datum that says it is no MethodDesc, and one more of
/// exception handling (.NET 9 on).
const NO_METHOD: u64 = 3;

/// What a class of Frames keeps of the frame above it.
#[derive(Clone, Copy)]
enum Keeps {
    /// Stack pointer, return address and frame pointer of a call out of managed code.
    Call,
    /// A TransitionBlock.
    Transition,
    /// All registers, within it.
    Context,
    /// All registers, elsewhere.
    ContextPointer,
    /// A LazyMachState.
    Machine,
    /// A return address that was replaced.
    Hijack,
    /// Nothing.
    Nothing,
}

/// The classes.
const CLASSES: [(&str, Keeps); 29] = [
    ("InlinedCallFrame", Keeps::Call),
    ("PInvokeCalliFrame", Keeps::Transition),
    ("PrestubMethodFrame", Keeps::Transition),
    ("StubDispatchFrame", Keeps::Transition),
    ("CallCountingHelperFrame", Keeps::Transition),
    ("ExternalMethodFrame", Keeps::Transition),
    ("DynamicHelperFrame", Keeps::Transition),
    ("FaultingExceptionFrame", Keeps::Context),
    ("SoftwareExceptionFrame", Keeps::Context),
    ("ResumableFrame", Keeps::ContextPointer),
    ("RedirectedThreadFrame", Keeps::ContextPointer),
    ("HelperMethodFrame", Keeps::Machine),
    ("HelperMethodFrame_1OBJ", Keeps::Machine),
    ("HelperMethodFrame_2OBJ", Keeps::Machine),
    ("HelperMethodFrame_3OBJ", Keeps::Machine),
    ("HelperMethodFrame_PROTECTOBJ", Keeps::Machine),
    ("HijackFrame", Keeps::Hijack),
    ("FuncEvalFrame", Keeps::Nothing),
    ("GCFrame", Keeps::Nothing),
    ("SecureDelegateFrame", Keeps::Nothing),
    ("MulticastFrame", Keeps::Nothing),
    ("ProtectByRefsFrame", Keeps::Nothing),
    ("ProtectValueClassFrame", Keeps::Nothing),
    ("DebuggerClassInitMarkFrame", Keeps::Nothing),
    ("DebuggerSecurityCodeMarkFrame", Keeps::Nothing),
    ("DebuggerExitFrame", Keeps::Nothing),
    ("DebuggerU2MCatchHandlerFrame", Keeps::Nothing),
    ("ExceptionFilterFrame", Keeps::Nothing),
    ("InterpreterFrame", Keeps::Nothing),
];

/// The classes of one runtime's Frames.
pub(crate) struct FrameClasses<'p> {
    memory: &'p dyn Memory,
    layout: &'p Layout,
    arch: Arch,
    names: &'static Names,
    by_identifier: HashMap<u64, (&'static str, Keeps)>,
    /// Of all threads: a Frame lies on one stack.
    frames: Walks,
    gc_frames: Walks,
    /// Steps are references.
    references: Walks,
}

impl<'p> FrameClasses<'p> {
    /// Those of `runtime`.
    pub(crate) fn new(memory: &'p dyn Memory, runtime: &'p Runtime) -> FrameClasses<'p> {
        let layout = &runtime.layout;
        let identifier = |name: &str| {
            let by_vtable = || runtime.roots.global(layout, name).ok().map(|vtable| vtable.get());
            layout.value(&format!("{name}Identifier")).or_else(by_vtable)
        };
        let by_identifier = CLASSES.into_iter().filter_map(|(name, keeps)| Some((identifier(name)?, (name, keeps))));
        let walks = |most| Walks::new(Phase::Frames, most);
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

    /// The list that begins at `first`, and what broke it off, in words. A Frame
    /// made later lies lower: a list that goes down ends there.
    pub(crate) fn list(&self, first: Addr) -> (Vec<Mark>, Option<String>) {
        let mut out: Vec<Mark> = Vec::new();
        let end = self.frames.begin().follow(first, |at| {
            if out.last().is_some_and(|last| last.addr >= at) {
                return Err("it is out of order".to_owned());
            }
            let view = self.view("Frame", at);
            let identifier = view.u64("Identifier").map_err(|e| e.to_string())?;
            let next = view.ptr("Next").map_err(|e| e.to_string())?;
            let (class, keeps) = self.by_identifier.get(&identifier).copied().unwrap_or(("Frame", Keeps::Nothing));
            out.push(Mark {
                addr: at,
                class,
                method: self.method(at, keeps),
                regs: self.regs(at, class, keeps),
                objects: self.objects(at, class).map_err(|e| format!("the references {e}"))?,
                exact: matches!(keeps, Keeps::ContextPointer) || class == "FaultingExceptionFrame",
            });
            Ok(next_of(next))
        });
        (out, end.err().map(|why| format!("the list of explicit Frames {why}")))
    }

    /// References that a Frame tells of: pointers to them, or a run of them.
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

    /// What a GCFrame lists.
    fn gc_frame(&self, at: Addr) -> Option<Result<Vec<ProtectedRef>, Stop>> {
        let view = self.view("GCFrame", at);
        let interior = view.u32("GCFlags").ok()? != 0;
        Some(self.run_of(view.ptr("ObjRefs").ok()?, view.u32("NumObjRefs").ok()?, interior))
    }

    /// References one after the other.
    fn run_of(&self, first: Addr, count: u32, interior: bool) -> Result<Vec<ProtectedRef>, Stop> {
        let count = u64::from(count).min(limits::MAX_PROTECTED);
        self.references.spend(first, count)?;
        Ok((0..count).map(|i| ProtectedRef { address: first.saturating_add(8 * i), interior }).collect())
    }

    /// What a thread's GCFrames list, where these are no Frames (.NET 5 on), and
    /// what broke the list off, in words.
    pub(crate) fn protected(&self, thread: &ManagedThread) -> (Vec<ProtectedRef>, Option<String>) {
        let mut out = Vec::new();
        let first = thread.gc_frame.filter(|_| self.layout.positive("GCFrame", "CurThread").is_ok());
        let mut last = Addr::NULL;
        let end = self.gc_frames.begin().follow(first.unwrap_or_default(), |node| {
            let view = self.view("GCFrame", node);
            // A node made later lies lower; one that names another thread is none.
            if node <= last || view.ptr("CurThread") != Ok(thread.address) {
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

    fn method(&self, at: Addr, keeps: Keeps) -> Option<Addr> {
        match keeps {
            Keeps::Call => self
                .view("InlinedCallFrame", at)
                .ptr("Datum")
                .ok()
                .filter(|d| d.masked(NO_METHOD).is_null() && !d.is_null()),
            Keeps::Transition => self.view("FramedMethodFrame", at).ptr("MethodDescPtr").ok().filter(|d| !d.is_null()),
            _ => None,
        }
    }

    fn regs(&self, at: Addr, class: &'static str, keeps: Keeps) -> Option<Regs> {
        let some = |a: Addr| (!a.is_null()).then_some(a);
        match keeps {
            Keeps::Nothing => None,
            Keeps::Call => {
                let frame = self.view("InlinedCallFrame", at);
                // Without a return address it is not in a call.
                let ip = some(frame.ptr("CallerReturnAddress").ok()?)?;
                let mut regs = self.at(ip, frame.ptr("CallSiteSP").ok()?);
                regs.set(regs.fp_number(), frame.u64("CalleeSavedFP").ok());
                Some(regs)
            }
            Keeps::Transition => {
                let block = some(self.view("FramedMethodFrame", at).ptr("TransitionBlockPtr").ok()?)?;
                let view = self.view("TransitionBlock", block);
                let sp = block.checked_add(self.layout.size("TransitionBlock").ok()?)?;
                let mut regs = self.at(view.ptr("ReturnAddress").ok()?, sp);
                self.callee_saved(view.addr_of("CalleeSavedRegisters").ok()?, &mut regs);
                Some(regs)
            }
            Keeps::Context => self.context(self.view(class, at).addr_of("TargetContext").ok()?),
            Keeps::ContextPointer => self.context(some(self.view("ResumableFrame", at).ptr("TargetContextPtr").ok()?)?),
            Keeps::Machine => self.machine(self.view("HelperMethodFrame", at).addr_of("MachState").ok()?),
            Keeps::Hijack => {
                let frame = self.view("HijackFrame", at);
                let arguments = some(frame.ptr("HijackArgsPtr").ok()?)?;
                let sp = arguments.checked_add(self.layout.size("HijackArgs").ok()?)?;
                let mut regs = self.at(frame.ptr("ReturnAddress").ok()?, sp);
                self.callee_saved(self.view("HijackArgs", arguments).addr_of("CalleeSavedRegisters").ok()?, &mut regs);
                Some(regs)
            }
        }
    }

    /// Registers of which only these are known; a return address may be signed.
    fn at(&self, ip: Addr, sp: Addr) -> Regs {
        let mut regs = Regs::new(self.arch, ip, sp);
        regs.set_ip(ip.get());
        regs
    }

    fn callee_saved(&self, at: Addr, regs: &mut Regs) {
        let view = self.view("CalleeSavedRegisters", at);
        for (name, number) in self.names.callee_saved {
            regs.set(*number, view.u64(name).ok());
        }
    }

    fn context(&self, at: Addr) -> Option<Regs> {
        let view = self.view("T_CONTEXT", at);
        let mut regs = self.at(view.ptr(self.names.ip).ok()?, view.ptr(self.names.sp).ok()?);
        for (name, number) in self.names.context {
            regs.set(*number, view.u64(name).ok());
        }
        (!regs.ip().is_null()).then_some(regs)
    }

    /// The managed caller, where the runtime has looked for it already; else
    /// where in the runtime itself the Frame was made.
    fn machine(&self, at: Addr) -> Option<Regs> {
        let state = self.view("LazyMachState", at);
        let word = |array: Addr, i: usize| self.memory.u64(array.checked_add(8 * i as u64)?).ok();
        // x86_64 keeps where the return address is, arm64 that itself and whether it is there.
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
                regs.set(*number, slot.and_then(|p| self.memory.u64(Addr::new(p)).ok()));
            }
            return Some(regs);
        }
        let (ip, sp) = self.names.capture;
        let mut regs = self.at(state.ptr(ip).ok()?, state.ptr(sp).ok()?);
        let captured = state.addr_of("Capture").ok()?;
        for (i, number) in self.names.machine.iter().enumerate() {
            regs.set(*number, word(captured, i));
        }
        Some(regs)
    }
}

/// The next node, null behind the last one.
fn next_of(next: Addr) -> Addr {
    if next == FRAME_TOP { Addr::NULL } else { next }
}
