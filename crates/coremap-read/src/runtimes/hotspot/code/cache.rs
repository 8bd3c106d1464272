//! The code cache: heaps of blocks. Each block has a header (HeapBlock) with its length in segments.

use std::sync::OnceLock;

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::code::blob::{Blob, Blobs};
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// A heap of the code cache (CodeHeap).
#[derive(Debug)]
pub struct CodeHeap {
    /// The VM's name of the heap: `profiled nmethods`. Empty if not found.
    pub name: String,
    /// Reserved addresses.
    pub reserved: AddrRange,
    /// Committed addresses.
    pub committed: AddrRange,
    /// Bytes per segment. Blocks consist of whole segments.
    pub segment: u64,
    /// Its segment map: reserved and committed addresses.
    pub segment_map: Option<(AddrRange, AddrRange)>,
    blocks: OnceLock<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// Blobs of the blocks in use.
    blobs: Vec<Blob>,
    /// Bytes of blocks in use, and of free ones.
    used: u64,
    free: u64,
}

/// Returns the heaps by address, and why others cannot be read.
pub(super) fn heaps(vm: &Vm<'_>) -> Result<(Vec<CodeHeap>, Vec<VmError>), VmError> {
    let array = vm.static_ptr("CodeCache", "_heaps")?;
    // The base class is GenericGrowableArray up to JDK 15.
    let base = vm.first_type(&["GrowableArrayBase", "GenericGrowableArray"]).unwrap_or("GrowableArrayBase");
    let count = vm.at(base, array).number("_len")?.min(limits::MAX_CODE_HEAPS);
    let data = vm.at("GrowableArray<int>", array).ptr("_data")?;
    let (mut out, mut bad) = (Vec::new(), Vec::new());
    for i in 0..count {
        let slot = data.wrapping_add(i * WORD);
        let found = vm.memory.ptr(slot).map_err(VmError::fault("CodeCache", "_heaps"));
        match found.and_then(|address| heap(vm, address)) {
            Ok(heap) => out.push(heap),
            Err(e) => bad.push(e),
        }
    }
    out.sort_by_key(|heap| heap.committed.start);
    Ok((out, bad))
}

fn heap(vm: &Vm<'_>, address: Addr) -> Result<CodeHeap, VmError> {
    let heap = vm.at("CodeHeap", address);
    let (reserved, committed) = vm.virtual_space(heap.addr_of("_memory")?)?;
    let log2 = heap.number("_log2_segment_size")?;
    let segment = u32::try_from(log2).ok().and_then(|log2| 1_u64.checked_shl(log2));
    let segment = segment.ok_or(VmError::Invalid { what: "an invalid segment size in the code heap", at: address })?;
    let segment_map = heap.addr_of("_segmap").and_then(|at| vm.virtual_space(at)).ok();
    let name = name(vm, address);
    Ok(CodeHeap { name, reserved, committed, segment, segment_map, blocks: OnceLock::new() })
}

/// Returns the VM's name of a heap. No table has the field; it is the word of the CodeHeap that points to such a text.
fn name(vm: &Vm<'_>, at: Addr) -> String {
    let len = vm.size_of("CodeHeap").unwrap_or(0).min(limits::MAX_VM_OBJECT);
    let bytes = vm.memory.look(at, len as usize).unwrap_or_default();
    let words = bytes.as_chunks::<8>().0.iter().map(|word| Addr::new(u64::from_le_bytes(*word)));
    let named = |word: Addr| {
        let text = vm.memory.public_text(word, limits::MAX_VM_NAME).ok()?;
        match text.strip_prefix("CodeHeap '") {
            Some(name) => Some(name.trim_end_matches('\'').to_owned()),
            None => (text == "CodeCache").then_some(text),
        }
    };
    words.filter(|word| !word.is_null()).find_map(|word| vm.process.reads().attempt(|| named(word))).unwrap_or_default()
}

impl CodeHeap {
    pub(super) fn blobs(&self, vm: &Vm<'_>) -> &[Blob] {
        &self.blocks(vm).blobs
    }

    /// Returns the bytes of blocks in use, and of free blocks between them.
    pub(super) fn sizes(&self, vm: &Vm<'_>) -> (u64, u64) {
        let blocks = self.blocks(vm);
        (blocks.used, blocks.free)
    }

    fn blocks(&self, vm: &Vm<'_>) -> &Blocks {
        self.blocks.get_or_init(|| {
            let mut blocks = Blocks::default();
            let mut notes = Notes::default();
            if let Err(e) = self.read(vm, &mut blocks, &mut notes) {
                vm.process.diag.partial(
                    WarningCode::Hotspot,
                    format!("{}: the code heap at {} can't be read to its end: {e}", vm.name(), self.committed.start),
                );
            }
            if let Some(first) = notes.first {
                let more = notes.bad.saturating_sub(1);
                let more = if more == 0 { String::new() } else { format!(", and {more} more") };
                vm.process
                    .diag
                    .partial(WarningCode::Hotspot, format!("{}: code blobs are missing: {first}{more}", vm.name()));
            }
            blocks
        })
    }

    fn read(&self, vm: &Vm<'_>, blocks: &mut Blocks, notes: &mut Notes) -> Result<(), VmError> {
        let (head, mut blobs) = (vm.size_of("HeapBlock")?, Blobs::new(vm));
        let (mut at, high) = (self.committed.start, self.committed.end);
        for _ in 0..limits::MAX_CODE_HEAP_BLOCKS {
            if at >= high {
                return Ok(());
            }
            let header = vm.at("HeapBlock::Header", vm.at("HeapBlock", at).addr_of("_header")?);
            let (segments, used) = (header.number("_length")?, header.number("_used")? != 0);
            // Committed memory after the last block was never used.
            if segments == 0 {
                return Ok(());
            }
            let len = segments.checked_mul(self.segment);
            let next = len.and_then(|len| at.checked_add(len)).filter(|&next| next <= high);
            let end = next.unwrap_or(high);
            match used {
                true => blocks.used += end.since(at),
                false => blocks.free += end.since(at),
            }
            if used {
                match blobs.read(at.saturating_add(head), end) {
                    Ok(blob) => blocks.blobs.push(blob),
                    Err(e) => notes.add(e),
                }
            }
            at = next.ok_or(VmError::Invalid { what: "a block without a valid size", at })?;
        }
        Err(VmError::Invalid { what: "more blocks than the limit", at })
    }
}

/// Blobs that could not be read.
#[derive(Default)]
struct Notes {
    first: Option<VmError>,
    bad: usize,
}

impl Notes {
    fn add(&mut self, e: VmError) {
        self.bad += 1;
        self.first.get_or_insert(e);
    }
}
