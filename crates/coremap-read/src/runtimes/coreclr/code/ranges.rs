//! The execution manager's range sections: a linked list up to .NET 7, a radix map with fragments from .NET 8 on.
//!
//! Sources: docs/design/datacontracts/ExecutionManager.md, "RangeSectionMap"; src/coreclr/vm/codeman.h, RangeSection
//! and RangeSectionMap.

use crate::addr::{Addr, AddrRange};
use crate::layout::{LayoutError, StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::phase::Phase;
use crate::range_map::{RangeMap, Ranged};
use crate::runtimes::coreclr::runtime::Runtime;

/// Contents of a code range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRangeKind {
    /// A JIT code heap, with its CodeHeapListNode (HeapList).
    Heap(Addr),
    /// A ReadyToRun image, with its Module.
    ReadyToRun(Addr),
    /// Stubs of one kind, with their CodeRangeMapRangeList.
    Stubs(Addr),
    /// None of these.
    Other,
}

/// An address range registered with the execution manager.
#[derive(Clone, Copy, Debug)]
pub struct CodeRange {
    /// Addresses of this fragment.
    pub range: AddrRange,
    /// Start of the whole section. RVAs of its unwind data are relative to it.
    pub begin: Addr,
    /// Contents of the range.
    pub kind: CodeRangeKind,
}

impl Ranged for CodeRange {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Reads all code ranges. Returns them with messages about what could not be read.
pub(in crate::runtimes::coreclr) fn read(memory: &dyn Memory, runtime: &Runtime) -> (RangeMap<CodeRange>, Vec<String>) {
    let mut notes = Vec::new();
    let layout = &runtime.layout;
    let mut found = Vec::new();
    if let Ok(head) = runtime.globals.pointer(memory, layout, "CodeRangeList") {
        list(memory, runtime, head, &mut found, &mut notes);
    } else {
        match runtime.globals.global(layout, "CodeRangeMap") {
            Ok(top) => {
                let mut walk = Radix {
                    memory,
                    runtime,
                    found: &mut found,
                    notes: &mut notes,
                    walks: Walks::new(Phase::Code, limits::MAX_CODE_RANGES),
                    cycles: 0,
                    full: false,
                };
                if let Err(e) = walk.run(top) {
                    walk.notes.push(e.to_string());
                }
            }
            Err(e) => notes.push(e.to_string()),
        }
    }
    // A section may have a fragment in each chunk that it touches.
    found.sort_by_key(|f: &CodeRange| (f.range.start, f.range.end));
    found.dedup_by_key(|f| f.range);
    let before = found.len();
    let mut end = Addr::NULL;
    found.retain(|f| {
        let fits = f.range.start >= end && !f.range.is_empty();
        if fits {
            end = f.range.end;
        }
        fits
    });
    if found.len() != before {
        notes.push(format!("{} code ranges overlap others and are ignored", before - found.len()));
    }
    (RangeMap::from_sorted(found).unwrap_or_default(), notes)
}

/// Reads the fields of a RangeSection.
fn section(memory: &dyn Memory, runtime: &Runtime, at: Addr) -> Result<CodeRange, ViewError> {
    let layout = &runtime.layout;
    let view = StructView::new(memory, layout, "RangeSection", at);
    let (begin, end) = (view.ptr("RangeBegin")?, view.ptr("RangeEndOpen")?);
    let flags = u64::from(view.u32("Flags")?);
    let flag = |name| layout.constant("RangeSectionFlags", name).is_ok_and(|bit| flags & bit != 0);
    let kind = if flag("CodeHeap") {
        CodeRangeKind::Heap(view.ptr("HeapList")?)
    } else if flag("RangeList") {
        CodeRangeKind::Stubs(view.ptr("RangeList")?)
    } else {
        match view.ptr("R2RModule")? {
            Addr::NULL => CodeRangeKind::Other,
            module => CodeRangeKind::ReadyToRun(module),
        }
    };
    Ok(CodeRange { range: AddrRange::new(begin, end.max(begin)), begin, kind })
}

/// Up to .NET 7: reads the list linked by RangeSection::pnext.
fn list(memory: &dyn Memory, runtime: &Runtime, head: Addr, out: &mut Vec<CodeRange>, notes: &mut Vec<String>) {
    let end = Walks::new(Phase::Code, limits::MAX_CODE_RANGES).begin().follow(head, |at| {
        out.push(section(memory, runtime, at)?);
        StructView::new(memory, &runtime.layout, "RangeSection", at).ptr("Next")
    });
    notes.extend(end.err().map(|why| format!("the list of code ranges {why}")));
}

/// .NET 8 and later: walks a map of several levels whose leaves are lists of fragments.
struct Radix<'a> {
    memory: &'a dyn Memory,
    runtime: &'a Runtime,
    found: &'a mut Vec<CodeRange>,
    notes: &'a mut Vec<String>,
    walks: Walks,
    cycles: usize,
    full: bool,
}

impl Radix<'_> {
    fn run(&mut self, top: Addr) -> Result<(), LayoutError> {
        let layout = &self.runtime.layout;
        let entries = 1u64 << layout.constant("RangeSectionMap", "bits_per_level")?.min(limits::MAX_RANGE_BITS);
        let levels = layout.constant("RangeSectionMap", "levels")?.min(limits::MAX_RANGE_LEVELS);
        let top = top.saturating_add(layout.positive("RangeSectionMap", "TopLevelData")?);
        self.level(top, levels as u32, entries);
        Ok(())
    }

    fn level(&mut self, at: Addr, left: u32, entries: u64) {
        if self.is_full() {
            return;
        }
        // The map is a tree, so each table is reached once.
        if self.walks.begin().step(at).is_err() {
            self.cycle(at);
            return;
        }
        let bytes = match self.memory.bytes(at, entries as usize * 8) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.note(format!("code range map: {e}"));
                return;
            }
        };
        for word in bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)) {
            // The low bit marks memory of collectible allocators.
            match (word & !1, left) {
                (0, _) => {}
                (fragment, 0 | 1) => self.fragments(Addr::new(fragment)),
                (next, _) => self.level(Addr::new(next), left - 1, entries),
            }
        }
    }

    /// Whether the limit of reads or of errors is reached, so that the rest is skipped. Adds a message the first time.
    fn is_full(&mut self) -> bool {
        let full = self.walks.is_spent() || self.cycles >= limits::MAX_CODE_RANGE_NOTES;
        if full && !self.full {
            self.full = true;
            self.notes.push("the code range map is inconsistent; the rest is ignored".to_owned());
        }
        full
    }

    /// Adds a message, up to a limit: small dumps lack many fragments, and each fails to read.
    fn note(&mut self, text: String) {
        if self.notes.len() < limits::MAX_CODE_RANGE_NOTES {
            self.notes.push(text);
        }
    }

    fn cycle(&mut self, at: Addr) {
        self.cycles += 1;
        self.note(format!("the code range map has a cycle at {at}"));
    }

    fn fragments(&mut self, first: Addr) {
        if self.is_full() {
            return;
        }
        let mut missing = Vec::new();
        let end = self.walks.begin().follow(first, |at| {
            let view = StructView::new(self.memory, &self.runtime.layout, "RangeSectionFragment", at);
            let next = view.ptr("Next")?.masked(!1);
            let fragment = || {
                let (begin, end) = (view.ptr("RangeBegin")?, view.ptr("RangeEndOpen")?);
                let whole = section(self.memory, self.runtime, view.ptr("RangeSection")?.masked(!1))?;
                Ok::<_, ViewError>(CodeRange { range: AddrRange::new(begin, end.max(begin)), ..whole })
            };
            match fragment() {
                Ok(range) => self.found.push(range),
                // A small dump may lack one section and have the next.
                Err(e) if missing.len() < limits::MAX_CODE_RANGE_NOTES => missing.push(e.to_string()),
                Err(_) => {}
            }
            Ok::<_, ViewError>(next)
        });
        for why in missing {
            self.note(format!("code range map fragment: {why}"));
        }
        match end {
            // A fragment that spans several chunks is in the list of each.
            Ok(()) | Err(Broken::Stop(Stop::Met(_))) => {}
            Err(Broken::Stop(Stop::TooMany { .. })) => drop(self.is_full()),
            Err(Broken::Stop(Stop::Cycle(at))) => self.cycle(at),
            Err(Broken::Unreadable(_, e)) => self.note(format!("code range map fragment: {e}")),
        }
    }
}
