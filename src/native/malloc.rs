//! glibc malloc's heaps, found without symbols: the main arena by the shape of
//! its bins, the others by its ring and by their `heap_info`.
//!
//! Structures: malloc/malloc.c `struct malloc_state`, malloc/arena.c
//! `heap_info`; offsets in layout/tables/glibc-malloc-64.json. What lies inside
//! the heaps is not looked at here.

use std::collections::{BTreeSet, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::core::notes::at;
use crate::image::ModuleKind;
use crate::layout::{self, Layout, LayoutError};
use crate::limits;
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::memory::Memory;
use crate::process::Process;

/// One heap of malloc.
#[derive(Clone, Debug)]
pub struct MallocHeap {
    /// Committed addresses.
    pub range: AddrRange,
    /// Address space kept for its growth, above the range.
    pub reserve: AddrRange,
    /// Its arena's `malloc_state`; `None` for a heap known by its look only.
    pub arena: Option<Addr>,
    /// Whether it belongs to the main arena (the brk area).
    pub main: bool,
    /// How sure.
    pub confidence: Confidence,
    /// How it is known.
    pub evidence: String,
}

/// Bytes of one module's writable data looked through for the main arena.
const MAX_DATA: u64 = 64 << 20;

/// Find all heaps.
///
/// # Errors
/// Only where the bundled table lacks a field.
pub fn find(process: &Process, base: &Base) -> Result<Vec<MallocHeap>, LayoutError> {
    let table = Layout::parse(layout::GLIBC_MALLOC)?;
    let finder = Finder { memory: &process.memory, base, table: &table };
    let mut out = Vec::new();
    let mut arenas = BTreeSet::new();
    if let Some(main) = finder.main_arena(process)? {
        out.extend(finder.main_heap(&main)?);
        arenas.extend(finder.ring(&main)?);
    }
    let mut heaps = finder.arena_heaps(&arenas)?;
    finder.scan(&mut heaps)?;
    out.extend(heaps.into_values());
    if !out.iter().any(|h| h.main) {
        out.extend(finder.guess_main_heap(process)?);
    }
    Ok(out)
}

/// The main arena, by its bins.
struct MainArena {
    bins: Addr,
    /// Name of the layout that fits it.
    layout: &'static str,
}

struct Finder<'a> {
    memory: &'a dyn Memory,
    base: &'a Base,
    table: &'a Layout,
}

impl Finder<'_> {
    fn field(&self, kind: &str, field: &str) -> Result<u64, LayoutError> {
        self.table.field(kind, field).map(|v| v as u64)
    }

    /// Look through the writable data of all modules, libc first.
    fn main_arena(&self, process: &Process) -> Result<Option<MainArena>, LayoutError> {
        let mut modules: Vec<_> = process
            .modules
            .iter()
            .filter_map(|m| match &m.kind {
                ModuleKind::Elf(image) => Some((m, image)),
                _ => None,
            })
            .collect();
        // A program with malloc linked in comes after libraries named libc.
        modules.sort_by_key(|(m, image)| (!m.name().starts_with("libc"), !image.has_interpreter));
        for (_, image) in modules {
            for segment in image.segments.iter().filter(|s| s.perms.write) {
                for part in self.memory.readable_parts(segment.range, MAX_DATA) {
                    if let Some(found) = self.arena_in(part.start, part.len())? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    fn arena_in(&self, start: Addr, len: u64) -> Result<Option<MainArena>, LayoutError> {
        let Ok(data) = self.memory.bytes(start, len as usize) else { return Ok(None) };
        let (count, bin, header) = (
            self.field("malloc_bins", "count")?,
            self.field("malloc_bins", "bin")?,
            self.field("malloc_bins", "header")?,
        );
        // An empty bin points to where a chunk header with these links would be.
        let is_empty = |i: usize| {
            let here = start.0 + i as u64 - header;
            bytes::u64_at(&data, i) == Some(here) && bytes::u64_at(&data, i + 8) == Some(here)
        };
        let mut i = 0;
        while i + 16 <= data.len() {
            if !is_empty(i) {
                i += 8;
                continue;
            }
            // Bins before this one may be in use: try each place it may have.
            for before in 0..count {
                let Some(bins) = (start.0 + i as u64).checked_sub(before * bin) else { break };
                let bins = Addr(bins);
                if bins < start {
                    break;
                }
                if self.are_bins(bins, count, bin, header)
                    && let Some(layout) = self.fitting_layout(bins)?
                {
                    return Ok(Some(MainArena { bins, layout }));
                }
            }
            i += (count * bin) as usize;
        }
        Ok(None)
    }

    /// Whether each bin is empty or links to chunks that link back.
    fn are_bins(&self, bins: Addr, count: u64, bin: u64, header: u64) -> bool {
        (0..count).all(|k| {
            let at = bins.saturating_add(k * bin);
            let head = at.saturating_sub(header);
            let links = || {
                let fd = self.memory.ptr(at).ok()?;
                let bk = self.memory.ptr(at.checked_add(8)?).ok()?;
                if fd == head && bk == head {
                    return Some(true);
                }
                let back = self.memory.ptr(fd.checked_add(header + 8)?).ok()?;
                let forth = self.memory.ptr(bk.checked_add(header)?).ok()?;
                Some(fd.is_aligned(8) && back == head && forth == head)
            };
            links() == Some(true)
        })
    }

    /// Which layout's fields hold: `next` leads round a ring, system_mem is at
    /// most its maximum.
    fn fitting_layout(&self, bins: Addr) -> Result<Option<&'static str>, LayoutError> {
        for layout in ["malloc_state", "malloc_state_before_2.23"] {
            let at = |field| Ok(Addr(bins.0.wrapping_add(self.field(layout, field)?)));
            let word = |a: Addr| self.memory.u64(a).ok();
            let (system, max) = (word(at("system_mem")?), word(at("max_system_mem")?));
            let next = word(at("next")?);
            let near = next.is_some_and(|n| n != 0);
            if let (Some(system), Some(max)) = (system, max)
                && near
                && system <= max
                && system > 0
                && system & 4095 == 0
                && system < 1 << 47
            {
                return Ok(Some(layout));
            }
        }
        Ok(None)
    }

    /// The brk area: it ends with the top chunk and is system_mem long.
    fn main_heap(&self, arena: &MainArena) -> Result<Option<MallocHeap>, LayoutError> {
        let at = |field| Ok::<_, LayoutError>(Addr(arena.bins.0.wrapping_add(self.field(arena.layout, field)?)));
        let top = self.memory.ptr(at("top")?).ok();
        let system = self.memory.u64(at("system_mem")?).ok();
        let (Some(top), Some(system)) = (top, system) else { return Ok(None) };
        let Some(size) = self.chunk_size(top)? else { return Ok(None) };
        let Some(end) = top.checked_add(size) else { return Ok(None) };
        let Some(mapping) = self.base.at(top) else { return Ok(None) };
        let start = Addr(end.0.saturating_sub(system));
        let contiguous =
            self.base.at(start).is_some_and(|e| e.file.is_none()) && self.chunk_size(start)?.is_some() && start <= top;
        let (range, confidence, how) = if contiguous {
            (AddrRange::new(start, end), Confidence::Exact, "top chunk and system_mem")
        } else {
            // Somebody else moved the break, or the heap went on in an mmap.
            (mapping.range, Confidence::Derived, "the mapping that holds the top chunk")
        };
        Ok(Some(MallocHeap {
            range,
            reserve: AddrRange::default(),
            arena: Some(arena.bins),
            main: true,
            confidence,
            evidence: format!("main_arena with bins at {}: {how} (top {top})", arena.bins),
        }))
    }

    /// Size of the chunk at `addr`, flags taken off, if it is one.
    fn chunk_size(&self, addr: Addr) -> Result<Option<u64>, LayoutError> {
        let chunk = |field| self.field("malloc_chunk", field);
        let Some(at) = addr.checked_add(chunk("mchunk_size")?) else { return Ok(None) };
        let Ok(word) = self.memory.u64(at) else { return Ok(None) };
        let size = word & !chunk("flag_bits")?;
        let fits = size >= chunk("min_size")? && size % chunk("alignment")? == 0 && addr.checked_add(size).is_some();
        Ok(fits.then_some(size))
    }

    /// Follow `next` from the main arena: addresses of the other `malloc_state`s.
    fn ring(&self, main: &MainArena) -> Result<Vec<Addr>, LayoutError> {
        let next_field = self.field(main.layout, "next")?;
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        let mut at = self.memory.ptr(Addr(main.bins.0.wrapping_add(next_field))).ok();
        // The start of the main arena is not known yet; it is where the ring
        // comes back to just below the bins.
        let is_main = |a: Addr| a < main.bins && main.bins.since(a) < 256;
        let mut start = at.filter(|&a| is_main(a));
        while let Some(state) = at.filter(|&a| a.0 != 0 && !is_main(a)) {
            if !seen.insert(state) || out.len() >= limits::MAX_LIST {
                break;
            }
            out.push(state);
            // All arenas share the distance from start to bins; try those of
            // both generations (with and without have_fastchunks).
            at = [112u64, 104]
                .iter()
                .filter_map(|d| self.memory.ptr(Addr(state.0.wrapping_add(d + next_field))).ok())
                .find(|n| is_main(*n) || self.first_heap(*n).ok().flatten().is_some());
            if let Some(a) = at.filter(|&a| is_main(a)) {
                start = Some(a);
            }
        }
        tracing::debug!(arenas = out.len() + 1, ?start, "malloc arenas");
        Ok(out)
    }

    /// Where the heap that begins with the arena at `state` starts: its
    /// heap_info stands right before the state and points to it.
    fn first_heap(&self, state: Addr) -> Result<Option<Addr>, LayoutError> {
        let (min, max) = (self.field("heap_info", "min_size")?, self.field("heap_info", "max_size")?);
        let ar_ptr = self.field("heap_info", "ar_ptr")?;
        for size in (min..=max).step_by(8) {
            let Some(heap) = state.0.checked_sub(size).map(Addr) else { break };
            if heap.is_aligned(1 << 20) && self.memory.ptr(heap.saturating_add(ar_ptr)).ok() == Some(state) {
                return Ok(Some(heap));
            }
        }
        Ok(None)
    }

    fn arena_heaps(
        &self,
        arenas: &BTreeSet<Addr>,
    ) -> Result<std::collections::BTreeMap<Addr, MallocHeap>, LayoutError> {
        let mut out = std::collections::BTreeMap::new();
        for &state in arenas {
            if let Some(heap) = self.first_heap(state)?
                && let Some(found) = self.heap_at(heap, "on the ring of arenas")?
            {
                out.insert(heap, found);
            }
        }
        Ok(out)
    }

    /// Every dumped multiple of HEAP_MAX_SIZE that holds a heap_info.
    fn scan(&self, heaps: &mut std::collections::BTreeMap<Addr, MallocHeap>) -> Result<(), LayoutError> {
        let max = self.field("constants_heap", "HEAP_MAX_SIZE")?;
        let mut probes = 0;
        for e in self.base.entries.iter().filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write)) {
            let mut at = e.range.start.align_up(max);
            while at < e.range.end && at.0 != 0 {
                if probes >= limits::MAX_MALLOC_HEAPS {
                    return Ok(());
                }
                probes += 1;
                if !heaps.contains_key(&at)
                    && let Some(found) = self.heap_at(at, "at a multiple of HEAP_MAX_SIZE")?
                {
                    heaps.insert(at, found);
                }
                let Some(next) = at.checked_add(max) else { break };
                at = next;
            }
        }
        Ok(())
    }

    /// The heap whose heap_info is at `heap`, if one is.
    fn heap_at(&self, heap: Addr, how: &str) -> Result<Option<MallocHeap>, LayoutError> {
        let word = |field| Ok(self.memory.u64(heap.saturating_add(self.field("heap_info", field)?)).ok());
        let max = self.field("constants_heap", "HEAP_MAX_SIZE")?;
        let (Some(state), Some(prev), Some(size), Some(committed)) =
            (word("ar_ptr")?, word("prev")?, word("size")?, word("mprotect_size")?)
        else {
            return Ok(None);
        };
        let state = Addr(state);
        let sizes = size > 0 && size <= committed && committed <= max && size & 4095 == 0 && committed & 4095 == 0;
        // The first heap holds its arena; later ones name the heap before.
        let first = self.first_heap(state)?;
        let linked = if prev == 0 { first == Some(heap) } else { first.is_some() && Addr(prev).is_aligned(max) };
        let range = AddrRange::sized(heap, committed);
        if !sizes || !linked || !self.is_anonymous(range) {
            return Ok(None);
        }
        Ok(Some(MallocHeap {
            range,
            reserve: AddrRange::new(range.end, heap.saturating_add(max)),
            arena: Some(state),
            main: false,
            confidence: Confidence::Exact,
            evidence: format!("heap_info at {heap} {how}: ar_ptr {state}, size {size}, mprotect_size {committed}"),
        }))
    }

    /// Whether the base maps all of `range` without a file.
    fn is_anonymous(&self, range: AddrRange) -> bool {
        let mut at = range.start;
        while at < range.end {
            match self.base.at(at) {
                Some(e) if e.file.is_none() => at = e.range.end,
                _ => return false,
            }
        }
        true
    }

    /// Without the main arena's own word: the writable mapping next above the
    /// program that begins with a run of chunks.
    fn guess_main_heap(&self, process: &Process) -> Result<Option<MallocHeap>, LayoutError> {
        let program = process.core.notes.auxv(at::PHDR).map(Addr);
        let Some(module) = program.and_then(|a| process.modules.iter().find(|m| m.range.contains(a))) else {
            return Ok(None);
        };
        for e in self.base.entries.overlapping(AddrRange::sized(module.range.end, MAX_BRK_OFFSET)) {
            if e.file.is_some() || !e.perms.is_some_and(|p| p.read && p.write) {
                continue;
            }
            let mut at = e.range.start;
            let mut chunks = 0;
            while let Some(size) = self.chunk_size(at)? {
                at = at.saturating_add(size);
                chunks += 1;
                if chunks == GUESS_CHUNKS || at >= e.range.end {
                    break;
                }
            }
            if chunks == GUESS_CHUNKS || (chunks > 1 && at == e.range.end) {
                return Ok(Some(MallocHeap {
                    range: e.range,
                    reserve: AddrRange::default(),
                    arena: None,
                    main: true,
                    confidence: Confidence::Heuristic,
                    evidence: format!("above the program and begins with {chunks} chunks in a row"),
                }));
            }
        }
        Ok(None)
    }
}

/// Chunks in a row that make a guess.
const GUESS_CHUNKS: usize = 8;

/// How far above the program the kernel may put the break:
/// arch_randomize_brk takes up to 32 MiB (1 GiB on aarch64).
const MAX_BRK_OFFSET: u64 = 1 << 30;

/// Claim the heaps and what is reserved for them.
pub fn claim(heaps: &[MallocHeap], base: &Base, claims: &mut Claims) {
    for h in heaps {
        let which = match (h.main, h.arena) {
            (true, _) => "main heap (brk)".to_owned(),
            (false, Some(arena)) => format!("arena {arena}"),
            (false, None) => "arena".to_owned(),
        };
        let mut add = |range, kind, confidence, detail: String| {
            claims.add(Claim {
                range,
                kind,
                confidence,
                owner: Owner::None,
                detail: detail.into(),
                evidence: h.evidence.as_str().into(),
            });
        };
        add(h.range, Kind::Malloc, h.confidence, which.clone());
        // Only what really can't be touched: gdb writes it as read-only.
        for e in base.entries.overlapping(h.reserve) {
            let untouchable = e.file.is_none() && e.perms.is_some_and(|p| !p.write && !p.exec);
            if let Some(range) = e.range.intersect(&h.reserve)
                && untouchable
            {
                add(range, Kind::NoAccess, Confidence::Derived, format!("reserved by malloc {which}"));
            }
        }
    }
}
