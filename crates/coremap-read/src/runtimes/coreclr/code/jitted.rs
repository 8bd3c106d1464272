//! Jitted code: the blocks of a code heap and their headers.
//!
//! Source: src/coreclr/vm/codeman.h: HeapList (CodeHeapListNode), CodeHeader (one pointer right before the code) and
//! RealCodeHeader.

use crate::addr::{Addr, AddrRange};
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::runtimes::coreclr::code::nibble;
use crate::runtimes::coreclr::code::ranges::CodeRange;
use crate::runtimes::coreclr::code::unwind::{FunctionForm, RuntimeFunction, UnwindEntry};
use crate::runtimes::coreclr::runtime::Runtime;

/// Header words up to this are kinds of stubs, not pointers (STUB_CODE_BLOCK_LAST; StubCodeBlockLast of the
/// descriptor).
const STUB_CODE_BLOCK_LAST: u64 = 0xf;

/// Bytes of a nibble map that use up as much of the limit as a block (16 words).
const MAP_BYTES_PER_BLOCK: usize = 64;

/// A block of jitted code, or of stubs between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum CodeBlock {
    /// A method's code.
    Method {
        start: Addr,
        /// Bytes up to the end of its last funclet.
        size: u64,
        method_desc: Addr,
        /// Address of the debug info; 0 if there is none.
        debug_info: Addr,
        /// Address of the first RUNTIME_FUNCTION, and their number.
        unwind: (Addr, u32),
        gc_info: Addr,
        /// Address of the exception clauses; 0 if there are none.
        eh_info: Addr,
    },
    Stubs {
        /// StubCodeBlockKind (STUB_CODE_BLOCK_*).
        kind: u64,
    },
}

/// Reads the RUNTIME_FUNCTIONs of a block, given the first one's address and their number.
fn functions(
    memory: &dyn Memory,
    form: &FunctionForm,
    (first, count): (Addr, u32),
) -> Result<Vec<RuntimeFunction>, Fault> {
    let count = u64::from(count.min(limits::MAX_FUNCLETS));
    Ok(form.all(&memory.bytes(first, (count * form.size()) as usize)?).collect())
}

/// A code heap with the starts of its blocks.
#[derive(Clone, Debug)]
pub(in crate::runtimes::coreclr) struct CodeHeap {
    /// Start of the section. Unwind RVAs are relative to it.
    begin: Addr,
    /// End of the used part.
    end: Addr,
    starts: Vec<Addr>,
}

impl CodeHeap {
    /// Reads the nibble map of the heap that `node` describes. `room` is what remains of [`limits::MAX_CODE_BLOCKS`]
    /// for all heaps.
    ///
    /// # Errors
    /// If the node or its map is not in the core.
    pub(in crate::runtimes::coreclr) fn read(
        memory: &dyn Memory,
        runtime: &Runtime,
        range: &CodeRange,
        node: Addr,
        room: &mut usize,
    ) -> Result<CodeHeap, ViewError> {
        let layout = &runtime.layout;
        let view = StructView::new(memory, layout, "CodeHeapListNode", node);
        let (base, map, end) = (view.ptr("MapBase")?, view.ptr("HeaderMap")?, view.ptr("EndAddress")?);
        let span = AddrRange::new(base, end.max(base)).len().min(limits::MAX_CODE_HEAP);
        let bytes = span.div_ceil(nibble::BYTES_PER_WORD) * nibble::MAP_WORD;
        // Words that exceed the remaining room are not read.
        let bytes = bytes.min((*room * MAP_BYTES_PER_BLOCK) as u64);
        let words = memory.bytes(map, bytes as usize).map_err(ViewError::fault("CodeHeapListNode", "HeaderMap"))?;
        // Version 2 introduced pointers (.NET 10). From .NET 11 on, versions begin with "c" and start again at 1.
        let pointers = layout.contract("ExecutionManager").is_some_and(|v| v != "1");
        *room = room.saturating_sub(words.len() / MAP_BYTES_PER_BLOCK);
        let mut starts = nibble::starts(&words, base, pointers, *room);
        *room -= starts.len();
        starts.retain(|&s| s < end);
        Ok(CodeHeap { begin: range.begin, end, starts })
    }

    /// Whether at least half of a sample of the starts has the header of a stub, or of a method with code.
    pub(in crate::runtimes::coreclr) fn has_methods(&self, memory: &dyn Memory, runtime: &Runtime) -> bool {
        let every = (self.starts.len() / limits::MAX_CHECKED_SEGMENTS).max(1);
        let sample = self.starts.iter().step_by(every);
        let verdicts: Vec<bool> = sample
            .filter_map(|&start| match self.block(memory, runtime, start) {
                Ok(CodeBlock::Stubs { .. }) => Some(true),
                Ok(CodeBlock::Method { size, method_desc, .. }) => Some(size > 0 && method_desc.is_aligned(8)),
                // Not counted if its header is not in the core.
                Err(_) => memory.ptr(start.saturating_sub(8)).ok().map(|_| false),
            })
            .collect();
        verdicts.iter().filter(|good| **good).count() * 2 >= verdicts.len()
    }

    pub(in crate::runtimes::coreclr) fn starts(&self) -> &[Addr] {
        &self.starts
    }

    /// Start of the last block that begins at or before `ip`. The block itself may end before `ip`.
    pub(in crate::runtimes::coreclr) fn start_of(&self, ip: Addr) -> Option<Addr> {
        let after = self.starts.partition_point(|&s| s <= ip);
        (ip < self.end).then(|| self.starts.get(after.checked_sub(1)?).copied())?
    }

    /// Returns the function or funclet that contains `ip`. `unwind`: address and number of the block's
    /// RUNTIME_FUNCTIONs.
    pub(in crate::runtimes::coreclr) fn unwind_entry(
        &self,
        memory: &dyn Memory,
        runtime: &Runtime,
        unwind: (Addr, u32),
        ip: Addr,
    ) -> Option<UnwindEntry> {
        let form = FunctionForm::of(runtime.arch, &runtime.layout).ok()?;
        functions(memory, &form, unwind).ok()?.into_iter().find_map(|function| {
            let address = |rva: u32| self.begin.saturating_add(u64::from(rva));
            let (begin, end) = (address(function.begin), address(form.end(memory, self.begin, &function).ok()?));
            let data = function.data;
            (begin <= ip && ip < end).then_some(UnwindEntry { base: self.begin, begin, end, data })
        })
    }

    /// Reads the block that starts at `start`.
    ///
    /// # Errors
    /// If its header is not in the core.
    pub(in crate::runtimes::coreclr) fn block(
        &self,
        memory: &dyn Memory,
        runtime: &Runtime,
        start: Addr,
    ) -> Result<CodeBlock, ViewError> {
        let header = memory.ptr(start.saturating_sub(8)).map_err(ViewError::fault("CodeHeader", "pRealCodeHeader"))?;
        if header.get() <= STUB_CODE_BLOCK_LAST {
            return Ok(CodeBlock::Stubs { kind: header.get() });
        }
        let layout = &runtime.layout;
        let view = StructView::new(memory, layout, "RealCodeHeader", header);
        let method_desc = view.ptr("MethodDesc")?;
        let count = view.u32("NumUnwindInfos")?.min(limits::MAX_FUNCLETS);
        let first = view.addr_of("UnwindInfos")?;
        let form = FunctionForm::of(runtime.arch, layout)?;
        let fault = ViewError::fault("RealCodeHeader", "UnwindInfos");
        let mut end = start;
        for function in functions(memory, &form, (first, count)).map_err(fault)? {
            let own = form.end(memory, self.begin, &function).map_err(fault)?;
            end = end.max(self.begin.saturating_add(u64::from(own)));
        }
        Ok(CodeBlock::Method {
            start,
            size: end.since(start).min(self.end.since(start.min(self.end))),
            method_desc,
            debug_info: view.ptr("DebugInfo").unwrap_or(Addr::NULL),
            unwind: (first, count),
            gc_info: view.ptr("GCInfo").unwrap_or(Addr::NULL),
            eh_info: view.ptr("EHInfo").unwrap_or(Addr::NULL),
        })
    }
}
