//! Names of code: managed methods of every runtime of the process, native
//! symbols, and in words what an address is that has neither.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::analysis::place::place;
use crate::dotnet::{CodeAt, Method, Methods, Stub, step_at};
use crate::introspect::{Findings, introspect};
use crate::process::Process;

/// What code an address is of.
pub enum Code<'a, 'p> {
    /// A managed method.
    Managed(&'a Methods<'p>, Arc<Method<'p>>),
    /// A stub, and the method it is of.
    Stub(Stub, Option<String>),
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
pub struct Names<'p> {
    process: &'p Process,
    map: OnceLock<Findings>,
    runtimes: Vec<Methods<'p>>,
}

impl<'p> Names<'p> {
    /// Names in `process`, of the runtimes in `found`.
    pub fn new(process: &'p Process, found: &'p Findings) -> Names<'p> {
        let runtimes = found.runtimes.iter().map(|(runtime, _)| Methods::new(process, runtime)).collect();
        Names { process, map: OnceLock::new(), runtimes }
    }

    /// The runtimes' methods.
    pub fn runtimes(&self) -> &[Methods<'p>] {
        &self.runtimes
    }

    /// What code `ip` is of.
    pub fn code(&self, ip: Addr) -> Code<'_, 'p> {
        for methods in &self.runtimes {
            match methods.at(ip) {
                None => {}
                Some(CodeAt::Method(method)) => return Code::Managed(methods, method),
                Some(CodeAt::Stub(stub, method)) => return Code::Stub(stub, method),
                Some(CodeAt::StubBlock(kind)) => return Code::Other(format!("a block of stubs of kind {kind}")),
                Some(CodeAt::Nothing(why)) => return Code::Other(why),
            }
        }
        Code::None
    }

    /// IL offset and line of an address in a method.
    pub fn source(&self, methods: &Methods<'p>, method: &Method<'p>, ip: Addr) -> Source {
        let steps = methods.il_map(method);
        let step = steps.as_deref().and_then(|s| step_at(s, ip.since(method.start)));
        let line = step.and_then(|s| method.module.line(&methods.types, method.token.rid(), s.il));
        Source {
            il_offset: step.map(|s| s.il),
            file: line.as_ref().map(|l| crate::bytes::printable(&l.file).into_owned()),
            line: line.map(|l| l.line),
        }
    }

    /// In words: what an address is that is of no managed method.
    pub fn explain(&self, ip: Addr, code: &Code<'_, 'p>) -> String {
        let mut parts = Vec::new();
        match code {
            Code::Stub(stub, method) => {
                let of = method.as_ref().map(|m| format!(" of {m}")).unwrap_or_default();
                let to = stub.target.map(|t| format!(", jumps to {t}")).unwrap_or_default();
                parts.push(format!("a {} at {}{of}{to}", stub.kind.name(), stub.start));
            }
            Code::Other(why) => parts.push(why.clone()),
            Code::Managed(..) | Code::None => {}
        }
        // The whole map is made only where an address needs it.
        let found = self.map.get_or_init(|| introspect(self.process));
        match found.map.region_at(ip) {
            None => parts.push("not mapped".to_owned()),
            Some(region) => {
                let at = place(self.process, found, region, ip);
                parts.push(format!("{}: {at}", region.kind.name()));
            }
        }
        parts.join("; ")
    }
}
