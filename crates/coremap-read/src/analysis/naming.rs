//! Names of code: managed methods of every runtime, native symbols, and descriptions of other addresses.

use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::diag::WarningCode;
use crate::map::kind_facts::Contents;
use crate::native::NativeSymbol;
use crate::runtimes::api::{CodeAt, CodeStub, ManagedCode, Method, RuntimeId, Source};
use crate::session::Session;

/// The code at an address.
pub enum Code {
    /// A managed method and its runtime.
    Managed(RuntimeId, Arc<Method>),
    /// A stub.
    Stub(CodeStub),
    /// Native code.
    Native(NativeSymbol),
    /// An address in a runtime's code range, but in no method. The text says why.
    Other(String),
    /// An address outside of all known code.
    None,
}

/// Resolves names of code.
pub struct Names<'s, 'p> {
    session: &'s Session<'p>,
    runtimes: Vec<(RuntimeId, &'s dyn ManagedCode)>,
}

impl<'s, 'p> Names<'s, 'p> {
    /// Creates a resolver for the session's process.
    pub fn new(session: &'s Session<'p>) -> Names<'s, 'p> {
        Names { session, runtimes: session.codes() }
    }

    pub fn session(&self) -> &'s Session<'p> {
        self.session
    }

    pub fn runtime(&self, id: RuntimeId) -> Option<&'s dyn ManagedCode> {
        self.runtimes.iter().find(|(runtime, _)| *runtime == id).map(|(_, code)| *code)
    }

    pub fn runtimes(&self) -> impl Iterator<Item = &'s dyn ManagedCode> {
        self.runtimes.iter().map(|(_, code)| *code)
    }

    /// Warns that names are missing.
    pub fn partial(&self, why: String) {
        self.session.process.diag.partial(WarningCode::Dotnet, why);
    }

    /// Warns about names that were requested but not found, with the remedy.
    pub fn note_missing(&self) {
        self.runtimes().for_each(|code| code.warn_missing());
    }

    /// Finds the code at `ip`.
    pub fn code(&self, ip: Addr) -> Code {
        for &(runtime, code) in &self.runtimes {
            match code.code_at(ip) {
                None => {}
                Some(CodeAt::Method(method)) => return Code::Managed(runtime, method),
                Some(CodeAt::Stub(stub)) => return Code::Stub(stub),
                Some(CodeAt::Other(why)) => return Code::Other(why),
            }
        }
        self.session.symbols().resolve(ip).map_or(Code::None, Code::Native)
    }

    pub fn native_module(&self, symbol: &NativeSymbol) -> &'s str {
        self.session.symbols().module_name(symbol)
    }

    /// IL offset and source line of an address in a method of the runtime with this ID.
    pub fn source(&self, runtime: RuntimeId, method: &Method, ip: Addr) -> Source {
        self.runtime(runtime).map(|code| code.source(method, ip)).unwrap_or_default()
    }

    /// Returns the target of a stub: its address, and its name if it is native.
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

    /// Describes the code at an address. `None` if there is no code.
    pub fn describe(&self, ip: Addr) -> Option<String> {
        match self.code(ip) {
            Code::Managed(_, method) => {
                let offset = method.offset_of(ip).unwrap_or(0);
                Some(format!("{}+{offset:#x} [{}]", printable(&method.name), printable(&method.module)))
            }
            Code::None => None,
            other => Some(self.words(&other)),
        }
    }

    fn words(&self, code: &Code) -> String {
        match code {
            Code::Stub(CodeStub { name: Some(name), runs, kind, start, .. }) => {
                let runs = runs.map(|runs| format!(", where an {runs} is; only the frame shows which method"));
                format!("{} ({kind} at {start}){}", printable(name), runs.unwrap_or_default())
            }
            Code::Stub(stub) => {
                let of = stub.of.as_ref().map(|m| format!(" of {}", printable(m))).unwrap_or_default();
                let to = stub.target.map(|t| format!(", jumps to {}", self.target(t))).unwrap_or_default();
                format!("a {} at {}{of}{to}", stub.kind, stub.start)
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

    /// Describes an address that is in no managed method.
    pub fn explain(&self, ip: Addr, code: &Code) -> String {
        let mut parts = vec![self.words(code)];
        parts.retain(|p| !p.is_empty());
        // Only such an address needs the whole map.
        match self.session.map().region_at(ip) {
            None => parts.push("not mapped".to_owned()),
            Some(region) => {
                if matches!(code, Code::None) && region.kind.facts().contents == Contents::Stubs {
                    let stub = self.runtimes().find_map(|code| code.stub_shaped(ip));
                    parts.extend(stub.map(|stub| self.words(&Code::Stub(stub))));
                }
                let at = place(self.session, region, ip);
                parts.push(format!("{}: {at}", region.kind.name()));
            }
        }
        parts.join("; ")
    }
}
