//! References on a stack: by GC info for managed frames. Parts of the stack without such information are reported for a
//! word-by-word scan.
//!
//! Sources: src/coreclr/vm: gcenv.ee.cpp (ScanStackRoots), stackwalk.cpp (StackFrameIterator::Filter), frames.h
//! (references in explicit Frames); docs/design/datacontracts/StackWalk.md.

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::Memory;
use crate::native::stacks::RED_ZONE;
use crate::native::unwind::End;
use crate::process::Process;
use crate::registers::Regs;
use crate::runtimes::api::{
    FrameKind, MethodRole, ProtectedRef, RefFrame, RefLocation, RuntimeId, StackFrame, StackWalk,
};
use crate::runtimes::coreclr::threads::table::ThreadTable;
use crate::runtimes::coreclr::threads::{ConservativeRange, StackRef, StackRefs, ThreadEntry};
use crate::runtimes::coreclr::{FrameSlots, FrameState, Methods};
use crate::targets::Thread;

/// Reads the references on the stacks of a runtime's threads. `walk` returns a thread's frames. `own` identifies the
/// runtime in them.
pub(in crate::runtimes::coreclr) fn stack_refs(
    process: &Process,
    methods: &Methods<'_>,
    table: &ThreadTable,
    own: RuntimeId,
    walk: &mut dyn FnMut(u32) -> Option<StackWalk>,
) -> Vec<StackRefs> {
    let mut out: Vec<StackRefs> = Vec::new();
    let mut left = limits::MAX_STACK_REFS;
    for thread in process.threads() {
        let Some(ours) = table.threads.of(thread.tid).and_then(|t| table.by_address.get(&t.address)) else { continue };
        let Some(walk) = walk(thread.tid) else { continue };
        let reader = Reader { process, methods, own };
        let refs = reader.refs(thread, ours, &walk, left);
        left = left.saturating_sub(refs.precise.len());
        out.push(refs);
    }
    if left == 0 {
        let limit = limits::MAX_STACK_REFS;
        process.diag.partial(
            WarningCode::Limit,
            format!("stacks have more than {limit} references; the others are not listed"),
        );
    }
    out
}

struct Reader<'a, 'p> {
    process: &'a Process,
    methods: &'a Methods<'p>,
    own: RuntimeId,
}

/// Reasons for scanning a stretch of stack word by word.
mod why {
    pub(super) const COOPERATIVE: &str = "the thread was in native runtime code that may use references";
    pub(super) const NOT_SAFE: &str = "a frame was not at a GC safe point";
    pub(super) const NO_INFO: &str = "GC info of a frame can't be read";
    pub(super) const UNREAD: &str = "the registers of a frame are unknown";
    pub(super) const GUESSED: &str = "frames may have been skipped (no unwind data)";
    pub(super) const ENDED: &str = "the stack could not be unwound to its end";
    pub(super) const ARGUMENTS: &str = "arguments of a call that the runtime was about to make";
    pub(super) const MARKED: &str = "a runtime Frame has references near it";
    pub(super) const VARIABLE: &str = "a method has a variable number of arguments";
}

/// Reason to scan a stretch because of an explicit Frame of this class: it has references that are not in its lists
/// (GcScanRoots of each class).
fn scan_reason(class: &str) -> Option<&'static str> {
    match class {
        "PInvokeCalliFrame"
        | "PrestubMethodFrame"
        | "StubDispatchFrame"
        | "CallCountingHelperFrame"
        | "ExternalMethodFrame"
        | "DynamicHelperFrame"
        | "HijackFrame" => Some(why::ARGUMENTS),
        "InlinedCallFrame"
        | "FaultingExceptionFrame"
        | "SoftwareExceptionFrame"
        | "ResumableFrame"
        | "RedirectedThreadFrame"
        | "HelperMethodFrame"
        | "HelperMethodFrame_1OBJ"
        | "HelperMethodFrame_2OBJ"
        | "HelperMethodFrame_3OBJ"
        | "HelperMethodFrame_PROTECTOBJ"
        | "GCFrame"
        | "DebuggerClassInitMarkFrame"
        | "DebuggerSecurityCodeMarkFrame"
        | "DebuggerExitFrame"
        | "DebuggerU2MCatchHandlerFrame" => None,
        _ => Some(why::MARKED),
    }
}

/// State of the walk over a thread's frames.
struct Refs {
    out: StackRefs,
    /// Start of the stack below the next managed frame, and the reason to scan it.
    below: Option<Addr>,
    why: Option<&'static str>,
    /// Whether no managed and no explicit frame was visited yet.
    leaf: bool,
    /// How the next managed frame was left, if an explicit Frame showed it.
    state: Option<FrameState>,
    arguments: bool,
    /// Frames whose slots a funclet has reported, by code start and frame pointer.
    reported_by_funclet: HashSet<(Addr, Addr)>,
    /// Stack pointer of a handler's method. Frames below it no longer run.
    unwound_below: Addr,
}

impl Reader<'_, '_> {
    /// Returns the references on the stack of `thread`, with the frames of `walk`. `known`: the runtime's facts about
    /// the thread. `room`: maximum number of references.
    fn refs(&self, thread: &Thread, entry: &ThreadEntry, walk: &StackWalk, room: usize) -> StackRefs {
        let sp = thread.registers.sp();
        let first = walk.frames.iter().find(|f| !matches!(f.kind, FrameKind::Mark(_)));
        let managed = first.is_some_and(|f| matches!(f.kind, FrameKind::Managed(..) | FrameKind::Dispatch(..)));
        let mut refs = Refs {
            out: StackRefs { thread: thread.tid, sp, ..StackRefs::default() },
            below: Some(sp.saturating_sub(RED_ZONE).align_up(8)),
            // A thread in preemptive mode has stored its references in Frames and handles.
            why: (entry.thread.cooperative != Some(false) && !managed).then_some(why::COOPERATIVE),
            leaf: true,
            state: None,
            arguments: false,
            reported_by_funclet: HashSet::new(),
            unwound_below: Addr::NULL,
        };
        if refs.why.is_some() {
            refs.out.registers.extend(thread.registers.iter());
        }
        refs.add_listed(self.process, "GCFrame", &entry.protected);
        let mut last = sp;
        for (i, frame) in walk.frames.iter().enumerate() {
            match &frame.kind {
                FrameKind::Mark(mark) => {
                    refs.leaf &= mark.regs.is_none();
                    refs.state = match mark.class {
                        "FaultingExceptionFrame" => Some(FrameState::Aborted),
                        "SoftwareExceptionFrame" => Some(FrameState::Call),
                        "ResumableFrame" | "RedirectedThreadFrame" => Some(FrameState::Interrupted),
                        // A Frame within the managed frame does not show how the managed frame was left.
                        _ => refs.state,
                    };
                    refs.add_listed(self.process, mark.class, &mark.objects);
                    match scan_reason(mark.class) {
                        Some(why::ARGUMENTS) => {
                            let end = frame.regs.sp().max(mark.addr);
                            refs.add_conservative(mark.addr, end, why::ARGUMENTS);
                            refs.arguments = true;
                        }
                        Some(why) => refs.why = Some(why),
                        None => {}
                    }
                    continue;
                }
                // Frames of another runtime have no objects of this one.
                FrameKind::Managed(runtime, _) | FrameKind::Dispatch(runtime, _) if *runtime != self.own => {
                    refs.below.get_or_insert(frame.sp);
                }
                FrameKind::Native => {
                    if frame.trust.is_guess() {
                        refs.add_conservative(last, frame.sp, why::GUESSED);
                    }
                    refs.below.get_or_insert(frame.sp);
                }
                FrameKind::Managed(..) | FrameKind::Dispatch(..) => {
                    if frame.trust.is_guess() {
                        refs.add_conservative(last, frame.sp, why::GUESSED);
                    }
                    let state = refs.state.take().unwrap_or(match frame.exact {
                        true => FrameState::Interrupted,
                        false => FrameState::Call,
                    });
                    let next = walk.frames.iter().skip(i + 1).find(|f| !matches!(f.kind, FrameKind::Mark(_)));
                    let slots = self.methods.frame_slots(&frame.regs, state).ok();
                    let slots = slots.filter(|_| refs.out.precise.len() < room);
                    if let Some(handler) = slots.as_ref().filter(|s| s.handler && s.only_leaf) {
                        refs.note_handler(walk.frames.get(i + 1..).unwrap_or_default(), frame, handler.start);
                    }
                    // The code that finds handlers continues once the handler is done.
                    if frame.sp >= refs.unwound_below || slots.as_ref().is_some_and(|s| s.handler) || dispatches(frame)
                    {
                        refs.add_managed_frame(frame, state, slots, next.map(|n| n.sp));
                    } else {
                        refs.below = None;
                    }
                }
            }
            last = frame.sp;
        }
        refs.out.precise.truncate(room);
        if walk.end != End::Bottom
            && let Some(stack) = entry.thread.stack.filter(|s| s.contains(last))
        {
            refs.add_conservative(last, stack.end, why::ENDED);
        }
        refs.out
    }
}

impl Refs {
    fn add_conservative(&mut self, from: Addr, to: Addr, why: &'static str) {
        let from = from.align_up(8);
        if from < to {
            self.out.conservative.push(ConservativeRange { range: AddrRange::new(from, to), why });
        }
    }

    /// Adds references from one of the runtime's lists.
    fn add_listed(&mut self, process: &Process, list: &'static str, refs: &[ProtectedRef]) {
        self.out.precise.extend(refs.iter().filter_map(|r| {
            let value = process.memory.u64(r.address).ok()?;
            let place = RefLocation::Listed(r.address, list);
            Some(StackRef { frame: None, place, value, interior: r.interior, pinned: false })
        }));
    }

    fn add_managed_frame(
        &mut self,
        frame: &StackFrame,
        state: FrameState,
        slots: Option<FrameSlots>,
        caller_sp: Option<Addr>,
    ) {
        let why = self.why.take();
        if let (Some(from), Some(why)) = (self.below.take(), why) {
            self.add_conservative(from, frame.sp, why);
        }
        let leaf = std::mem::replace(&mut self.leaf, false);
        let arguments = std::mem::replace(&mut self.arguments, false);
        let failed = match &slots {
            None => Some(why::NO_INFO),
            // Not even a thread that waits for a collection stops here.
            Some(slots) if !slots.safe && (leaf || state == FrameState::Interrupted) => Some(why::NOT_SAFE),
            Some(slots) if slots.unread > 0 => Some(why::UNREAD),
            Some(slots) if slots.variable_arguments => Some(why::VARIABLE),
            Some(_) => None,
        };
        if let Some(slots) = &slots {
            if arguments {
                self.add_conservative(frame.sp, slots.outgoing, why::ARGUMENTS);
            }
            self.add_precise(frame, slots);
        }
        match failed {
            None => self.out.frames.0 += 1,
            Some(why) => {
                self.out.frames.1 += 1;
                if let Some(caller_sp) = caller_sp {
                    self.add_conservative(frame.sp, caller_sp, why);
                }
                self.registers(&frame.regs);
            }
        }
    }

    /// Finds the handler's method further up the stack by code and frame pointer. Its frame reports no slots, and the
    /// frames before it were unwound.
    fn note_handler(&mut self, callers: &[StackFrame], frame: &StackFrame, start: Addr) {
        let Some(pointer) = frame.regs.fp() else { return };
        let of = |f: &&StackFrame| match &f.kind {
            FrameKind::Managed(_, m) | FrameKind::Dispatch(_, m) => m.start == start && f.regs.fp() == Some(pointer),
            _ => false,
        };
        if self.reported_by_funclet.contains(&(start, pointer)) {
            return;
        }
        if let Some(method) = callers.iter().take(limits::MAX_HANDLER_SEARCH).find(of) {
            self.reported_by_funclet.insert((start, pointer));
            self.unwound_below = self.unwound_below.max(method.sp);
        }
    }

    fn add_precise(&mut self, frame: &StackFrame, slots: &FrameSlots) {
        let reported_by_funclet = |pointer| self.reported_by_funclet.contains(&(slots.start, pointer));
        if !slots.funclet && slots.only_leaf && frame.regs.fp().is_some_and(reported_by_funclet) {
            return;
        }
        let at = RefFrame { ip: frame.ip, sp: frame.sp, exact: frame.exact };
        self.out.precise.extend(slots.slots.iter().map(|slot| StackRef {
            frame: Some(at),
            place: RefLocation::Slot(slot.place),
            value: slot.value,
            interior: slot.interior,
            pinned: slot.pinned,
        }));
    }

    fn registers(&mut self, regs: &Regs) {
        self.out.registers.extend(regs.known());
    }
}

/// Whether a frame runs the runtime's managed exception handling code.
fn dispatches(frame: &StackFrame) -> bool {
    match &frame.kind {
        FrameKind::Dispatch(..) => true,
        FrameKind::Managed(_, method) => method.role == MethodRole::Dispatcher,
        _ => false,
    }
}
