//! NativeAOT's code is native code of its module. It is unwound and named as such.

use crate::addr::{Addr, AddrRange};
use crate::registers::Regs;
use crate::runtimes::api::{CodeAt, CodeEntry, ManagedCode, UnwindError};

/// A runtime without managed code ranges.
pub(super) struct NoCode;

impl ManagedCode for NoCode {
    fn ranges(&self) -> Vec<AddrRange> {
        Vec::new()
    }

    fn code_at(&self, _ip: Addr) -> Option<CodeAt> {
        None
    }

    fn unwind(&self, regs: &Regs, _exact: bool) -> Result<Regs, UnwindError> {
        Err(UnwindError::Unsupported { ip: regs.ip(), why: "NativeAOT code is unwound as native code" })
    }

    fn each(&self, _visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {}
}
