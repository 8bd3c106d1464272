//! Jitted code: the blocks of a code heap and their headers.
//!
//! src/coreclr/vm/codeman.h: HeapList (CodeHeapListNode), CodeHeader (one
//! pointer right before the code) and RealCodeHeader.

use crate::addr::{Addr, AddrRange};
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::runtimes::coreclr::code::nibble;
use crate::runtimes::coreclr::code::ranges::CodeRange;
use crate::runtimes::coreclr::code::unwind::{FunctionForm, RuntimeFunction, UnwindEntry};
use crate::runtimes::coreclr::runtime::Runtime;

/// Header words up to this are no pointers but kinds of stubs
/// (STUB_CODE_BLOCK_LAST; StubCodeBlockLast of the descriptor).
const STUB_CODE_BLOCK_LAST: u64 = 0xf;

/// Bytes of a map that count as much as a block (16 words).
const WORDS_PER_BLOCK: usize = 64;

/// A block of jitted code, or of stubs among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum CodeBlock {
    /// A method's code.
    Method {
        /// Where it begins.
        start: Addr,
        /// Bytes up to the end of its last funclet.
        size: u64,
        /// Its MethodDesc.
        method_desc: Addr,
        /// Its debug info (0 where there is none).
        debug_info: Addr,
        /// Its unwind information: address of the first RuntimeFunction, and how many.
        unwind: (Addr, u32),
        /// Its GC info.
        gc_info: Addr,
        /// Its exception clauses (0 where there are none).
        eh_info: Addr,
    },
    /// Stubs: StubCodeBlockKind.
    Stubs {
        /// STUB_CODE_BLOCK_*
        kind: u64,
    },
}

/// The RUNTIME_FUNCTIONs of a block: the first one's address, and how many.
fn functions(
    memory: &dyn Memory,
    form: &FunctionForm,
    (first, count): (Addr, u32),
) -> Result<Vec<RuntimeFunction>, Fault> {
    let count = u64::from(count.min(limits::MAX_FUNCLETS));
    Ok(form.all(&memory.bytes(first, (count * form.size()) as usize)?).collect())
}

/// One code heap, its blocks' starts read once.
#[derive(Clone, Debug)]
pub(in crate::runtimes::coreclr) struct CodeHeap {
    /// Section begin, which unwind RVAs count from.
    begin: Addr,
    /// End of what is used.
    end: Addr,
    starts: Vec<Addr>,
}

impl CodeHeap {
    /// Read the nibble map of the heap that `node` describes.
    ///
    /// `room` is what all heaps together may still have of [`limits::MAX_CODE_BLOCKS`].
    ///
    /// # Errors
    /// Where the node or its map is not in the core.
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
        // What there is no room for can't be looked through either.
        let bytes = bytes.min((*room * WORDS_PER_BLOCK) as u64);
        let words = memory.bytes(map, bytes as usize).map_err(ViewError::fault("CodeHeapListNode", "HeaderMap"))?;
        let pointers = layout.contract("ExecutionManager").is_some_and(|v| v.trim_start_matches('c') != "1");
        *room = room.saturating_sub(words.len() / WORDS_PER_BLOCK);
        let mut starts = nibble::starts(&words, base, pointers, *room);
        *room -= starts.len();
        starts.retain(|&s| s < end);
        Ok(CodeHeap { begin: range.begin, end, starts })
    }

    /// Starts of all blocks.
    pub(in crate::runtimes::coreclr) fn starts(&self) -> &[Addr] {
        &self.starts
    }

    /// Start of the block that covers `ip`, if it ends before the next begins.
    pub(in crate::runtimes::coreclr) fn start_of(&self, ip: Addr) -> Option<Addr> {
        let after = self.starts.partition_point(|&s| s <= ip);
        (ip < self.end).then(|| self.starts.get(after.checked_sub(1)?).copied())?
    }

    /// The function or funclet that holds `ip`, of those that `unwind` of a block counts.
    pub(in crate::runtimes::coreclr) fn unwind_entry(
        &self,
        memory: &dyn Memory,
        runtime: &Runtime,
        unwind: (Addr, u32),
        ip: Addr,
    ) -> Option<UnwindEntry> {
        let form = FunctionForm::of(runtime.arch, &runtime.layout).ok()?;
        functions(memory, &form, unwind).ok()?.into_iter().find_map(|function| {
            let place = |rva: u32| self.begin.saturating_add(u64::from(rva));
            let (begin, end) = (place(function.begin), place(form.end(memory, self.begin, &function).ok()?));
            let data = function.data;
            (begin <= ip && ip < end).then_some(UnwindEntry { base: self.begin, begin, end, data })
        })
    }

    /// The block that begins at `start`.
    ///
    /// # Errors
    /// Where its header is not in the core.
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
