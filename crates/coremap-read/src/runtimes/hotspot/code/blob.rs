//! A CodeBlob of the code cache, with its header, code and tables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::{Vm, VmError, VmStruct};

/// Names of blobs that are compiled methods. Up to JDK 22 there is no `CodeBlob::_kind`.
const COMPILED: [&str; 2] = [NMETHOD, NATIVE];
const NMETHOD: &str = "nmethod";
/// Name of the wrapper of a native method, which moves the arguments and calls the method.
const NATIVE: &str = "native nmethod";

/// A blob of code with its tables (CodeBlob).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Address range of the blob, with its header.
    pub range: AddrRange,
    /// Address range of its instructions, including stubs at their end.
    pub code: AddrRange,
    /// The VM's name of the blob: `nmethod`, `I2C/C2I adapters`, `StubRoutines (1)`, `new_instance Runtime1 stub`.
    pub name: Arc<str>,
    /// Size in words of a frame of this code, with the return address. The caller's stack pointer is this far above.
    /// `None` if the code has no frame of its own, or its size is unknown.
    pub frame_size: Option<u32>,
    /// The compiled method. `None` for other blobs.
    pub compiled: Option<Compiled>,
}

/// A compiled method (nmethod).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Address of its Method.
    pub method: Addr,
    /// The compilation's number, as in `-XX:+PrintCompilation`.
    pub id: u32,
    /// Compilation level: 1 to 3 by C1, 4 by C2, 0 for native methods.
    pub level: i8,
    /// State: -1 not yet installed, 0 in use, above 0 no longer entered. The numbers above 0 differ between releases.
    pub state: i8,
    /// Index of the loop's bytecode at which the code is entered, for on-stack replacement (code compiled while its
    /// method was running). `None` for other code.
    pub osr: Option<u32>,
    /// Whether this is a wrapper of a native method.
    pub native: bool,
}

/// Reads the blobs of one heap. Names are cached, since there are few.
pub(super) struct Blobs<'v, 'p> {
    vm: &'v Vm<'p>,
    names: HashMap<Addr, Arc<str>>,
    kind_nmethod: Option<i64>,
}

impl<'v, 'p> Blobs<'v, 'p> {
    pub(super) fn new(vm: &'v Vm<'p>) -> Blobs<'v, 'p> {
        let kinds = vm.tables.has("CodeBlob", "_kind");
        let kind_nmethod = vm.constant("CodeBlobKind::Nmethod").filter(|_| kinds);
        Blobs { vm, names: HashMap::new(), kind_nmethod }
    }

    /// Reads the blob at `at`, which must end at `end` or before.
    pub(super) fn read(&mut self, at: Addr, end: Addr) -> Result<Blob, VmError> {
        let blob = self.vm.at("CodeBlob", at);
        let past = at.checked_add(blob.number("_size")?).filter(|&past| past > at && past <= end);
        let range = AddrRange::new(at, past.ok_or(VmError::Invalid { what: "a code blob without a valid size", at })?);
        let code = code(&blob)?;
        if code.start > code.end || !range.covers(&code) {
            return Err(VmError::Invalid { what: "a code blob whose code is outside of it", at });
        }
        let name = self.name(blob.ptr("_name")?)?;
        let is_compiled = match self.kind_nmethod {
            Some(kind) => blob.signed("_kind")? == kind,
            None => COMPILED.contains(&&*name),
        };
        let frame_size = u32::try_from(blob.signed("_frame_size")?).ok().filter(|&words| words != 0);
        let compiled = is_compiled.then(|| compiled(self.vm, at, &name)).transpose()?;
        Ok(Blob { range, code, name, frame_size, compiled })
    }

    fn name(&mut self, at: Addr) -> Result<Arc<str>, VmError> {
        if let Some(known) = self.names.get(&at) {
            return Ok(known.clone());
        }
        let text = self.vm.memory.public_text(at, limits::MAX_VM_NAME).map_err(VmError::fault("CodeBlob", "_name"))?;
        let name: Arc<str> = text.into();
        self.names.insert(at, name.clone());
        Ok(name)
    }
}

/// Returns the range of a blob's code. Up to JDK 22 a blob has addresses, later offsets.
fn code(blob: &VmStruct<'_>) -> Result<AddrRange, VmError> {
    if blob.has("_code_begin") {
        return Ok(AddrRange { start: blob.ptr("_code_begin")?, end: blob.ptr("_code_end")? });
    }
    let at = |field| blob.number(field).map(|offset| blob.addr.saturating_add(offset));
    Ok(AddrRange { start: at("_code_offset")?, end: at("_data_offset")? })
}

fn compiled(vm: &Vm<'_>, at: Addr, name: &str) -> Result<Compiled, VmError> {
    let nmethod = vm.at("nmethod", at);
    let small = |field| nmethod.signed(field).map(|value| value.clamp(i8::MIN.into(), i8::MAX.into()) as i8);
    Ok(Compiled {
        method: nmethod.ptr("_method")?,
        id: nmethod.number("_compile_id")? as u32,
        level: small("_comp_level")?,
        state: small("_state").unwrap_or(0),
        // InvocationEntryBci is -1.
        osr: u32::try_from(nmethod.signed("_entry_bci")?).ok(),
        native: name == NATIVE,
    })
}

impl Blob {
    /// If `pc` is a deoptimization handler, returns where a frame stores its original return address, in bytes from the
    /// stack pointer.
    pub(super) fn original_pc(&self, vm: &Vm<'_>, pc: Addr) -> Option<u64> {
        self.compiled.as_ref()?;
        let nmethod = vm.at("nmethod", self.range.start);
        let by_address = |name: &str| nmethod.ptr(name).ok();
        let by_offset = |name: &str| nmethod.number(name).ok().map(|at| self.range.start.wrapping_add(at));
        let handlers = [
            by_address("_deopt_handler_begin").or_else(|| by_offset("_deopt_handler_offset")),
            by_address("_deopt_mh_handler_begin").or_else(|| by_offset("_deopt_mh_handler_offset")),
        ];
        if !self.code.contains(pc) || !handlers.contains(&Some(pc)) {
            return None;
        }
        nmethod.number("_orig_pc_offset").ok()
    }
}
