//! The VM's generated code: compiled methods, interpreter and stubs.
//!
//! src/hotspot/share/code: codeCache.hpp, codeBlob.hpp, nmethod.hpp, pcDesc.hpp, scopeDesc.hpp, stubs.hpp;
//! memory/heap.hpp; interpreter/interpreter.hpp; runtime/stubRoutines.hpp.

mod activations;
mod as_code;
mod blob;
mod cache;
mod frames;
mod interpreter;
mod scopes;
mod stubs;

pub use blob::{Blob, Compiled};
pub use cache::CodeHeap;
pub use interpreter::Interpreter;
pub use stubs::StubRoutine;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::phase::Phase;
use crate::runtimes::api::Method;
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::vm::VmError;

/// All code of one VM. Each item is read on first use and cached.
pub struct Code<'p> {
    classes: Arc<Classes<'p>>,
    heaps: OnceLock<Vec<CodeHeap>>,
    interpreter: OnceLock<Option<Interpreter>>,
    routines: OnceLock<Vec<StubRoutine>>,
    call_stub_return: OnceLock<Option<Addr>>,
    /// Methods of frames, by Method and start of their code.
    methods: Mutex<HashMap<(Addr, Addr), Arc<Method>>>,
}

impl<'p> Code<'p> {
    /// Makes a reader for the code of the VM of `classes`.
    pub fn new(classes: Arc<Classes<'p>>) -> Code<'p> {
        let (heaps, interpreter, routines, call_stub_return, methods) = Default::default();
        Code { classes, heaps, interpreter, routines, call_stub_return, methods }
    }

    /// Returns the heaps of the code cache, by address: one, or three since JDK 9 (`-XX:+SegmentedCodeCache`).
    pub fn heaps(&self) -> &[CodeHeap] {
        self.heaps.get_or_init(|| {
            let _phase = self.classes.vm.process.enter(Phase::Code);
            let (heaps, bad) = cache::heaps(&self.classes.vm).unwrap_or_else(|e| (Vec::new(), vec![e]));
            bad.iter().for_each(|e| self.warn_partial("code cache", e));
            heaps
        })
    }

    /// Returns the heap of the code cache that contains `pc`.
    pub fn heap_at(&self, pc: Addr) -> Option<&CodeHeap> {
        self.heaps().iter().find(|heap| heap.committed.contains(pc))
    }

    /// Returns the blob that contains `pc`, in its code or its other bytes. The first call for a heap reads the whole
    /// heap.
    pub fn blob_at(&self, pc: Addr) -> Option<&Blob> {
        let blobs = self.blobs(self.heap_at(pc)?);
        let after = blobs.partition_point(|blob| blob.range.start <= pc);
        blobs.get(after.checked_sub(1)?).filter(|blob| blob.range.contains(pc))
    }

    /// Returns the blobs of a heap of the code cache, by address.
    pub fn blobs<'c>(&self, heap: &'c CodeHeap) -> &'c [Blob] {
        let _phase = self.classes.vm.process.enter(Phase::Code);
        heap.blobs(&self.classes.vm)
    }

    /// Returns the bytes of blocks in use in a heap, and of free blocks between them. Memory after the last block is in
    /// neither.
    pub fn sizes(&self, heap: &CodeHeap) -> (u64, u64) {
        let _phase = self.classes.vm.process.enter(Phase::Code);
        heap.sizes(&self.classes.vm)
    }

    /// Returns the interpreter with its codelets. `None` if it cannot be read.
    pub fn interpreter(&self) -> Option<&Interpreter> {
        let read = || {
            let _phase = self.classes.vm.process.enter(Phase::Code);
            Interpreter::read(&self.classes.vm).map_err(|e| self.warn_partial("interpreter", &e)).ok()
        };
        self.interpreter.get_or_init(read).as_ref()
    }

    /// Whether `pc` is in the interpreter's code. Only the frame shows which Java method runs there.
    pub fn is_interpreter(&self, pc: Addr) -> bool {
        self.interpreter().is_some_and(|interpreter| interpreter.range.contains(pc))
    }

    /// Returns where the call stub continues after the Java method that it called. This is the return address of the
    /// first Java frame above native code (`StubRoutines::_call_stub_return_address`).
    pub fn call_stub_return(&self) -> Option<Addr> {
        let read = || self.classes.vm.static_ptr("StubRoutines", "_call_stub_return_address").ok();
        self.call_stub_return.get_or_init(read).filter(|at| !at.is_null())
    }

    /// Returns the methods that run at `pc` of a compiled method, each with its bytecode index.
    ///
    /// The innermost inlined method comes first and the compiled method last. `pc` is a return address or any other
    /// address. The debug information at or after it applies. The index is -1 before the first bytecode. Empty if
    /// nothing is known.
    pub fn scopes(&self, blob: &Blob, pc: Addr) -> Vec<(Addr, i32)> {
        let _phase = self.classes.vm.process.enter(Phase::Code);
        scopes::at(&self.classes.vm, blob, pc).unwrap_or_default()
    }

    /// If `pc` is where the VM redirects returns into invalid code, returns where a frame stores its original return
    /// address, in bytes from the stack pointer (`nmethod::get_original_pc`). Not measured.
    pub fn original_pc(&self, blob: &Blob, pc: Addr) -> Option<u64> {
        blob.original_pc(&self.classes.vm, pc)
    }

    /// Returns the stubs that the VM's tables name (`StubRoutines::_*`), by address: some fifty up to JDK 21, none in
    /// 25.
    pub fn routines(&self) -> &[StubRoutine] {
        self.routines.get_or_init(|| stubs::routines(&self.classes.vm))
    }

    fn warn_partial(&self, what: &str, why: &VmError) {
        let vm = &self.classes.vm;
        vm.process.diag.partial(WarningCode::Hotspot, format!("{}: {what}: {why}", vm.name()));
    }
}
