//! Stubs: small pieces of code that lead to a method or into the runtime. Their
//! instructions tell what they are; the heap they lie in tells their kind.
//!
//! docs/design/datacontracts/PrecodeStubs.md.

mod amd64;
mod arm64;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::targets::Arch;

/// What a stub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StubKind {
    /// Loads a MethodDesc (or another parameter) and jumps.
    StubPrecode,
    /// Jumps to its method once that has code, else into the fixup thunk.
    FixupPrecode,
    /// Exchanges its first two arguments and jumps.
    ThisPtrRetBufPrecode,
    /// Jumps to an address too far for a near jump.
    Jump,
    /// Counts a method's calls and jumps to it.
    CallCounting,
    /// Jumps to a method of an interface, if the object is of the type that it expects.
    Dispatch,
}

impl StubKind {
    /// The runtime's word for it.
    pub fn name(self) -> &'static str {
        match self {
            StubKind::StubPrecode => "StubPrecode",
            StubKind::FixupPrecode => "FixupPrecode",
            StubKind::ThisPtrRetBufPrecode => "ThisPtrRetBufPrecode",
            StubKind::Jump => "jump stub",
            StubKind::CallCounting => "call counting stub",
            StubKind::Dispatch => "dispatch stub",
        }
    }
}

/// One stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Where it begins.
    pub start: Addr,
    /// What it is.
    pub kind: StubKind,
    /// Its MethodDesc or other parameter.
    pub parameter: Option<Addr>,
    /// Where it jumps to.
    pub target: Option<Addr>,
}

/// The stub that `ip` lies in; `None` where the bytes are no stub known.
pub(in crate::runtimes::coreclr) fn decode(memory: &dyn Memory, arch: Arch, ip: Addr) -> Option<Stub> {
    let (longest, step) = match arch {
        Arch::X86_64 => (amd64::LONGEST, 1),
        Arch::Aarch64 => (arm64::LONGEST, arm64::INSTRUCTION),
    };
    let last = ip.align_down(step);
    (0..longest).step_by(step as usize).find_map(|back| {
        let start = last.checked_sub(back)?;
        let (stub, len) = match arch {
            Arch::X86_64 => amd64::at(memory, start)?,
            Arch::Aarch64 => arm64::at(memory, start)?,
        };
        (ip.since(start) < len).then_some(stub)
    })
}
