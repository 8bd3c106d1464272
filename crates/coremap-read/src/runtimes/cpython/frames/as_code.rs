//! CPython as [`ManagedCode`]. It generates no machine code, but its evaluation loop runs Python frames.

use std::sync::{Arc, OnceLock};

use super::Codes;
use crate::addr::{Addr, AddrRange};
use crate::image::{ModuleKind, symbols};
use crate::registers::Regs;
use crate::runtimes::api::{CodeAt, CodeEntry, ManagedCode, UnwindError};
use crate::runtimes::cpython::runtime::Runtime;

/// Symbol of the evaluation loop. libpython exports it, or the program that contains the interpreter.
const EVALUATE: &str = "_PyEval_EvalFrameDefault";

pub(in crate::runtimes::cpython) struct PyCode<'p> {
    runtime: Arc<Runtime<'p>>,
    evaluate: OnceLock<Option<AddrRange>>,
    pub(in crate::runtimes::cpython) codes: Codes<'p>,
}

impl<'p> PyCode<'p> {
    pub(in crate::runtimes::cpython) fn new(runtime: Arc<Runtime<'p>>) -> PyCode<'p> {
        PyCode { codes: Codes::new(runtime.clone()), runtime, evaluate: OnceLock::new() }
    }

    fn evaluate(&self) -> Option<AddrRange> {
        *self.evaluate.get_or_init(|| {
            let ModuleKind::Elf(image) = &self.runtime.process.modules.get(self.runtime.module)?.kind else {
                return None;
            };
            let symbol = symbols::find(self.runtime.memory, image, EVALUATE)?;
            Some(AddrRange::sized(symbol.addr, symbol.size))
        })
    }
}

impl PyCode<'_> {
    pub(in crate::runtimes::cpython) fn evaluates_at(&self, ip: Addr) -> bool {
        self.evaluate().is_some_and(|range| range.contains(ip))
    }
}

impl ManagedCode for PyCode<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        Vec::new()
    }

    fn code_at(&self, _ip: Addr) -> Option<CodeAt> {
        None
    }

    fn unwind(&self, regs: &Regs, _exact: bool) -> Result<Regs, UnwindError> {
        Err(UnwindError::Unsupported { ip: regs.ip(), why: "CPython generates no machine code" })
    }

    fn name_of(&self, id: Addr) -> Option<String> {
        self.codes.code(id).map(|code| code.name().to_owned())
    }

    fn each(&self, _visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {}
}
