//! A piece of the code cache: CodeBlob, with its head, code and tables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::{Vm, VmError, VmStruct};

/// Names of blobs that are compiled methods: up to JDK 22 there is no `CodeBlob::_kind`.
const COMPILED: [&str; 2] = [NMETHOD, NATIVE];
const NMETHOD: &str = "nmethod";
/// What is made for native methods: moves the arguments and calls.
const NATIVE: &str = "native nmethod";

/// A piece of code with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// All of it, from its head on.
    pub range: AddrRange,
    /// Its instructions, stubs at their end included.
    pub code: AddrRange,
    /// The VM's name of it: `nmethod`, `I2C/C2I adapters`, `StubRoutines (1)`, `new_instance Runtime1 stub`.
    pub name: Arc<str>,
    /// Words of a frame of this code, with the return address: the caller's stack pointer is so far above. `None` where it has
    /// no frame of its own, or one that is not told.
    pub frame_size: Option<u32>,
    /// What was compiled, of a method's code.
    pub compiled: Option<Compiled>,
}

/// A compiled method (nmethod).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its Method.
    pub method: Addr,
    /// The VM's number of the compilation, which `-XX:+PrintCompilation` shows.
    pub id: u32,
    /// Level: 1 to 3 by C1, 4 by C2, 0 for native methods.
    pub level: i8,
    /// State, a number that differs between releases: -1 not yet installed, 0 in use, above that no longer entered.
    pub state: i8,
    /// The bytecode of a loop that it is entered at, of code made for a method that was running (on-stack replacement).
    pub osr: Option<u32>,
    /// Whether it is a wrapper of a native method.
    pub native: bool,
}

/// Reads blobs of one heap. Names are few and asked for often.
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

    /// The blob at `at`, which ends at `end` at most.
    pub(super) fn read(&mut self, at: Addr, end: Addr) -> Result<Blob, VmError> {
        let blob = self.vm.at("CodeBlob", at);
        let past = at.checked_add(blob.number("_size")?).filter(|&past| past > at && past <= end);
        let range = AddrRange::new(at, past.ok_or(VmError::Nonsense { what: "a code blob without a valid size", at })?);
        let code = code(&blob)?;
        if code.start > code.end || !range.covers(&code) {
            return Err(VmError::Nonsense { what: "a code blob whose code is outside of it", at });
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

/// Up to JDK 22 a blob has the addresses, later offsets.
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
    /// Where the return address of a frame is kept, in bytes from its stack pointer, if `pc` is a handler of deoptimization.
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
