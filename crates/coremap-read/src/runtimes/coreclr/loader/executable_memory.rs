//! Memory of the runtime's ExecutableAllocator (W^X, from 7 on): blocks of one memfd, which contain code and loader
//! heaps, and the writable views of them.
//!
//! Source: src/coreclr/inc/executableallocator.h. No symbol leads to its only instance, so it is searched: a pointer in
//! the runtime's writable data refers to it. It has lists of used and of free blocks. Offsets in the memfd are assigned
//! consecutively and never reused. The blocks of both lists therefore cover all offsets below the first unassigned one
//! exactly once. Nothing else looks like that.

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::image::ModuleKind;
use crate::image::modules::page_size;
use crate::layout::StructView;
use crate::limits;
use crate::map::{Confidence, Kind};
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::range_map::Ranged;
use crate::runtimes::coreclr::runtime::Runtime;
use crate::sums::SaturatingSum;

/// Memory handed out by the allocator.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExecutableMemory {
    /// Address of the allocator.
    pub at: Addr,
    /// Blocks in use, by address.
    pub blocks: Vec<CodeBlock>,
    /// Writable views of parts of the blocks.
    pub views: Vec<CodeView>,
    /// Bytes of the memfd that were assigned.
    pub given: u64,
    /// Assigned bytes that are in no block.
    pub missing: u64,
}

/// A block in use: a mapping of the memfd. Parts of it may still be inaccessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    /// Address of its BlockRX.
    pub at: Addr,
    /// Mapped addresses.
    pub range: AddrRange,
    /// Offset in the memfd, in bytes.
    pub offset: u64,
}

impl Ranged for CodeBlock {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// A second, writable mapping of part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeView {
    /// Address of its BlockRW.
    pub at: Addr,
    /// Mapped addresses.
    pub range: AddrRange,
    /// Address of the same bytes in the block.
    pub first: Addr,
}

/// Finds the allocator's blocks. `None` if there are none (before 7, or with W^X turned off), or if they are not in the
/// core.
pub(crate) fn executable_memory(process: &Process, runtime: &Runtime) -> Option<ExecutableMemory> {
    let ModuleKind::Elf(image) = &process.modules.get(runtime.module)?.kind else { return None };
    let _phase = process.enter(Phase::CodeHeaps);
    let memory: &dyn Memory = &process.memory;
    let walks = Walks::new(Phase::CodeHeaps, limits::MAX_LOADER_BLOCKS);
    let search = Search { memory, runtime, page: page_size(process.facts()), walks };
    let mut seen = HashSet::new();
    let mut best: Option<ExecutableMemory> = None;
    for part in image.writable_parts(memory) {
        let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
        for word in bytes.as_chunks::<8>().0 {
            let at = Addr::new(u64::from_le_bytes(*word));
            // The allocator is a malloc block, and those are aligned to 16.
            if at.is_null() || !at.is_aligned(16) || image.range.contains(at) || !seen.insert(at) {
                continue;
            }
            let Some(found) = search.allocator(at) else { continue };
            if found.missing == 0 {
                return Some(found);
            }
            if best.as_ref().is_none_or(|b| found.missing < b.missing) {
                best = Some(found);
            }
        }
    }
    best
}

struct Search<'a> {
    memory: &'a dyn Memory,
    runtime: &'a Runtime,
    page: u64,
    /// Bounds the lists of all candidates for the allocator.
    walks: Walks,
}

impl<'a> Search<'a> {
    fn view(&self, kind: &'a str, at: Addr) -> StructView<'a> {
        StructView::new(self.memory, &self.runtime.layout, kind, at)
    }

    fn is_size(&self, bytes: u64) -> bool {
        bytes > 0 && bytes.is_multiple_of(self.page)
    }

    /// Reads the allocator at `at`, if there is one.
    fn allocator(&self, at: Addr) -> Option<ExecutableMemory> {
        let view = self.view("ExecutableAllocator", at);
        let given = view.u64("FreeOffset").ok().filter(|&g| self.is_size(g))?;
        if given > view.u64("MaxSize").ok()? {
            return None;
        }
        let used = self.blocks(view.ptr("FirstBlockRX").ok()?, given, true)?;
        let free = self.blocks(view.ptr("FirstFreeBlockRX").ok()?, given, false)?;
        let mut offsets: Vec<(u64, u64)> = used.iter().chain(&free).map(|b| (b.offset, b.range.len())).collect();
        offsets.sort_unstable();
        let mut end = 0;
        for &(offset, len) in &offsets {
            if offset < end {
                return None;
            }
            end = offset.saturating_add(len);
        }
        let all: u64 = offsets.iter().map(|o| o.1).saturating_sum();
        let missing = given.checked_sub(all)?;
        // An allocator that is being modified may lack a block, but not more than half of the bytes.
        if used.is_empty() || missing > all {
            return None;
        }
        let mut blocks = used;
        blocks.sort_unstable_by_key(|b| b.range.start);
        if blocks.is_sorted_by(|a, b| a.range.end <= b.range.start) {
            let views = self.views(view.ptr("FirstBlockRW").ok()?, &blocks).unwrap_or_default();
            Some(ExecutableMemory { at, blocks, views, given, missing })
        } else {
            None
        }
    }

    /// Reads the nodes of a list with `take`. `None` if a node is invalid. Two candidates may share a list, so each
    /// walk remembers its own nodes.
    fn walk<T>(&self, kind: &'a str, first: Addr, take: impl Fn(&StructView<'a>) -> Option<T>) -> Option<Vec<T>> {
        let mut out = Vec::new();
        let end = self.walks.begin_own_set().follow(first, |at| {
            let view = self.view(kind, at);
            let fits = at.is_aligned(8).then(|| take(&view)).flatten();
            out.push(fits.ok_or("no block")?);
            view.ptr("Next").map_err(|_| "no next")
        });
        end.ok().map(|()| out)
    }

    /// Reads a list of blocks. A free block has no valid address.
    fn blocks(&self, first: Addr, given: u64, used: bool) -> Option<Vec<CodeBlock>> {
        let page = self.page;
        self.walk("ExecutableBlockRX", first, |node| {
            let (base, size, offset) = (node.ptr("Base").ok()?, node.u64("Size").ok()?, node.u64("Offset").ok()?);
            let inside = offset.checked_add(size)? <= given && size > 0;
            if !inside || !size.is_multiple_of(page) || !offset.is_multiple_of(page) {
                return None;
            }
            if used && (base.is_null() || !base.is_aligned(page)) {
                return None;
            }
            // The address of a free block is not used.
            let base = if used { base } else { Addr::NULL };
            base.checked_add(size)?;
            Some(CodeBlock { at: node.addr, range: AddrRange::sized(base, size), offset })
        })
    }

    fn views(&self, first: Addr, blocks: &[CodeBlock]) -> Option<Vec<CodeView>> {
        let page = self.page;
        self.walk("ExecutableBlockRW", first, |node| {
            let (base, of, size) = (node.ptr("Base").ok()?, node.ptr("Of").ok()?, node.u64("Size").ok()?);
            let range = AddrRange::new(base, base.checked_add(size)?);
            let source = AddrRange::new(of, of.checked_add(size)?);
            let i = blocks.partition_point(|b| b.range.end <= of);
            let known = blocks.get(i).is_some_and(|b| b.range.covers(&source));
            (known && size > 0 && base.is_aligned(page) && of.is_aligned(page) && !range.is_empty())
                .then_some(CodeView { at: node.addr, range, first: of })
        })
    }
}

impl ExecutableMemory {
    /// Labels for the blocks and views.
    pub(in crate::runtimes::coreclr) fn labels(&self, process: &Process, runtime: &Runtime) -> Vec<Label> {
        let sure = if self.missing == 0 { Confidence::Exact } else { Confidence::Derived };
        let file = runtime.code_file().unwrap_or_default();
        let stub = runtime.layout.text("CallCountingStub").and_then(from_hex);
        let block = |b: &CodeBlock| {
            let evidence =
                format!("ExecutableAllocator at {}, BlockRX at {}: offset {:#x} of its memfd", self.at, b.at, b.offset);
            let is_stub = stub
                .as_ref()
                .is_some_and(|code| process.memory.bytes(b.range.start, code.len()).is_ok_and(|bytes| bytes == *code));
            let (confidence, detail) = match is_stub {
                true => (sure.min(Confidence::Derived), format!("{file}: call counting stubs, by their code bytes")),
                false => (sure, format!("{file}: .NET executable memory outside of the heaps that coremap reads")),
            };
            Label { range: b.range, kind: Kind::SharedMemory, confidence, detail, evidence }
        };
        let view = |v: &CodeView| Label {
            range: v.range,
            kind: Kind::DoubleMapped,
            confidence: sure,
            detail: format!("second view of {}, {file}", v.first),
            evidence: format!("ExecutableAllocator at {}, BlockRW at {}", self.at, v.at),
        };
        self.blocks.iter().map(block).chain(self.views.iter().map(view)).collect()
    }
}

pub(in crate::runtimes::coreclr) struct Label {
    pub(in crate::runtimes::coreclr) range: AddrRange,
    pub(in crate::runtimes::coreclr) kind: Kind,
    pub(in crate::runtimes::coreclr) confidence: Confidence,
    pub(in crate::runtimes::coreclr) detail: String,
    pub(in crate::runtimes::coreclr) evidence: String,
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
