//! Parts of public types that coremap's own tests and benchmarks look into.

use crate::core::open::Core;
use crate::image::{Module, ModuleKind};
use crate::native::NativeSymbols;
use crate::native::malloc::Malloc;
use crate::process::Process;
use crate::runtimes::Offer;
use crate::runtimes::coreclr::CoreClr;
use crate::session::Session;

/// The .NET runtime of a process.
pub fn coreclr<'s, 'p>(session: &'s Session<'p>) -> Option<&'s CoreClr<'p>> {
    session.found(Offer::CoreClr).find_map(|(_, found)| found.coreclr())
}

/// The C library's malloc.
pub fn malloc<'s>(session: &'s Session<'_>) -> &'s Malloc {
    session.malloc()
}

/// Names of native code.
pub fn symbols<'s, 'p>(session: &'s Session<'p>) -> &'s NativeSymbols<'p> {
    session.symbols()
}

/// The core file that a process was read from.
pub fn core(process: &Process) -> Option<&Core> {
    process.core()
}

/// What a module is, with its headers.
pub fn kind(module: &Module) -> &ModuleKind {
    &module.kind
}
