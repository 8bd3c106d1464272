//! Compiled code: which method an address belongs to, by the unwind data of the program.
//!
//! The unwind data (.eh_frame) has an entry for each method and for each funclet. The language-specific data of an
//! entry says whether it is a funclet, and how far its method's start is. Code in no table of methods is between
//! methods, so the nearest method below an address is often another one.
//!
//! Source: tools/aot/ILCompiler.Compiler (ObjectWriter, UnixUnwindInfo); Runtime/unix/UnixNativeCodeManager.cpp.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::limits;
use crate::native::unwind::{Trust, Unwinder, UnwoundFrame};
use crate::phase::Phase;
use crate::registers::Regs;
use crate::runtimes::api::{CodeAt, CodeEntry, CodeEntryKind, ManagedCode, Method, MethodRole, Source, UnwindError};
use crate::runtimes::clr_gc::is_library;
use crate::runtimes::nativeaot::methods::Methods;
use crate::runtimes::nativeaot::naming::Names;

/// Flags at the start of an entry's own data: its kind, which is 0 for a method.
const KIND: u8 = 3;

/// Offset of the distance from the method's start in the data of a funclet.
const DISTANCE: u64 = 5;

/// The code of one program or library.
pub(super) struct Code<'p> {
    names: Arc<Names<'p>>,
    unwinder: OnceLock<Unwinder<'p>>,
    methods: OnceLock<Methods>,
    /// Methods by the start of their unwind entry.
    known: Mutex<HashMap<Addr, Option<Arc<Method>>>>,
}

impl<'p> Code<'p> {
    pub(super) fn new(names: Arc<Names<'p>>) -> Code<'p> {
        Code { names, unwinder: OnceLock::new(), methods: OnceLock::new(), known: Mutex::default() }
    }

    /// Range of compiled managed code.
    fn range(&self) -> Option<AddrRange> {
        let runtime = self.names.runtime();
        let view = runtime.view("RuntimeInstance", runtime.instance);
        let start = view.ptr("m_managedCodeStart").ok()?;
        let size = u64::from(view.u32("m_managedCodeSize").ok()?);
        let range = AddrRange::sized(start, size);
        (runtime.range.contains(start) && range.end <= runtime.range.end).then_some(range)
    }

    fn methods(&self) -> &Methods {
        self.methods.get_or_init(|| {
            let _phase = self.names.runtime().process.enter(Phase::Types);
            self.range().map_or_else(Methods::default, |range| Methods::read(&self.names, range))
        })
    }

    fn unwinder(&self) -> &Unwinder<'p> {
        self.unwinder.get_or_init(|| Unwinder::new(self.names.runtime().process, []))
    }

    /// Start of the method that the code at `at` belongs to, and the unwind entry that contains `at`.
    fn root(&self, at: Addr) -> Option<(Addr, AddrRange)> {
        let (range, own) = self.unwinder().entry_at(at)?;
        let memory = self.names.runtime().memory();
        let Some(own) = own else { return Some((range.start, range)) };
        let mut flags = [0];
        memory.read(own, &mut flags).ok()?;
        if flags[0] & KIND == 0 {
            return Some((range.start, range));
        }
        let distance = memory.u32(own.checked_add(DISTANCE)?).ok()? as i32;
        Some((range.start.checked_offset(-i64::from(distance))?, range))
    }

    /// The method that contains `at`. `None` for code of no method that is named.
    pub(super) fn method(&self, at: Addr) -> Option<Arc<Method>> {
        if !self.names.runtime().range.contains(at) || !self.range()?.contains(at) || self.methods().is_empty() {
            return None;
        }
        let (start, entry) = self.root(at)?;
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&entry.start) {
                return found.clone();
            }
        }
        let runtime = self.names.runtime();
        let found = self.methods().name(&self.names, start).map(|name| {
            let role = if is_library(&name) { MethodRole::Framework } else { MethodRole::Program };
            Arc::new(Method {
                module: crate::image::file_name(&runtime.path).to_owned(),
                id: None,
                token: None,
                start,
                size: entry.end.checked_since(start).unwrap_or(entry.len()),
                cold: None,
                role,
                name,
            })
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < limits::MAX_AOT_METHODS {
            known.insert(entry.start, found.clone());
        }
        found
    }

    /// File and line of the code at `ip`.
    pub(super) fn line_at(&self, method: &Method, ip: Addr) -> Source {
        let found = method.offset_of(ip).and_then(|offset| self.methods().line(method.start, offset));
        let (file, line) = found.unzip();
        Source { il_offset: None, file, line, column: None }
    }
}

impl ManagedCode for Code<'_> {
    /// No ranges: all code is in the program's image.
    fn ranges(&self) -> Vec<AddrRange> {
        Vec::new()
    }

    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        self.method(ip).map(CodeAt::Method)
    }

    fn unwind(&self, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
        let step = UnwoundFrame { regs: regs.clone(), exact, trust: Trust::UnwindData };
        let why = "no unwind data covers it";
        self.unwinder()
            .by_unwind_data(&step)
            .map(|up| up.regs)
            .map_err(|_| UnwindError::Unsupported { ip: regs.ip(), why })
    }

    fn source(&self, method: &Method, ip: Addr) -> Source {
        self.line_at(method, ip)
    }

    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {
        let mut starts: Vec<Addr> = self.methods().starts().collect();
        starts.sort_unstable();
        for method in starts.into_iter().filter_map(|start| self.method(start)) {
            let kind = CodeEntryKind::Method { name: &method.name, tier: None, cold: None };
            if !visit(CodeEntry { kind, start: method.start, size: method.size }) {
                return;
            }
        }
    }

    fn tier_in_perf_map(&self) -> bool {
        false
    }

    fn warn_missing(&self) {
        if self.methods().nameless {
            let why = format!("{}: the program was built without method names", self.names.runtime().name());
            self.names.runtime().process.diag.note(WarningCode::NativeaotNames, why);
        }
    }
}
