//! Functions of a Go program: names, files, lines, inlined calls, and the frames of stacks.

mod functions;
mod packages;
mod pcvalue;
mod switches;

pub(super) use functions::{Func, Functions, Line};
pub(super) use packages::is_program;
pub(super) use switches::{handles_signals, saved_registers};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::image::file_name;
use crate::limits;
use crate::registers::{Regs, x86_64};
use crate::runtimes::api::{
    Activation, Caller, CodeAt, CodeEntry, CodeEntryKind, Execution, FrameAt, Inlined, ManagedCode, ManagedFrame,
    Method, MethodRole, Position, Source, UnwindError,
};
use crate::runtimes::go::goroutines::List;
use crate::runtimes::go::runtime::Runtime;

/// Functions at one code address.
pub(super) struct Place {
    /// Distance in bytes from the stack pointer to the return address. `None` if it is unknown.
    pub(super) size: Option<u64>,
    /// Whether the function is the outermost of its stack.
    pub(super) top: bool,
    pub(super) func: Arc<Func>,
    /// The functions, innermost first, inlined ones too.
    pub(super) all: Vec<(Activation, u8)>,
}

/// Functions by code address, and whether the address is where execution was interrupted.
type Places = HashMap<(Addr, bool), Option<Arc<Place>>>;

/// Methods by the start of their code, which is null for inlined ones, and name.
type Methods = HashMap<(Addr, Arc<str>), Arc<Method>>;

/// Functions whose caller was interrupted: it continues exactly at the recorded address, which is no return address.
const EXACT_CALLERS: [&str; 3] = ["runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2"];

/// The code of a Go program.
pub(super) struct Code<'p> {
    runtime: Arc<Runtime<'p>>,
    functions: Option<Functions<'p>>,
    threads: Arc<OnceLock<List>>,
    places: Mutex<Places>,
    methods: Mutex<Methods>,
}

impl<'p> Code<'p> {
    pub(super) fn new(runtime: Arc<Runtime<'p>>, threads: Arc<OnceLock<List>>) -> Code<'p> {
        let functions = Functions::read(&runtime);
        let (places, methods) = Default::default();
        Code { runtime, functions, threads, places, methods }
    }

    /// The functions. `None` if their tables are not in memory.
    pub(super) fn functions(&self) -> Option<&Functions<'p>> {
        self.functions.as_ref()
    }

    /// Returns the functions at a code address. `exact`: execution was interrupted there, so it is not a return
    /// address.
    pub(super) fn place(&self, pc: Addr, exact: bool) -> Option<Arc<Place>> {
        {
            let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = places.get(&(pc, exact)) {
                return found.clone();
            }
        }
        let found = self.read_place(pc, exact).map(Arc::new);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() < limits::MAX_GO_PLACES {
            places.insert((pc, exact), found.clone());
        }
        found
    }

    fn read_place(&self, pc: Addr, exact: bool) -> Option<Place> {
        let functions = self.functions.as_ref()?;
        // A return address may be the first byte of the next function.
        let within = if exact { pc } else { pc.checked_sub(1)? };
        let func = functions.at(within)?;
        // The table has the frame's size at the return address. If the function ends there, use the size at the call.
        let size = functions.frame_size(&func, pc).or_else(|| functions.frame_size(&func, within));
        let lines = functions.lines(&func, within);
        let last = lines.len().saturating_sub(1);
        let activation = |(i, line): (usize, Line)| {
            let inlined = i < last;
            let method = if inlined { self.inlined_method(&line.function) } else { self.method_of(&func) };
            let source =
                Source { il_offset: None, file: line.file.map(|file| file.to_string()), line: line.line, column: None };
            let how = inlined.then_some(Execution::Inlined);
            (Activation { method, position: Position { source, how } }, line.id)
        };
        let all = lines.into_iter().enumerate().map(activation).collect();
        Some(Place { size, top: func.is_top(), func, all })
    }

    fn method(&self, start: Addr, size: u64, name: &Arc<str>) -> Arc<Method> {
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let own = is_program(name, self.runtime.build.module.as_deref());
            Arc::new(Method {
                name: name.to_string(),
                module: file_name(&self.runtime.path).to_owned(),
                id: None,
                token: None,
                start,
                size,
                cold: None,
                role: if own { MethodRole::Program } else { MethodRole::Framework },
            })
        };
        methods.entry((start, name.clone())).or_insert_with(made).clone()
    }

    /// The method of a function.
    pub(super) fn method_of(&self, func: &Func) -> Arc<Method> {
        self.method(func.range.start, func.range.len(), &func.name)
    }

    /// Returns the method of an inlined function, which has no code address of its own.
    fn inlined_method(&self, name: &Arc<str>) -> Arc<Method> {
        self.method(Addr::NULL, 0, name)
    }

    /// Whether the function is a wrapper that the compiler generated. Go's own traces leave wrappers out.
    pub(super) fn is_wrapper(&self, id: u8) -> bool {
        id == self.runtime.shape().wrapper
    }

    /// Whether the function's caller was interrupted, instead of having called it.
    pub(super) fn interrupts(func: &Func) -> bool {
        EXACT_CALLERS.contains(&&*func.name)
    }

    /// Registers of the caller. `None` if the frame's size is unknown, or it is the outermost.
    fn caller(&self, regs: &Regs, place: &Place) -> Option<Regs> {
        if place.top {
            return None;
        }
        let size = place.size?;
        let at = regs.sp().checked_add(size)?;
        let memory = self.runtime.memory();
        let ip = memory.ptr(at).ok()?;
        let mut up = Regs::new(regs.arch(), ip, at.checked_add(8)?);
        // A function with a frame stores the caller's frame pointer below the return address.
        let fp = match size {
            0 => regs.fp().map(Addr::get),
            _ => at.checked_sub(8).and_then(|at| memory.u64(at).ok()),
        };
        up.set(x86_64::RBP, fp);
        Some(up)
    }
}

impl ManagedCode for Code<'_> {
    /// No ranges: all code is in the program's image.
    fn ranges(&self) -> Vec<AddrRange> {
        Vec::new()
    }

    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        let func = self.functions.as_ref()?.at(ip)?;
        Some(CodeAt::Method(self.method_of(&func)))
    }

    fn unwind(&self, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
        let why = "it is the first function of its stack, or its frame has no known size";
        let place = self.place(regs.ip(), exact);
        let up = place.and_then(|place| self.caller(regs, &place));
        up.ok_or(UnwindError::Unsupported { ip: regs.ip(), why })
    }

    fn frame(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        let place = self.place(at.regs.ip(), at.exact)?;
        let switched =
            || switches::origin(&self.runtime, self.threads.get_or_init(|| List::read(&self.runtime)), at, &place);
        let caller = match self.caller(at.regs, &place) {
            _ if switches::switches(&place.func) => {
                switched().map_or(Caller::Nobody, |regs| Caller::Interrupted(Box::new(regs)))
            }
            Some(regs) if switches::handles_signals(&place.func) => switches::context(&self.runtime, at, &place)
                .map_or(Caller::Regs(Box::new(regs)), |regs| Caller::Interrupted(Box::new(regs))),
            Some(regs) if Code::interrupts(&place.func) => Caller::Interrupted(Box::new(regs)),
            Some(regs) => Caller::Regs(Box::new(regs)),
            None if place.top => Caller::Nobody,
            None => Caller::Unknown,
        };
        Some(ManagedFrame { methods: place.all.iter().map(|(activation, _)| activation.clone()).collect(), caller })
    }

    fn source(&self, method: &Method, ip: Addr) -> Source {
        let place = self.place(ip, true).filter(|place| place.func.range.start == method.start);
        let outer = place.as_ref().and_then(|place| place.all.last());
        outer.map(|(activation, _)| activation.position.source.clone()).unwrap_or_default()
    }

    fn inlined(&self, method: &Method, ip: Addr) -> Vec<Inlined> {
        let Some(place) = self.place(ip, true).filter(|place| place.func.range.start == method.start) else {
            return Vec::new();
        };
        let inner = place.all.split_last().map(|(_, inner)| inner).unwrap_or_default();
        let row = |(activation, _): &(Activation, u8)| Inlined {
            method: activation.method.name.clone(),
            source: activation.position.source.clone(),
        };
        inner.iter().map(row).collect()
    }

    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {
        let Some(functions) = &self.functions else { return };
        for func in (0..functions.len()).filter_map(|i| functions.get(i)) {
            let kind = CodeEntryKind::Method { name: &func.name, tier: None, cold: None };
            if !visit(CodeEntry { kind, start: func.range.start, size: func.range.len() }) {
                return;
            }
        }
    }

    fn tier_in_perf_map(&self) -> bool {
        false
    }
}
