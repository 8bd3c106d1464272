//! Code of the VM: what it compiled, its interpreter and its stubs.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::hotspot::classes::Classes;
use crate::managed::{CodeAt, CodeEntry, ManagedCode};
use crate::registers::Regs;

/// All code of one VM.
pub struct Code<'p> {
    #[expect(dead_code, reason = "the code cache is read by what comes next")]
    classes: Arc<Classes<'p>>,
}

impl<'p> Code<'p> {
    /// The code of the VM of `classes`.
    pub fn new(classes: Arc<Classes<'p>>) -> Code<'p> {
        Code { classes }
    }
}

impl ManagedCode for Code<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        Vec::new()
    }

    fn code_at(&self, _ip: Addr) -> Option<CodeAt> {
        None
    }

    fn unwind(&self, _regs: &Regs, _exact: bool) -> Result<Regs, String> {
        Err("the code cache is not read".to_owned())
    }

    fn each(&self, _visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {}
}
