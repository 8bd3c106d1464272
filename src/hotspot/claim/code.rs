//! The code cache: its heaps, their maps of segments, and in them the interpreter and the stubs.
//!
//! src/hotspot/share: code/codeCache.hpp, memory/heap.hpp, code/stubs.hpp, interpreter/abstractInterpreter.hpp.

use crate::addr::{Addr, AddrRange};
use crate::hotspot::HotSpot;
use crate::hotspot::claim::{Known, Sink, virtual_space, words};
use crate::hotspot::classes::WORD;
use crate::hotspot::vm::{Vm, VmError};
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;

/// A part of the code cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeHeap {
    /// What the VM calls it: `profiled nmethods`; empty where that is not found.
    pub(crate) name: String,
    /// Address space set aside for it.
    pub(crate) reserved: AddrRange,
    /// What of that is committed.
    pub(crate) committed: AddrRange,
    /// Bytes of a segment: blocks are multiples of it.
    segment: u64,
    /// The same of its map of segments, with what was reserved for it.
    map: Option<(AddrRange, AddrRange)>,
}

impl CodeHeap {
    fn read(vm: &Vm<'_>, at: Addr) -> Result<CodeHeap, VmError> {
        let view = vm.at("CodeHeap", at);
        let (reserved, committed) = virtual_space(vm, view.addr_of("_memory")?)?;
        let map = view.addr_of("_segmap").and_then(|at| virtual_space(vm, at)).ok();
        let log2 = view.number("_log2_segment_size")?;
        let segment = u32::try_from(log2).ok().and_then(|log2| 1_u64.checked_shl(log2));
        let segment = segment.ok_or(VmError::Nonsense { what: "a segment size of a code heap", at })?;
        Ok(CodeHeap { name: name(vm, at), reserved, committed, segment, map })
    }

    /// Visit its blocks: what each holds without its header, and whether it is used. They end where a block has no
    /// length, or the committed part does.
    pub(crate) fn each_block(&self, vm: &Vm<'_>, mut visit: impl FnMut(AddrRange, bool)) -> Result<(), VmError> {
        let header = vm.size_of("HeapBlock")?;
        let mut at = self.committed.start;
        while at < self.committed.end {
            let block = vm.at("HeapBlock::Header", vm.at("HeapBlock", at).addr_of("_header")?);
            let len = block.number("_length")?.saturating_mul(self.segment);
            if len == 0 {
                break;
            }
            let end = at.saturating_add(len).min(self.committed.end);
            visit(AddrRange::new(at.saturating_add(header).min(end), end), block.number("_used")? & 0xff != 0);
            at = end;
        }
        Ok(())
    }
}

/// The heaps of the code cache: one or three, by `-XX:SegmentedCodeCache`.
pub(crate) fn code_heaps(vm: &Vm<'_>) -> Result<Vec<CodeHeap>, VmError> {
    let heaps = vm.static_ptr("CodeCache", "_heaps")?;
    let list = vm.first_type(&["GrowableArrayBase", "GenericGrowableArray"]);
    let list = list.ok_or_else(|| VmError::MissingType("GrowableArrayBase".to_owned()))?;
    let count = vm.at(list, heaps).number("_len")?.min(limits::MAX_CODE_HEAPS);
    let data = vm.at("GrowableArray<int>", heaps).ptr("_data")?;
    let heap = |i: u64| {
        let at = vm.memory.ptr(data.wrapping_add(i * WORD)).map_err(VmError::fault("CodeCache", "_heaps"))?;
        CodeHeap::read(vm, at)
    };
    (0..count).map(heap).collect()
}

/// What the VM calls a heap. No table has the field; it is the word of it that leads to such a text.
fn name(vm: &Vm<'_>, at: Addr) -> String {
    let fields = words(vm, at, vm.size_of("CodeHeap").unwrap_or(0).min(limits::MAX_VM_OBJECT));
    let text = |&(_, word): &(Addr, u64)| vm.memory.text(Addr::new(word), limits::MAX_VM_NAME).ok();
    let named = |text: String| match text.strip_prefix("CodeHeap '") {
        Some(name) => Some(name.trim_end_matches('\'').to_owned()),
        None => (text == "CodeCache").then_some(text),
    };
    fields.iter().filter(|(_, word)| *word != 0).filter_map(text).find_map(named).unwrap_or_default()
}

pub(super) fn claim(hotspot: &HotSpot<'_>, out: &mut Sink<'_>) {
    let vm = hotspot.vm();
    let heaps = code_heaps(vm).unwrap_or_else(|e| {
        hotspot.tell("code cache", &e.to_string());
        Vec::new()
    });
    let known = Known::exact("CodeCache::_heaps, CodeHeap::_memory");
    for heap in &heaps {
        let name = if heap.name.is_empty() { "a part without a name" } else { &heap.name };
        out.add(heap.committed, Kind::CodeCache, name, known);
        let reserved = format!("reserved for the code cache: {name}");
        for rest in [
            AddrRange::new(heap.reserved.start, heap.committed.start),
            AddrRange::new(heap.committed.end, heap.reserved.end),
        ] {
            out.add(rest, Kind::NoAccess, &reserved, known);
        }
        if let Some((reserved, committed)) = heap.map {
            let known = Known::exact("CodeHeap::_segmap");
            out.add(committed, Kind::CodeCache, &format!("segment map of {name}"), known);
            let rest = AddrRange::new(committed.end, reserved.end);
            out.add(rest, Kind::NoAccess, &format!("reserved for the segment map of {name}"), known);
        }
        stubs(vm, heap, out);
    }
    if let Err(e) = interpreter(vm, out) {
        hotspot.tell("interpreter", &e.to_string());
    }
}

/// Code of the VM's own in a heap: what StubRoutines generated.
fn stubs(vm: &Vm<'_>, heap: &CodeHeap, out: &mut Sink<'_>) {
    // Only where there are no methods: the largest heap has a block for each of 100,000.
    if heap.name.ends_with("nmethods") && !heap.name.starts_with("non-nmethods") {
        return;
    }
    let mut found = Vec::new();
    let read = heap.each_block(vm, |block, used| {
        let name = || vm.memory.text(vm.at("CodeBlob", block.start).ptr("_name").ok()?, limits::MAX_VM_NAME).ok();
        if used && found.len() < limits::MAX_STUB_BLOBS && name().is_some_and(|n| n.starts_with("StubRoutines")) {
            found.push(block);
        }
    });
    if read.is_ok() {
        let known = Known::exact("CodeBlob::_name in the blocks of the code heap");
        found.iter().for_each(|block| out.add(*block, Kind::CodeCache, "stub routines", known));
    }
}

/// The interpreter: a queue of pieces of code, one for each bytecode and entry.
fn interpreter(vm: &Vm<'_>, out: &mut Sink<'_>) -> Result<(), VmError> {
    let queue = vm.at("StubQueue", vm.static_ptr("AbstractInterpreter", "_code")?);
    let range = AddrRange::sized(queue.ptr("_stub_buffer")?, queue.number("_buffer_limit")?);
    out.add(range, Kind::CodeCache, "interpreter", Known::exact("AbstractInterpreter::_code"));
    Ok(())
}
