//! Names of code: managed methods of every runtime of the process, native
//! symbols, and in words what an address is that has neither.

use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::dotnet::{CodeAt, Method, Methods, Stub, TypeSystem, step_at};
use crate::image::NativeSymbol;
use crate::map::Kind;
use crate::process::Process;
use crate::session::Session;

/// Modules listed by name in a warning.
const NAMED: usize = 8;

/// Heaps of a runtime that hold stubs.
const STUB_HEAPS: [Kind; 9] = [
    Kind::StubHeap,
    Kind::ExecutableHeap,
    Kind::FixupPrecodeHeap,
    Kind::NewStubPrecodeHeap,
    Kind::HighFrequencyHeap,
    Kind::LowFrequencyHeap,
    Kind::LookupHeap,
    Kind::ResolveHeap,
    Kind::DispatchHeap,
];

/// What code an address is of.
pub enum Code<'a, 'p> {
    /// A managed method.
    Managed(&'a Methods<'p>, Arc<Method<'p>>),
    /// A stub, and the method it is of.
    Stub(Stub, Option<String>),
    /// Native code.
    Native(NativeSymbol),
    /// A runtime's code range, but no method; why.
    Other(String),
    /// No runtime's code.
    None,
}

/// Where in a method's source an address is.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Offset in its IL.
    pub il_offset: Option<i64>,
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
}

/// Everything that gives names to code.
pub struct Names<'s, 'p> {
    session: &'s Session<'p>,
}

impl<'s, 'p> Names<'s, 'p> {
    /// Names in the session's process.
    pub fn new(session: &'s Session<'p>) -> Names<'s, 'p> {
        Names { session }
    }

    /// The session that they are of.
    pub fn session(&self) -> &'s Session<'p> {
        self.session
    }

    /// The runtimes' methods.
    pub fn runtimes(&self) -> &'s [Arc<Methods<'p>>] {
        self.session.methods()
    }

    /// Tell that names are missing.
    pub(super) fn partial(&self, why: String) {
        self.session.process.diag.partial("dotnet", why);
    }

    /// Tell which modules had no metadata when names were asked of them, and what
    /// would help.
    pub fn note_missing(&self) {
        for methods in self.runtimes() {
            note_missing(self.session.process, &methods.types);
        }
    }

    /// What code `ip` is of.
    pub fn code(&self, ip: Addr) -> Code<'s, 'p> {
        for methods in self.runtimes() {
            match methods.at(ip) {
                None => {}
                Some(CodeAt::Method(method)) => return Code::Managed(methods, method),
                Some(CodeAt::Stub(stub, method)) => return Code::Stub(stub, method),
                Some(CodeAt::StubBlock(kind)) => return Code::Other(format!("a block of stubs of kind {kind}")),
                Some(CodeAt::Nothing(why)) => return Code::Other(why),
            }
        }
        self.session.symbols().resolve(ip).map_or(Code::None, Code::Native)
    }

    /// Name of the module that a symbol is in.
    pub fn native_module(&self, symbol: &NativeSymbol) -> &'s str {
        self.session.symbols().module_name(symbol)
    }

    /// IL offset and line of an address in a method.
    pub fn source(&self, methods: &Methods<'p>, method: &Method<'p>, ip: Addr) -> Source {
        let steps = methods.il_map(method);
        let step = steps.as_deref().and_then(|s| step_at(s, ip.since(method.start)));
        let line = step.and_then(|s| method.module.line(&methods.types, method.token.rid(), s.il));
        Source {
            il_offset: step.map(|s| s.il),
            file: line.as_ref().map(|l| printable(&l.file).into_owned()),
            line: line.map(|l| l.line),
        }
    }

    /// A stub's target: its address, and its name where it is native.
    fn target(&self, at: Addr) -> String {
        match self.session.symbols().resolve(at) {
            Some(s) => {
                format!(
                    "{at} {}!{}+{:#x}",
                    printable(self.session.symbols().module_name(&s)),
                    printable(&s.name),
                    s.offset
                )
            }
            None => at.to_string(),
        }
    }

    /// In words: what code an address is of, if any.
    pub fn describe(&self, ip: Addr) -> Option<String> {
        match self.code(ip) {
            Code::Managed(_, method) => {
                let offset = method.offset_of(ip).unwrap_or(0);
                Some(format!("{}+{offset:#x} [{}]", printable(&method.name), printable(&method.module.name())))
            }
            Code::None => None,
            other => Some(self.words(&other)),
        }
    }

    fn words(&self, code: &Code<'_, 'p>) -> String {
        match code {
            Code::Stub(stub, method) => {
                let of = method.as_ref().map(|m| format!(" of {}", printable(m))).unwrap_or_default();
                let to = stub.target.map(|t| format!(", jumps to {}", self.target(t))).unwrap_or_default();
                format!("a {} at {}{of}{to}", stub.kind.name(), stub.start)
            }
            Code::Native(symbol) => format!(
                "{}!{}+{:#x} (native, by {})",
                printable(self.session.symbols().module_name(symbol)),
                printable(&symbol.name),
                symbol.offset,
                symbol.source
            ),
            Code::Other(why) => why.clone(),
            Code::Managed(..) | Code::None => String::new(),
        }
    }

    /// In words: what an address is that is of no managed method.
    pub fn explain(&self, ip: Addr, code: &Code<'_, 'p>) -> String {
        let mut parts = vec![self.words(code)];
        parts.retain(|p| !p.is_empty());
        // The whole map is made only where an address needs it.
        match self.session.map().region_at(ip) {
            None => parts.push("not mapped".to_owned()),
            Some(region) => {
                if matches!(code, Code::None) && STUB_HEAPS.contains(&region.kind) {
                    let stub = self.runtimes().iter().find_map(|m| m.stub_at(ip));
                    parts.extend(stub.map(|(stub, method)| self.words(&Code::Stub(stub, method))));
                }
                let at = place(self.session, region, ip);
                parts.push(format!("{}: {at}", region.kind.name()));
            }
        }
        parts.join("; ")
    }
}

/// Tell which modules of a runtime had no metadata when names were asked of them.
pub(super) fn note_missing(process: &Process, types: &TypeSystem<'_>) {
    let modules = types.modules();
    let missing: Vec<_> = modules.iter().filter(|m| m.missing.is_some()).collect();
    let Some(first) = missing.first() else { return };
    let some: Vec<_> = missing.iter().take(NAMED).map(|m| m.name().into_owned()).collect();
    let more = missing.len() - some.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    process.diag.partial(
        "metadata",
        format!(
            "no metadata of {}{more}, so their types and methods are tokens: {}; \
             give the program's files with --symbols DIR",
            some.join(", "),
            first.missing.as_deref().unwrap_or_default()
        ),
    );
}
