//! The interpreter: a queue of codelets, one for each bytecode and for method entries and exits.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// The interpreter's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Address range of the code (`StubQueue::_stub_buffer`).
    pub range: AddrRange,
    /// The codelets, by address.
    pub codelets: Vec<Codelet>,
}

/// A codelet of the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codelet {
    /// Address range of the codelet, with its header.
    pub range: AddrRange,
    /// The VM's description: `return entry points`, `iload_0`.
    pub name: String,
    /// The bytecode that the codelet runs. `None` if it is not for a bytecode.
    pub bytecode: Option<u8>,
}

impl Interpreter {
    /// Reads the interpreter of `vm`. Unreadable codelets are left out.
    ///
    /// # Errors
    /// If the queue of codelets cannot be read.
    pub(super) fn read(vm: &Vm<'_>) -> Result<Interpreter, VmError> {
        let queue = vm.at("StubQueue", vm.static_ptr("AbstractInterpreter", "_code")?);
        let (start, len) = (queue.ptr("_stub_buffer")?, queue.number("_buffer_limit")?);
        let end = start.checked_add(len).filter(|_| !start.is_null());
        let end = end.ok_or(VmError::Invalid { what: "an interpreter without a valid size", at: queue.addr })?;
        let range = AddrRange::new(start, end);
        let count = queue.number("_number_of_stubs")?.min(limits::MAX_CODELETS);
        let mut codelets = Vec::new();
        let mut at = start;
        for _ in 0..count {
            let Ok((codelet, next)) = codelet(vm, at, end) else { break };
            codelets.push(codelet);
            at = next;
        }
        Ok(Interpreter { range, codelets })
    }

    /// Returns the codelet that contains `pc`.
    pub fn codelet(&self, pc: Addr) -> Option<&Codelet> {
        let after = self.codelets.partition_point(|codelet| codelet.range.start <= pc);
        self.codelets.get(after.checked_sub(1)?).filter(|codelet| codelet.range.contains(pc))
    }
}

impl Codelet {
    /// Returns the codelet's name for reports.
    pub fn title(&self) -> String {
        match self.bytecode {
            Some(_) => format!("bytecode {}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Reads the codelet at `at`. Also returns the address of the next one.
fn codelet(vm: &Vm<'_>, at: Addr, end: Addr) -> Result<(Codelet, Addr), VmError> {
    let view = vm.at("InterpreterCodelet", at);
    let size = view.number("_size")?;
    let next = at.checked_add(size).filter(|&next| size != 0 && next <= end);
    let next = next.ok_or(VmError::Invalid { what: "a codelet without a valid size", at })?;
    let name = view.ptr("_description")?;
    let name =
        vm.memory.public_text(name, limits::MAX_VM_NAME).map_err(VmError::fault("InterpreterCodelet", "name"))?;
    // -1 if it is not for a bytecode.
    let bytecode = view.signed("_bytecode").ok().and_then(|code| u8::try_from(code).ok());
    Ok((Codelet { range: AddrRange::new(at, next), name, bytecode }, next))
}
