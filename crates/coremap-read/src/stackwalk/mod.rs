//! Walks thread stacks: native frames, managed frames and the marks of runtimes in one list.
//!
//! Each frame is unwound by the most reliable method: a managed frame by the runtime's unwind data, a native one by its
//! module's. If the module's data is missing, the next mark leads back to managed code. The runtime's own stack walk
//! works the same way (docs/design/datacontracts/StackWalk.md).

mod runs;

use std::cell::Cell;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::native::stacks::Stacks;
use crate::native::unwind::{End, Trust, Unwinder, UnwoundFrame};
use crate::process::Process;
use crate::registers::Regs;
use crate::runtimes::api::{
    Caller, CodeAt, FrameAt, FrameKind, ListedMethods, ManagedCode, ManagedFrame, Mark, Method, MethodRole, Position,
    RuntimeId, StackFrame, StackWalk,
};
use crate::targets::Arch;
use crate::targets::Thread;
use runs::ListedRuns;

/// Walks the stacks of one process.
pub struct Walker<'a, 'p> {
    process: &'p Process,
    unwinder: Unwinder<'p>,
    codes: Vec<(RuntimeId, &'a dyn ManagedCode)>,
    lists: Vec<(RuntimeId, &'a dyn ListedMethods)>,
    stacks: &'a Stacks,
    /// Number of frames left for all stacks.
    left: Cell<usize>,
    /// Maximum number of frames per stack.
    limit: usize,
}

/// A partly walked stack.
struct WalkState {
    arch: Arch,
    frames: Vec<StackFrame>,
    /// Marks not passed yet, in the order of the walk.
    pending: VecDeque<Mark>,
    /// The thread's own stack, and the one that the walk is on.
    own: Option<AddrRange>,
    here: Option<AddrRange>,
    /// Registers of interrupted code, from marks that the walk has passed.
    interrupted: Vec<Regs>,
    /// Listed methods without a frame so far.
    runs: ListedRuns,
    seen: HashSet<(Addr, Addr)>,
    scans: usize,
    /// Stack pointer of the code that called the last frame, if that is a funclet.
    calls_funclet: Option<Addr>,
    /// Whether native code, or a mark with registers, was passed since the last managed frame.
    native: bool,
    marked: bool,
    /// Whether the current run of managed frames was entered without a mark.
    unmarked_run: bool,
    /// See [`StackWalk::may_skip`].
    may_skip: bool,
    /// See [`StackWalk::lost`].
    lost: bool,
}

impl<'a, 'p> Walker<'a, 'p> {
    /// Creates a walker for `process` and the code of its runtimes.
    pub(crate) fn new(
        process: &'p Process,
        codes: Vec<(RuntimeId, &'a dyn ManagedCode)>,
        stacks: &'a Stacks,
    ) -> Walker<'a, 'p> {
        // The core may lack the file of this code, so only the runtime knows that it is code.
        let ranges = codes.iter().flat_map(|(_, code)| code.ranges());
        Walker {
            process,
            unwinder: Unwinder::new(process, ranges),
            codes,
            lists: Vec::new(),
            stacks,
            left: Cell::new(limits::MAX_ALL_FRAMES),
            limit: limits::MAX_STACK_FRAMES,
        }
    }

    /// Adds the methods that these runtimes list.
    pub(crate) fn with_lists(self, lists: Vec<(RuntimeId, &'a dyn ListedMethods)>) -> Walker<'a, 'p> {
        Walker { lists, ..self }
    }

    /// Limits each stack to `limit` frames.
    pub fn at_most(self, limit: usize) -> Walker<'a, 'p> {
        Walker { limit, ..self }
    }

    /// Walks the stack of a thread. `marks` are the runtimes' marks on it, in the order of the walk.
    pub fn walk(&self, thread: &Thread, marks: Vec<Mark>) -> StackWalk {
        let of = |&(id, list): &(RuntimeId, &dyn ListedMethods)| {
            list.runs(thread.tid).into_iter().map(move |run| (id, run)).collect::<Vec<_>>()
        };
        let runs = self.lists.iter().flat_map(of).collect();
        let regs = Regs::of_thread(self.process.arch(), &thread.registers);
        let mut step = UnwoundFrame { regs, exact: true, trust: Trust::Context };
        let mut state = WalkState {
            arch: self.process.arch(),
            frames: Vec::new(),
            pending: marks.into(),
            own: self.stacks.of(thread.tid).map(|own| own.stack),
            here: None,
            interrupted: Vec::new(),
            runs: ListedRuns::new(runs),
            seen: HashSet::new(),
            scans: 0,
            calls_funclet: None,
            native: false,
            marked: true,
            unmarked_run: false,
            may_skip: false,
            lost: false,
        };
        let mut end = loop {
            if state.frames.len() >= self.limit || self.left.get() == 0 {
                break End::TooMany;
            }
            let stack = self.stack_at(thread.tid, step.regs.sp());
            state.here = stack;
            let next = match self.frame_at(thread.tid, &step, stack) {
                Some((runtime, frame)) => self.unwind_identified(&mut state, &step, stack, runtime, frame),
                None => match self.managed_at(&step) {
                    Some((runtime, method)) => self.unwind_managed(&mut state, &step, stack, runtime, method),
                    None => self.pass_native(&mut state, &step, stack),
                },
            };
            match next {
                Ok(next) => step = state.original(next),
                Err(end) => break end,
            }
            // A signal's trampoline was not called: its frame begins exactly there.
            step.exact |= self.unwinder.is_signal_return(step.regs.ip());
        };
        state.pass_first(state.pending.len());
        let rest = state.runs.rest();
        if !runs::insert(&mut state.frames, None, rest, self.limit) {
            end = End::TooMany;
        }
        self.left.set(self.left.get().saturating_sub(state.frames.len()));
        StackWalk { frames: state.frames, end, may_skip: state.may_skip, lost: state.lost }
    }

    fn code(&self, runtime: RuntimeId) -> Option<&'a dyn ManagedCode> {
        self.codes.iter().find(|(id, _)| *id == runtime).map(|(_, code)| *code)
    }

    /// The managed frame at `step`, if a runtime needs more than the address to identify it.
    fn frame_at(&self, tid: u32, step: &UnwoundFrame, stack: Option<AddrRange>) -> Option<(RuntimeId, ManagedFrame)> {
        let at = FrameAt { tid, regs: &step.regs, exact: step.exact, stack };
        self.codes.iter().find_map(|(runtime, code)| Some((*runtime, code.frame(&at)?)))
    }

    /// Unwinds a frame whose methods the runtime returned.
    fn unwind_identified(
        &self,
        state: &mut WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
        runtime: RuntimeId,
        frame: ManagedFrame,
    ) -> Result<UnwoundFrame, End> {
        let up = match frame.caller {
            Caller::Regs(ref regs) => {
                Some(UnwoundFrame { regs: (**regs).clone(), exact: false, trust: Trust::UnwindData })
            }
            Caller::Interrupted(ref regs) => {
                Some(UnwoundFrame { regs: (**regs).clone(), exact: true, trust: Trust::Signal })
            }
            Caller::Unknown | Caller::Nobody => None,
        };
        let is_first = matches!(frame.caller, Caller::Nobody);
        let up = up.filter(|up| self.is_caller(state, step, up));
        state.pass(up.as_ref().map_or(step.regs.sp(), |up| up.regs.sp()));
        let is_stub = frame.methods.is_empty();
        for activation in frame.methods.into_iter().take(self.limit) {
            let kind = FrameKind::Managed(runtime, activation.method);
            state.push_at(step, kind, Some(Box::new(activation.position)));
        }
        if is_stub {
            state.push(step, FrameKind::Native);
        }
        (state.native, state.marked) = (false, false);
        match up {
            Some(up) => Ok(up),
            None if is_first => Err(End::Bottom),
            None => self.unwind_without_data(state, step, stack, End::NoUnwindData(step.regs.ip())),
        }
    }

    fn pass_native(
        &self,
        state: &mut WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
    ) -> Result<UnwoundFrame, End> {
        state.pass(step.regs.sp());
        state.native = true;
        let (sp, at) = (step.regs.sp(), state.frames.len());
        state.push(step, FrameKind::Native);
        let up = self.unwind_native(state, step, stack);
        let frame = up.as_ref().ok().filter(|up| up.regs.sp() >= sp).map(|up| AddrRange::new(sp, up.regs.sp()));
        let ip = if step.exact { step.regs.ip() } else { step.regs.ip().saturating_sub(1) };
        let runs =
            state.runs.take(frame, |runtime| self.lists.iter().any(|(id, list)| *id == runtime && list.run_at(ip)));
        if !runs::insert(&mut state.frames, Some(at), runs, self.limit) {
            return Err(End::TooMany);
        }
        up
    }

    fn managed_at(&self, step: &UnwoundFrame) -> Option<(RuntimeId, Arc<Method>)> {
        let ip = step.regs.ip();
        let at = if step.exact { ip } else { ip.saturating_sub(1) };
        self.codes.iter().find_map(|(runtime, code)| match code.code_at(at)? {
            CodeAt::Method(method) => Some((*runtime, method)),
            _ => None,
        })
    }

    /// The stack that contains `sp`: one of the thread's, or the mapping there.
    fn stack_at(&self, tid: u32, sp: Addr) -> Option<AddrRange> {
        // After an overflow, the stack pointer is in the guard.
        let used = self.stacks.around(tid, sp).map(|s| AddrRange::new(s.stack.start.min(sp), s.stack.end));
        used.or_else(|| self.process.space().pieces.at(sp).map(|p| p.range))
    }

    fn unwind_managed(
        &self,
        state: &mut WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
        runtime: RuntimeId,
        method: Arc<Method>,
    ) -> Result<UnwoundFrame, End> {
        let sp = step.regs.sp();
        let up = self.code(runtime).and_then(|code| code.unwind(&step.regs, step.exact).ok());
        let up = up.map(|regs| UnwoundFrame { regs, exact: false, trust: Trust::UnwindData });
        let up = up.filter(|up| self.is_caller(state, step, up));
        // A mark within a managed frame marks the call from it.
        state.pass(up.as_ref().map_or(sp, |up| up.regs.sp()));
        if state.native || state.frames.is_empty() {
            state.unmarked_run = state.native && !state.marked;
        }
        let dispatch = state.unmarked_run && method.role == MethodRole::Dispatcher;
        let kind = if dispatch { FrameKind::Dispatch(runtime, method) } else { FrameKind::Managed(runtime, method) };
        state.push(step, kind);
        (state.native, state.marked) = (false, false);
        let is_funclet = || self.code(runtime).is_some_and(|code| code.is_funclet(step.regs.ip(), step.exact));
        state.calls_funclet =
            up.as_ref().filter(|_| state.arch == Arch::Aarch64 && is_funclet()).map(|up| up.regs.sp());
        match up {
            Some(up) => Ok(up),
            None => self.unwind_without_data(state, step, stack, End::NoUnwindData(step.regs.ip())),
        }
    }

    fn unwind_native(
        &self,
        state: &mut WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
    ) -> Result<UnwoundFrame, End> {
        let by_data = self.unwinder.by_unwind_data(step);
        if let Some(chained) = self.prefer_frame_pointer(state, step, stack, &by_data) {
            return Ok(chained);
        }
        match by_data {
            Ok(up) if self.is_caller(state, step, &up) => Ok(up),
            _ if self.unwinder.is_signal_return(step.regs.ip()) => {
                let up = self.unwinder.by_signal_frame(step).filter(|up| self.is_caller(state, step, up));
                up.map_or_else(|| self.unwind_without_data(state, step, stack, End::NoUnwindData(step.regs.ip())), Ok)
            }
            Ok(up) => {
                let end = if up.regs.sp() <= step.regs.sp() {
                    End::NotUp(step.regs.sp())
                } else {
                    End::NoUnwindData(step.regs.ip())
                };
                self.unwind_without_data(state, step, stack, end)
            }
            // A mark that leads on shows that this is not the bottom.
            Err(End::Bottom) => self.next_mark(state, step).and_then(|at| state.follow(at)).ok_or(End::Bottom),
            Err(end) => self.unwind_without_data(state, step, stack, end),
        }
    }

    /// The caller by the frame pointer, if that is more reliable than unwind data. An arm64 frame record may be
    /// anywhere in its frame, so the stack pointer after following one is not exact, and unwind data may depend on it.
    fn prefer_frame_pointer(
        &self,
        state: &WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
        by_data: &Result<UnwoundFrame, End>,
    ) -> Option<UnwoundFrame> {
        // Without any data, marks count too.
        let has_data = !matches!(by_data, Err(End::NoUnwindData(_)));
        if !has_data || self.process.arch() != Arch::Aarch64 || step.trust != Trust::FramePointer {
            return None;
        }
        let chained = self.unwinder.by_frame_pointer(step, stack?).filter(|up| self.is_caller(state, step, up))?;
        let same = by_data.as_ref().is_ok_and(|up| up.regs.ip() == chained.regs.ip());
        (!same && !self.unwinder.is_signal_return(step.regs.ip())).then_some(chained)
    }

    /// The caller if there is no unwind data.
    fn unwind_without_data(
        &self,
        state: &mut WalkState,
        step: &UnwoundFrame,
        stack: Option<AddrRange>,
        end: End,
    ) -> Result<UnwoundFrame, End> {
        let fits = |state: &WalkState, up: Option<UnwoundFrame>| up.filter(|up| self.is_caller(state, step, up));
        if let Some(stack) = stack.filter(|_| step.exact)
            && let Some(up) = fits(state, self.unwinder.by_leaf(step, stack))
        {
            return Ok(up);
        }
        let calls_funclet = state.calls_funclet.take() == Some(step.regs.sp());
        let recorded = stack.filter(|_| calls_funclet).and_then(|stack| self.unwinder.by_record_at_sp(step, stack));
        if let Some(up) = fits(state, recorded) {
            return Ok(up);
        }
        let chained = stack.and_then(|stack| fits(state, self.unwinder.by_frame_pointer(step, stack)));
        let marked = self.next_mark(state, step);
        // The thread's own frame pointer may have any value, unless the machine's conventions say otherwise. A frame
        // pointer chain that skips a mark has missed the marked frame.
        let kept = step.trust != Trust::Context || self.process.arch() == Arch::Aarch64;
        let mark = || state.pending.get(marked?)?.regs.as_ref();
        let leads_past = |up: &UnwoundFrame| mark().is_some_and(|regs| !kept || up.regs.sp() > regs.sp());
        // A mark's registers have no signature, and the chain's have none any more.
        let misses = |up: &UnwoundFrame| mark().is_some_and(|regs| up.regs.ip() != regs.ip());
        let lost = kept && chained.as_ref().is_some_and(|up| leads_past(up) && misses(up));
        let chained = chained.filter(|up| !leads_past(up));
        state.lost |= lost;
        state.may_skip |=
            chained.is_some() && step.exact && stack.is_some_and(|stack| self.unwinder.may_skip_caller(step, stack));
        let chained = chained.map(|up| self.with_skipped(step, up));
        if let Some(up) = chained.or_else(|| state.follow(marked?)) {
            return Ok(up);
        }
        // Arm's procedure call standard: the initial frame pointer of a thread is zero.
        if self.process.arch() == Arch::Aarch64 && !step.exact && step.regs.fp() == Some(Addr::NULL) {
            return Err(End::Bottom);
        }
        let Some(mut stack) = stack else { return Err(End::NoStack(step.regs.sp())) };
        // Above are the arguments, the environment and the auxiliary vector. The first function's frame is empty.
        if let Some(first) = self.process.initial_sp().filter(|first| stack.contains(*first)) {
            if step.regs.sp() >= first {
                return Err(End::Bottom);
            }
            stack.end = first;
        }
        if let Some(up) = fits(state, self.unwinder.by_signal_shape(step, stack)) {
            return Ok(up);
        }
        if state.scans < limits::MAX_SCANS {
            state.scans += 1;
            if let Some(up) = fits(state, self.unwinder.by_scan(step, stack)) {
                return Ok(up);
            }
        }
        let mut word = [0; 8];
        match self.process.memory.read(step.regs.sp(), &mut word) {
            Err(fault) => Err(End::Unreadable(Fault { addr: step.regs.sp(), ..fault })),
            Ok(()) => Err(end),
        }
    }

    /// The caller of a frame without unwind data whose frame pointer leads to `up`. If the frame belongs to a function
    /// that has not set the frame pointer, `up` is the caller's caller. Then the caller's return address is on the
    /// stack below, and its own unwind data lead to `up` too.
    fn with_skipped(&self, step: &UnwoundFrame, up: UnwoundFrame) -> UnwoundFrame {
        // On arm64 every function has a frame record.
        if self.process.arch() != Arch::X86_64 {
            return up;
        }
        let mut unknown = false;
        for caller in self.unwinder.skipped(step, &up) {
            let managed = self.managed_at(&caller).and_then(|(runtime, _)| self.code(runtime));
            let above = match managed {
                Some(code) => code.unwind(&caller.regs, false).ok(),
                None => self.unwinder.by_unwind_data(&caller).ok().map(|up| up.regs),
            };
            let Some(above) = above else {
                unknown = true;
                continue;
            };
            if (above.ip(), above.sp()) != (up.regs.ip(), up.regs.sp()) {
                // Left over from an earlier call.
                continue;
            }
            // A leftover of another method is unwound by a frame pointer that is not its own. Its size then differs.
            match managed.map_or(Some(above.sp()), |code| code.caller_sp_from_sp(&caller.regs)) {
                Some(sp) if sp == above.sp() => return caller,
                Some(sp) if sp > above.sp() => {}
                // It may have allocated more on the stack than its prolog.
                Some(_) | None => unknown = true,
            }
        }
        UnwoundFrame { trust: if unknown { Trust::FramePointerGap } else { up.trust }, ..up }
    }

    /// Index of the next pending mark that leads to code.
    fn next_mark(&self, state: &WalkState, step: &UnwoundFrame) -> Option<usize> {
        // A mark of the frame itself, which was reached by its frame record: the stack pointer is not exact then.
        let by_record = step.trust == Trust::FramePointer && self.process.arch() == Arch::Aarch64;
        let is_own = |regs: &Regs| by_record && regs.fp().is_some() && regs.fp() == step.regs.fp();
        state.pending.iter().position(|frame| {
            let Some(regs) = &frame.regs else { return false };
            let fresh = (regs.ip(), regs.sp()) != (step.regs.ip(), step.regs.sp());
            let upward = regs.sp() >= step.regs.sp() || state.leads_back(regs.sp());
            fresh && upward && !is_own(regs) && self.unwinder.is_code(regs.ip())
        })
    }

    /// Whether `up` can be the caller's frame: in code, and higher on the stack. A frame that a signal interrupted may
    /// be on another stack.
    fn is_caller(&self, state: &WalkState, step: &UnwoundFrame, up: &UnwoundFrame) -> bool {
        let (here, there) = (step.regs.sp(), up.regs.sp());
        // Functions without a frame of their own: on x86_64 only those that moved the return address to a register, as
        // vfork does.
        let same = here == there && up.regs.ip() != step.regs.ip();
        let same = same && (self.process.arch() == Arch::Aarch64 || up.trust == Trust::UnwindData);
        let upward = there > here || same && step.exact;
        let interrupted = up.exact && !state.seen.contains(&(up.regs.ip(), there));
        (upward || interrupted) && self.unwinder.is_code(up.regs.ip())
    }
}

impl WalkState {
    /// Adds the marks below `limit` as frames. On the stack of a signal handler, those on the thread's own stack come
    /// later.
    fn pass(&mut self, limit: Addr) {
        let elsewhere = !self.is_on_own();
        // Without bounds of the own stack, only addresses say which mark comes next.
        let is_own = |at: Addr| self.own.is_none_or(|own| own.contains(at));
        let passed =
            |f: &Mark| if is_own(f.addr) { !elsewhere && f.addr < limit } else { f.addr < limit || !elsewhere };
        let count = self.pending.iter().take_while(|f| passed(f)).count();
        self.pass_first(count);
    }

    /// Adds the first `count` marks as frames.
    fn pass_first(&mut self, count: usize) {
        for _ in 0..count {
            let Some(frame) = self.pending.pop_front() else { return };
            self.marked |= frame.regs.is_some();
            self.interrupted.extend(frame.regs.clone().filter(|_| frame.exact));
            let regs = frame.regs.clone().unwrap_or_else(|| Regs::new(self.arch, Addr::NULL, frame.addr));
            let ip = frame.regs.as_ref().map_or(Addr::NULL, Regs::ip);
            let (sp, exact) = (frame.addr, frame.exact);
            self.frames.push(StackFrame {
                regs,
                ip,
                sp,
                exact,
                trust: Trust::Frame,
                kind: FrameKind::Mark(Box::new(frame)),
                position: None,
            });
        }
    }

    /// Continues at the registers of a mark.
    fn follow(&mut self, at: usize) -> Option<UnwoundFrame> {
        let frame = self.pending.get(at)?.clone();
        self.pass_first(at.saturating_add(1));
        Some(UnwoundFrame { regs: frame.regs?, exact: frame.exact, trust: Trust::Frame })
    }

    /// Whether the walk is on the thread's own stack, or on one that is not known to be another.
    fn is_on_own(&self) -> bool {
        match (self.own, self.here) {
            (Some(own), Some(here)) => own.intersect(&here).is_some(),
            (None, _) | (_, None) => true,
        }
    }

    /// Whether `sp` is on the thread's own stack while the walk is on another one, to which no walk returns.
    fn leads_back(&self, sp: Addr) -> bool {
        !self.is_on_own() && self.own.is_some_and(|own| own.contains(sp))
    }

    /// The frame that a signal interrupted, in place of a runtime's imitation of it.
    ///
    /// .NET's handler of an overflow runs on a stack of its own. There it makes a frame that seems to be called from
    /// the interrupted instruction, but has the wrong stack pointer. The mark has the right one.
    fn original(&mut self, next: UnwoundFrame) -> UnwoundFrame {
        let elsewhere = |sp: Addr| self.here.is_some_and(|here| !here.contains(sp));
        let is_original =
            |regs: &Regs| regs.ip() == next.regs.ip() && regs.sp() != next.regs.sp() && elsewhere(regs.sp());
        match self.interrupted.iter().position(is_original) {
            Some(at) => UnwoundFrame { regs: self.interrupted.swap_remove(at), exact: true, trust: Trust::Frame },
            None => next,
        }
    }

    fn push(&mut self, step: &UnwoundFrame, kind: FrameKind) {
        self.push_at(step, kind, None);
    }

    fn push_at(&mut self, step: &UnwoundFrame, kind: FrameKind, position: Option<Box<Position>>) {
        let (ip, sp) = (step.regs.ip(), step.regs.sp());
        // Only frames that a signal interrupted are looked up again.
        if step.exact {
            self.seen.insert((ip, sp));
        }
        let (regs, exact, trust) = (step.regs.clone(), step.exact, step.trust);
        self.frames.push(StackFrame { regs, ip, sp, exact, trust, kind, position });
    }
}
