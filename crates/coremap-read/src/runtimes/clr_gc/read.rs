//! Reads the GC heap from GcDacVars: segments or regions of each generation, free regions, reserve and bookkeeping.
//!
//! Source: src/coreclr/gc: gcinterface.dacvars.def, gcinterface.dac.h (dac_heap_segment, dac_generation,
//! dac_region_free_list), dac_gcheap_fields.h, gc.cpp (card_table_info). The field order of GcDacVars is in
//! layout/tables/dotnet-*.json.

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::layout::{Layout, LayoutError, StructView, ViewError};
use crate::limits;
use crate::map::{Confidence, Kind};
use crate::memory::walk::{Broken, Stop, Walks};
use crate::memory::{Fault, Memory};
use crate::phase::Phase;
use crate::runtimes::api::Segment;
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::clr_gc::{AllocContext, Gc, gc_heap};
use crate::sums::SaturatingSum;
use crate::words::Generation;

/// Bytes of the `ObjHeader` before the first object of a segment that was registered as frozen (gcinterface.h,
/// `ibFirstObject`).
const OBJECT_HEADER: u64 = 8;

/// Reasons why the GC cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GcError {
    #[error("GcDacVars, the GC's own description, is not in the core")]
    NoVars,
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("a list {0}")]
    Walk(#[from] Stop),
    #[error("the segment at {0} is inside another one")]
    Overlap(Addr),
    #[error("implausible number of heaps: {0}")]
    Heaps(u32),
    #[error("implausible range of {} bytes at {}", .0.len(), .0.start)]
    Range(AddrRange),
}

impl<E: Into<GcError> + std::fmt::Display> From<Broken<E>> for GcError {
    fn from(why: Broken<E>) -> GcError {
        match why {
            Broken::Stop(stop) => stop.into(),
            Broken::Unreadable(_, e) => e.into(),
        }
    }
}

/// A region or segment without objects that the GC keeps for later use, or is about to return to the system.
#[derive(Clone, Debug)]
pub(crate) struct FreeRegion {
    pub(crate) committed: AddrRange,
    reserve: AddrRange,
    /// The list that contains it.
    what: String,
}

#[derive(Default)]
pub(crate) struct GcHeap {
    pub(crate) segments: Vec<Segment>,
    /// Allocation contexts of the generations themselves, used while the GC moves objects.
    pub(crate) contexts: Vec<AllocContext>,
    pub(crate) server: bool,
    pub(crate) in_gc: bool,
    pub(crate) regions: bool,
    pub(crate) free: Vec<FreeRegion>,
    bookkeeping: Vec<AddrRange>,
    reserve: Option<AddrRange>,
    /// Messages about what could not be read.
    pub(crate) notes: Vec<String>,
}

const GENERATIONS: [Generation; 5] =
    [Generation::Gen0, Generation::Gen1, Generation::Gen2, Generation::Loh, Generation::Poh];

struct Reader<'a> {
    gc: Gc<'a>,
    memory: &'a dyn Memory,
    layout: &'a Layout,
    vars: StructView<'a>,
    regions: bool,
    /// Shared by all lists, since each segment is in only one.
    walks: Walks,
    out: GcHeap,
}

/// Reads the GC heap. `bounds`: lowest to highest address of the heap, if the runtime has globals for them.
pub(crate) fn read(gc: Gc<'_>, bounds: Option<AddrRange>) -> Result<GcHeap, GcError> {
    let Gc { memory, layout, .. } = gc;
    let vars = StructView::new(memory, layout, "GcDacVars", gc.vars.ok_or(GcError::NoVars)?);
    let mut reader = Reader {
        gc,
        memory,
        layout,
        vars,
        regions: false,
        walks: Walks::new(Phase::GcHeap, limits::MAX_GC_SEGMENTS),
        out: GcHeap::default(),
    };
    reader.regions = reader.by_regions();
    reader.out.regions = reader.regions;
    // Bookkeeping and free regions may be readable without the generations.
    if let Err(e) = reader.heaps() {
        reader.out.notes.push(e.to_string());
    }
    // gc_structures_invalid_cnt is above 0 while a collection moves objects.
    reader.out.in_gc = reader.variable_u32("gc_structures_invalid_cnt").is_some_and(|n| n != 0);
    if let Err(e) = reader.bookkeeping() {
        reader.out.notes.push(format!("bookkeeping: {e}"));
    }
    if let Err(e) = reader.global_free() {
        reader.out.notes.push(format!("free regions: {e}"));
    }
    reader.out.reserve = bounds.and_then(|range| reader.reserved_range(range));
    Ok(reader.out)
}

impl Reader<'_> {
    /// Address of a variable that GcDacVars points to. `None` if this flavour of the GC does not have it.
    fn variable(&self, field: &str) -> Option<Addr> {
        self.vars.ptr(field).ok().filter(|a| !a.is_null())
    }

    fn variable_u32(&self, field: &str) -> Option<u32> {
        self.memory.u32(self.variable(field)?).ok()
    }

    fn variable_ptr(&self, field: &str) -> Option<Addr> {
        self.memory.ptr(self.variable(field)?).ok()
    }

    /// Offset of a field in a generation. `None` if the GC does not export it.
    fn generation_offset(&self, field: &str) -> Option<u64> {
        gc_heap::exported_offset(self.gc, "generation_field_offsets", "generation_fields", field)
    }

    /// Whether the GC uses regions: then a generation has no allocation_start.
    fn by_regions(&self) -> bool {
        self.vars.has("generation_field_offsets")
            && self.generation_offset("start_segment").is_some()
            && self.generation_offset("allocation_start").is_none()
    }

    fn heaps(&mut self) -> Result<(), GcError> {
        // Each flavour of the GC fills in only its own variables.
        let count = self.variable_u32("n_heaps").filter(|_| self.variable("g_heaps").is_some());
        let Some(count) = count else {
            let table = self.vars.ptr("generation_table")?;
            let live = (self.variable_ptr("ephemeral_heap_segment"), self.variable_ptr("alloc_allocated"));
            self.generations(0, table, live)?;
            return self.local_free(0, |r, field| r.variable(field));
        };
        if count > limits::MAX_GC_HEAPS {
            return Err(GcError::Heaps(count));
        }
        self.out.server = true;
        let array = self.variable_ptr("g_heaps").ok_or(GcError::NoVars)?;
        for i in 0..count {
            let Ok(heap) = self.memory.ptr(array.saturating_add(8 * u64::from(i))) else {
                self.out.notes.push(format!("heap {i} is not in the core"));
                continue;
            };
            let field = |r: &Self, name: &str| gc_heap::offset(r.gc, name).map(|o| heap.saturating_add(o));
            let value = |r: &Self, name: &str| field(r, name).and_then(|a| r.memory.ptr(a).ok());
            let Some(table) = field(self, "generation_table") else {
                self.out.notes.push(format!("heap {i} has no generation table"));
                continue;
            };
            let live = (value(self, "ephemeral_heap_segment"), value(self, "alloc_allocated"));
            if let Err(e) = self.generations(i, table, live) {
                self.out.notes.push(format!("heap {i}: {e}"));
            }
            self.local_free(i, |r, name| field(r, name))?;
        }
        Ok(())
    }

    fn generations(&mut self, heap: u32, table: Addr, live: (Option<Addr>, Option<Addr>)) -> Result<(), GcError> {
        let size = self.vars.u64("generation_size")?;
        let count = if self.vars.has("total_generation_count") { self.vars.u64("total_generation_count")? } else { 4 };
        let start = match self.generation_offset("start_segment") {
            Some(offset) => offset,
            None => self.layout.positive("dac_generation", "start_segment")?,
        };
        let entry = |i: usize| table.saturating_add(size.saturating_mul(i as u64));
        let younger = self.allocation_start(entry(1)).zip(self.allocation_start(entry(0)));
        if !self.regions && live.0.is_none() {
            self.out
                .notes
                .push("ephemeral_heap_segment can't be read, so generations 0 to 2 can't be separated".into());
        }
        let first_segment = self.out.segments.len();
        for (i, &generation) in GENERATIONS.iter().enumerate().take(count.min(GENERATIONS.len() as u64) as usize) {
            self.context(entry(i));
            // With segments, generation 2's list contains the younger generations too.
            if !self.regions && matches!(generation, Generation::Gen0 | Generation::Gen1) {
                continue;
            }
            let first = self.memory.ptr(entry(i).saturating_add(start))?;
            self.list(heap, generation, first, live);
        }
        for segment in self.out.segments.iter_mut().skip(first_segment) {
            segment.younger = younger.filter(|_| live.0.is_some() && segment.generation == Generation::Ephemeral);
        }
        Ok(())
    }

    /// Address of a generation's first object. Only a GC with segments has it.
    fn allocation_start(&self, generation: Addr) -> Option<Addr> {
        let offset = self
            .generation_offset("allocation_start")
            .or_else(|| self.layout.positive("dac_generation", "allocation_start").ok())?;
        self.memory.ptr(generation.checked_add(offset)?).ok()
    }

    /// Adds the allocation context of a generation. During a collection, plugs move there.
    fn context(&mut self, generation: Addr) {
        let offset = self
            .generation_offset("allocation_context")
            .or_else(|| self.layout.positive("dac_generation", "allocation_context").ok());
        let found = offset
            .and_then(|o| generation.checked_add(o))
            .and_then(|at| AllocContext::read(self.memory, self.layout, at));
        self.out.contexts.extend(found);
    }

    fn list(&mut self, heap: u32, generation: Generation, first: Addr, live: (Option<Addr>, Option<Addr>)) {
        let mut found = Vec::new();
        let end = self.walks.begin().follow(first, |at| {
            let (segment, next) = self.segment(heap, generation, at, live)?;
            found.push(segment);
            Ok::<_, GcError>(next)
        });
        self.out.segments.extend(found);
        self.out.notes.extend(end.err().map(|why| format!("the list of {} segments {why}", generation.name())));
    }

    /// Reads one segment, and returns the next of its list.
    fn segment(
        &self,
        heap: u32,
        generation: Generation,
        at: Addr,
        (ephemeral, alloc_allocated): (Option<Addr>, Option<Addr>),
    ) -> Result<(Segment, Addr), GcError> {
        let view = StructView::new(self.memory, self.layout, "dac_heap_segment", at);
        let flags = view.u64("flags")?;
        let read_only = self.layout.constant("segment_flags", "readonly")?;
        let start = view.ptr("mem")?;
        let generation = match generation {
            _ if flags & read_only != 0 => Generation::Frozen,
            // Without `ephemeral_heap_segment`, any of them may be the ephemeral one.
            Generation::Gen2 if !self.regions && ephemeral.is_none_or(|e| e == at) => Generation::Ephemeral,
            other => other,
        };
        let end = match alloc_allocated {
            Some(end) if Some(at) == ephemeral && end >= start => end,
            _ => view.ptr("allocated")?,
        };
        // A heap_segment is right before its memory, or elsewhere.
        let page = start.align_down(PAGE);
        let low = match generation {
            _ if at < start && start.since(at) <= limits::MAX_SEGMENT_HEADER => at,
            // Frozen objects of a program file begin anywhere on a page, and what precedes them is no part of the heap.
            Generation::Frozen if start.since(page) > OBJECT_HEADER => start.saturating_sub(OBJECT_HEADER),
            _ => page,
        };
        let committed = AddrRange::new(low, view.ptr("committed")?);
        let reserved_end = view.ptr("reserved")?.max(committed.end);
        if reserved_end.since(low) > limits::MAX_RUNTIME_RANGE {
            return Err(GcError::Range(AddrRange::new(low, reserved_end)));
        }
        let segment = Segment { heap, generation, address: at, start, end, committed, reserved_end, younger: None };
        Ok((segment, view.ptr("next")?))
    }

    /// Reads the free regions of one heap, and the segments it will return.
    fn local_free(&mut self, heap: u32, field: impl Fn(&Self, &str) -> Option<Addr>) -> Result<(), GcError> {
        if self.regions
            && let Some(lists) = field(self, "free_regions")
        {
            self.free_lists(lists, &format!("heap {heap} free region"))?;
        }
        for name in ["freeable_soh_segment", "freeable_uoh_segment"] {
            if let Some(first) = field(self, name).and_then(|a| self.memory.ptr(a).ok()) {
                self.free_list(first, &format!("heap {heap} {name}"));
            }
        }
        Ok(())
    }

    fn global_free(&mut self) -> Result<(), GcError> {
        if !self.regions {
            return Ok(());
        }
        if let Some(lists) = self.variable("global_regions_to_decommit") {
            self.free_lists(lists, "region to be decommitted")?;
        }
        if let Some(list) = self.variable("global_free_huge_regions") {
            let head = StructView::new(self.memory, self.layout, "region_free_list", list).ptr("head_free_region")?;
            self.free_list(head, "free huge region");
        }
        Ok(())
    }

    /// Reads one region_free_list for each kind of region (basic, large, huge).
    fn free_lists(&mut self, lists: Addr, what: &str) -> Result<(), GcError> {
        let kinds = self.vars.u32("count_free_region_kinds")?.min(limits::MAX_FREE_REGION_KINDS);
        let size = self.layout.size("region_free_list")?;
        for kind in 0..u64::from(kinds) {
            let at = lists.saturating_add(kind.saturating_mul(size));
            let view = StructView::new(self.memory, self.layout, "region_free_list", at);
            let head = view.ptr("head_free_region")?;
            self.free_list(head, what);
        }
        Ok(())
    }

    fn free_list(&mut self, first: Addr, what: &str) {
        let mut found = Vec::new();
        let end = self.walks.begin().follow(first, |at| {
            let (s, next) = self.segment(0, Generation::Gen0, at, (None, None))?;
            found.push(FreeRegion::of(&s, what));
            Ok::<_, GcError>(next)
        });
        self.out.free.extend(found);
        self.out.notes.extend(end.err().map(|why| format!("the list of {what}s {why}")));
    }

    /// Finds the card table and the other bookkeeping, whose total size is in the header.
    fn bookkeeping(&mut self) -> Result<(), GcError> {
        if !self.vars.has("bookkeeping_start") {
            return Ok(());
        }
        let Some(start) = self.variable_ptr("bookkeeping_start").filter(|a| !a.is_null()) else { return Ok(()) };
        let size = StructView::new(self.memory, self.layout, "card_table_info", start).u64("size")?;
        if size > limits::MAX_GC_BOOKKEEPING {
            self.out.notes.push(format!("implausible bookkeeping size {size} at {start}"));
            return Ok(());
        }
        self.out.bookkeeping.push(AddrRange::sized(start, size));
        Ok(())
    }

    /// Range that a GC with regions reserved as a whole: lowest to highest address of its heap.
    fn reserved_range(&self, range: AddrRange) -> Option<AddrRange> {
        // Segments are scattered, with unrelated memory between them.
        if !self.regions {
            return None;
        }
        // Guards against a global at another offset: the range must contain a segment.
        self.out
            .segments
            .iter()
            .any(|s| range.contains(s.start))
            .then_some(range)
            .filter(|r| r.len() <= limits::MAX_RUNTIME_RANGE)
    }
}

impl FreeRegion {
    fn of(s: &Segment, what: &str) -> FreeRegion {
        let reserve = AddrRange::new(s.committed.end, s.reserved_end);
        FreeRegion { committed: s.committed, reserve, what: format!("{what}, heap_segment at {}", s.address) }
    }
}

/// Reads the `region_free_list` at `at`. `None` unless its counters match the list from head to tail: the number of
/// regions, and their reserved and committed bytes.
///
/// `nodes` is the memory of the regions' structs. `left` is the maximum number of regions. The list's own number is
/// subtracted, so that many lists together stay within it.
pub(crate) fn counted_free_list(gc: Gc<'_>, at: Addr, nodes: AddrRange, left: &mut usize) -> Option<Vec<FreeRegion>> {
    let Gc { memory, layout, .. } = gc;
    let view = StructView::new(memory, layout, "region_free_list", at);
    let [count, size, committed] =
        ["num_free_regions", "size_free_regions", "size_committed_in_free_regions"].map(|field| view.u64(field).ok());
    let [head, tail] = ["head_free_region", "tail_free_region"].map(|field| view.ptr(field).ok());
    let ends = head.zip(tail).filter(|(head, tail)| nodes.contains(*head) && nodes.contains(*tail));
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| (1..=*left).contains(count))?;
    *left -= count;
    let (head, tail) = ends?;
    let vars = StructView::new(memory, layout, "GcDacVars", gc.vars?);
    let walks = Walks::new(Phase::GcHeap, count);
    let reader = Reader { gc, memory, layout, vars, regions: true, walks, out: GcHeap::default() };
    let mut found = Vec::new();
    let (mut all, mut last) = (0_u64, Addr::NULL);
    let end = reader.walks.begin().follow(head, |at| {
        let (s, next) = reader.segment(0, Generation::Gen0, at, (None, None))?;
        all = all.saturating_add(s.reserved_end.since(s.committed.start));
        last = at;
        found.push(FreeRegion::of(&s, "heap 0 free region"));
        Ok::<_, GcError>(next)
    });
    let sum = found.iter().map(|region| region.committed.len()).saturating_sum();
    let proven = end.is_ok() && last == tail && found.len() == count;
    (proven && Some(all) == size && Some(sum) == committed).then_some(found)
}

impl GcHeap {
    /// Committed bytes of free regions.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|region| region.committed.len()).saturating_sum()
    }

    /// Whether all segments in use were read. Then the GC's other memory contains no objects.
    fn is_complete(&self) -> bool {
        self.notes.is_empty() && !self.segments.is_empty()
    }

    /// Claims the address space that the GC reserved as a whole, without segments, regions and `others`.
    pub(crate) fn claim_whole(&self, range: AddrRange, others: &[AddrRange], evidence: &str, out: &mut Sink<'_>) {
        let segments = self.segments.iter().map(|s| s.committed);
        let free = self.free.iter().flat_map(|region| [region.committed, region.reserve]);
        let known = segments.chain(free).chain(self.bookkeeping.iter().copied()).chain(others.iter().copied());
        for part in range.without(&union(known.collect())) {
            self.claim_reserve(part, Confidence::Derived, "reserved by the GC", evidence, out);
        }
    }

    /// Claims reserved address space. Writable parts were committed, even if no list has them. They are not claimed if
    /// segments are missing, because they may be segments in use.
    fn claim_reserve(
        &self,
        range: AddrRange,
        confidence: Confidence,
        detail: &str,
        evidence: &str,
        out: &mut Sink<'_>,
    ) {
        for (part, writable) in out.by_access(range) {
            if !writable {
                out.add(part, Kind::GCHeapReserve, confidence, detail, evidence);
            } else if self.is_complete() {
                let (what, evidence) = ("committed, in no region in use", format!("{evidence}; it is writable"));
                out.add(part, Kind::GCHeapToBeFreed, confidence.min(Confidence::Derived), what, &evidence);
            }
        }
    }

    pub(crate) fn claim(&self, out: &mut Sink<'_>) {
        for s in &self.segments {
            let detail = format!("heap {} {}", s.heap, s.generation.name());
            let evidence = format!("heap_segment at {}", s.address);
            out.exact(s.committed, Kind::GCHeap, &detail, &evidence);
            let reserve = AddrRange::new(s.committed.end, s.reserved_end);
            self.claim_reserve(reserve, Confidence::Exact, &detail, &evidence, out);
        }
        for FreeRegion { committed, reserve, what } in &self.free {
            out.exact(*committed, Kind::GCHeapToBeFreed, what, "the GC's free region lists");
            self.claim_reserve(*reserve, Confidence::Exact, what, "the GC's free region lists", out);
        }
        for range in &self.bookkeeping {
            out.exact(
                *range,
                Kind::GCBookkeeping,
                "card table and other bookkeeping",
                "bookkeeping_start and card_table_info.size",
            );
        }
        if let Some(range) = self.reserve {
            let evidence = "g_lowest_address to g_highest_address";
            self.claim_whole(range, &[], evidence, out);
        }
    }
}
