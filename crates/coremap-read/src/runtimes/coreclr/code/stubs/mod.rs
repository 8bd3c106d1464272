//! Stubs: small pieces of code that lead to a method or into the runtime. They are recognised by their instructions.
//!
//! The heap that contains a stub shows its kind. Source: docs/design/datacontracts/PrecodeStubs.md.

mod amd64;
mod arm64;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::targets::Arch;

/// Kinds of stubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StubKind {
    /// Loads a MethodDesc (or another parameter) and jumps.
    StubPrecode,
    /// Jumps to its method's code, or into the fixup thunk while there is none.
    FixupPrecode,
    /// Swaps its first two arguments and jumps.
    ThisPtrRetBufPrecode,
    /// Jumps to an address out of range of a near jump.
    Jump,
    /// Counts a method's calls and jumps to it.
    CallCounting,
    /// Jumps to an implementation of an interface method, if the object has the expected type.
    Dispatch,
}

impl StubKind {
    /// The runtime's name for the kind.
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

/// A decoded stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Start address.
    pub start: Addr,
    /// Kind of stub.
    pub kind: StubKind,
    /// MethodDesc or other parameter.
    pub parameter: Option<Addr>,
    /// Jump target.
    pub target: Option<Addr>,
}

/// Decodes the stub that contains `ip`. `None` if the bytes match no known stub.
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
