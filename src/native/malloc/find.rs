//! Where the heaps are: the main arena by the shape of its bins, the others by
//! its ring and by their `heap_info`.

use std::collections::{BTreeMap, BTreeSet};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::{Module, ModuleKind};
use crate::limits;
use crate::map::{Base, Confidence};
use crate::memory::walk::Walks;
use crate::memory::{Fault, Memory};
use crate::native::malloc::MallocHeap;
use crate::native::malloc::mapped_chunk;
use crate::native::malloc::shape::{Shape, StateShape};
use crate::phase::Phase;
use crate::process::Process;
use crate::targets::at;

/// The main arena, by its bins.
pub(super) struct MainArena {
    pub(super) bins: Addr,
    /// The layout that fits it.
    pub(super) layout: StateShape,
    /// The writable data it lies in.
    pub(super) data: AddrRange,
    /// Index into [`Process::modules`] of what holds it.
    pub(super) module: usize,
}

pub(super) struct Finder<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) base: &'a Base,
    pub(super) shape: &'a Shape,
    /// Size of `malloc_state`, where the main arena told it.
    pub(super) state_size: Option<u64>,
}

/// The writable data of a module. Without its headers (a kernel told to leave them
/// out) that is its mappings.
pub(super) fn writable(process: &Process, base: &Base, module: &Module) -> Vec<AddrRange> {
    if let ModuleKind::Elf(image) = &module.kind {
        return image.segments.iter().filter(|s| s.perms.write).map(|s| s.range).collect();
    }
    let files = module.mappings.iter().filter_map(|&i| process.files().get(i as usize));
    let entries = files.flat_map(|f| base.entries.overlapping(f.range));
    entries.filter(|e| e.perms.is_some_and(|p| p.write)).map(|e| e.range).collect()
}

impl Finder<'_> {
    /// Look through the writable data of all modules, libc first.
    pub(super) fn main_arena(&self, process: &Process) -> Option<MainArena> {
        let mut modules: Vec<_> = process.modules.iter().enumerate().collect();
        // A program with malloc linked in comes after libraries named libc.
        modules.sort_by_key(|(_, m)| {
            let program = matches!(&m.kind, ModuleKind::Elf(image) if image.has_interpreter);
            (!m.name().starts_with("libc"), !program)
        });
        for (module, m) in modules {
            for data in writable(process, self.base, m) {
                for part in self.memory.readable_parts(data, limits::MAX_ALLOCATOR_DATA) {
                    if let Some((bins, layout)) = self.arena_in(process, part.start, part.len()) {
                        return Some(MainArena { bins, layout, data, module });
                    }
                }
            }
        }
        None
    }

    fn arena_in(&self, process: &Process, start: Addr, len: u64) -> Option<(Addr, StateShape)> {
        let data = self.memory.look(start, len as usize).ok()?;
        let b = self.shape.bins;
        // An empty bin points to where a chunk header with these links would be.
        let is_empty = |i: usize| {
            // The lock and flags of its struct stand before it.
            let here = start.saturating_add(i as u64).checked_sub(b.header).map(Addr::get);
            here.is_some() && bytes::u64_at(&data, i) == here && bytes::u64_at(&data, i + 8) == here
        };
        let mut i = 0;
        while i + 16 <= data.len() {
            if !is_empty(i) {
                i += 8;
                continue;
            }
            // Bins before this one may be in use: try each place it may have.
            for before in 0..b.count {
                let Some(bins) = start.saturating_add(i as u64).checked_sub(before * b.bin) else { break };
                if bins < start {
                    break;
                }
                let fits = || if self.are_bins(bins) { self.fitting_layout(bins) } else { None };
                if let Some(layout) = process.reads().attempt(fits) {
                    return Some((bins, layout));
                }
            }
            i += (b.count * b.bin) as usize;
        }
        None
    }

    /// Whether each bin is empty or links to chunks that link back.
    pub(super) fn are_bins(&self, bins: Addr) -> bool {
        let b = self.shape.bins;
        (0..b.count).all(|k| {
            let at = bins.saturating_add(k * b.bin);
            let links = || {
                let head = at.checked_sub(b.header)?;
                let fd = self.memory.ptr(at).ok()?;
                let bk = self.memory.ptr(at.checked_add(8)?).ok()?;
                if fd == head && bk == head {
                    return Some(true);
                }
                let back = self.memory.ptr(fd.checked_add(self.shape.chunk.bk)?).ok()?;
                let forth = self.memory.ptr(bk.checked_add(self.shape.chunk.fd)?).ok()?;
                Some(fd.is_aligned(8) && back == head && forth == head)
            };
            links() == Some(true)
        })
    }

    /// Which layout's fields hold: `next` leads round a ring, system_mem is at
    /// most its maximum (whole pages, but in static programs, where TLS comes
    /// first in the break); threads are fewer than a heap has bytes.
    pub(super) fn fitting_layout(&self, bins: Addr) -> Option<StateShape> {
        let word = |offset: i64| self.memory.u64(bins.wrapping_offset(offset)).ok();
        let empty_top = bins.saturating_sub(self.shape.bins.header).get();
        self.shape
            .states
            .iter()
            .find(|layout| {
                let sizes = word(layout.system_mem).zip(word(layout.max_system_mem));
                let near = word(layout.next).is_some_and(|n| n != 0);
                let threads = layout.attached_threads.is_none_or(|at| word(at).is_some_and(|n| n < 1 << 12));
                // Before its first block is made, its top is its own unsorted bin.
                let begun = |system: u64| (system > 0) == (word(layout.top) != Some(empty_top));
                near && threads
                    && sizes.is_some_and(|(system, max)| {
                        system <= max && begun(system) && system & 7 == 0 && system < 1 << 47
                    })
            })
            .copied()
    }

    /// The brk area: it ends with the top chunk and is system_mem long.
    pub(super) fn main_heap(&self, arena: &MainArena, contiguous: Option<bool>) -> Option<MallocHeap> {
        let at = |offset: i64| arena.bins.wrapping_offset(offset);
        let top = self.memory.ptr(at(arena.layout.top)).ok()?;
        let system = self.memory.u64(at(arena.layout.system_mem)).ok().filter(|&s| s > 0)?;
        let end = top.checked_add(self.chunk_size(top)?)?;
        let mapping = self.base.at(top)?;
        let start = end.saturating_sub(system);
        let whole = contiguous != Some(false)
            && self.base.at(start).is_some_and(|e| e.file.is_none())
            && self.chunk_size(start.align_up(self.shape.chunk.alignment)).is_some()
            && start <= top;
        let (range, confidence, how) = if whole {
            (AddrRange::new(start, end), Confidence::Exact, "top chunk and system_mem")
        } else {
            // Somebody else moved the break, or the heap went on in an mmap, which
            // the kernel joins with those of single chunks below it.
            let start = mapped_chunk::after(self.memory, self.shape, mapping.range.start, top);
            // Mappings are made downwards: older pieces of the heap lie above.
            let end = if self.chunk_size(end).is_some() { mapping.range.end } else { end };
            (AddrRange::new(start, end), Confidence::Derived, "mapping that contains the top chunk")
        };
        Some(MallocHeap {
            range,
            reserve: AddrRange::default(),
            arena: Some(arena.bins),
            main: true,
            chunks: AddrRange::new(range.start.align_up(self.shape.chunk.alignment), range.end),
            confidence,
            evidence: format!("main_arena with bins at {}: {how} (top {top})", arena.bins),
        })
    }

    /// Size of the chunk at `addr`, flags taken off, if it is one.
    pub(super) fn chunk_size(&self, addr: Addr) -> Option<u64> {
        let word = self.memory.u64(addr.checked_add(self.shape.chunk.size)?).ok()?;
        let size = self.shape.size_of(word);
        (self.shape.is_size(size) && addr.checked_add(size).is_some()).then_some(size)
    }

    /// Follow `next` from the main arena: where it starts, if the ring closes, and
    /// addresses of the other `malloc_state`s.
    pub(super) fn ring(&self, main: &MainArena) -> (Option<Addr>, Vec<Addr>) {
        let next_at = |state: Addr, start: u64| state.wrapping_add(start).wrapping_offset(main.layout.next);
        let mut out = Vec::new();
        let first = self.memory.ptr(main.bins.wrapping_offset(main.layout.next)).unwrap_or_default();
        // The start of the main arena is not known yet; it is where the ring
        // comes back to just below the bins.
        let is_main = |a: Addr| a < main.bins && main.bins.since(a) < limits::MAX_BEFORE_BINS;
        let mut start = Some(first).filter(|&a| is_main(a));
        let others = if start.is_some() { Addr::NULL } else { first };
        let end = Walks::new(Phase::Malloc, limits::MAX_MALLOC_HEAPS).begin().follow(others, |state| {
            out.push(state);
            // All arenas share the distance from start to bins; try each that is known.
            let nexts: Vec<Addr> =
                self.shape.starts().filter_map(|d| self.memory.ptr(next_at(state, d)).ok()).collect();
            let next = nexts.into_iter().find(|n| is_main(*n) || self.first_heap(*n).is_some());
            start = next.filter(|&a| is_main(a));
            Ok::<_, Fault>(if start.is_some() { Addr::NULL } else { next.unwrap_or_default() })
        });
        tracing::debug!(arenas = out.len() + 1, ?start, ?end, "malloc arenas");
        (start, out)
    }

    /// The arena that a heap at `heap` would be of.
    fn arena_at(&self, heap: Addr) -> Option<Addr> {
        self.memory.peek_u64(heap.checked_add(self.shape.heap.ar_ptr)?).ok().map(Addr::new)
    }

    /// Where the heap that begins with the arena at `state` starts: its
    /// heap_info stands right before the state and points to it.
    pub(super) fn first_heap(&self, state: Addr) -> Option<Addr> {
        let h = self.shape.heap;
        (h.min_size..=h.max_size)
            .step_by(8)
            .filter_map(|size| state.checked_sub(size))
            .find(|heap| heap.is_aligned(1 << 20) && self.arena_at(*heap) == Some(state))
    }

    /// The heaps of the arenas at `arenas`, and every other one that is found where
    /// heaps begin, by address.
    pub(super) fn arena_heaps(&self, arenas: &BTreeSet<Addr>) -> BTreeMap<Addr, MallocHeap> {
        let mut out = BTreeMap::new();
        for &state in arenas {
            if let Some(heap) = self.first_heap(state)
                && let Some(found) = self.heap_at(heap, "in the list of arenas")
            {
                out.insert(heap, found);
            }
        }
        self.scan(&mut out);
        out
    }

    /// Every dumped multiple of HEAP_MAX_SIZE that holds a heap_info.
    fn scan(&self, heaps: &mut BTreeMap<Addr, MallocHeap>) {
        let max = self.shape.heap.heap_max;
        let mut probes = 0;
        for e in self.base.entries.iter().filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write)) {
            let mut at = e.range.start.align_up(max);
            while at < e.range.end && !at.is_null() {
                if probes >= limits::MAX_MALLOC_HEAPS {
                    return;
                }
                probes += 1;
                if !heaps.contains_key(&at)
                    && let Some(found) = self.heap_at(at, "at a multiple of HEAP_MAX_SIZE")
                {
                    heaps.insert(at, found);
                }
                let Some(next) = at.checked_add(max) else { break };
                at = next;
            }
        }
    }

    /// The heap whose heap_info is at `heap`, if one is.
    fn heap_at(&self, heap: Addr, how: &str) -> Option<MallocHeap> {
        let h = self.shape.heap;
        // What is at such a multiple may be anything.
        let word = |field: u64| self.memory.peek_u64(heap.saturating_add(field)).ok();
        let state = self.arena_at(heap)?;
        let (prev, size, committed) = (word(h.prev)?, word(h.size)?, word(h.mprotect_size)?);
        let max = h.heap_max;
        let sizes = size > 0 && size <= committed && committed <= max && size & 4095 == 0 && committed & 4095 == 0;
        // The first heap holds its arena; later ones name the heap before.
        let first = self.first_heap(state);
        let linked = if prev == 0 { first == Some(heap) } else { first.is_some() && Addr::new(prev).is_aligned(max) };
        let range = AddrRange::sized(heap, committed);
        if !sizes || !linked || !self.is_anonymous(range) {
            return None;
        }
        let info = state.since(first?);
        let fields = [h.ar_ptr, h.prev, h.size, h.mprotect_size].map(|field| heap.saturating_add(field));
        let own = fields.into_iter().chain(first.map(|first| first.saturating_add(h.ar_ptr)));
        own.for_each(|at| self.memory.keep(at, 8));
        let chunks = if prev == 0 {
            // Where that is not in the core, no chunk is known.
            self.after_state(state, heap.saturating_add(size)).unwrap_or(heap.saturating_add(size))
        } else {
            heap.saturating_add(info)
        };
        Some(MallocHeap {
            range,
            reserve: AddrRange::new(range.end, heap.saturating_add(max)),
            arena: Some(state),
            main: false,
            chunks: AddrRange::new(chunks, heap.saturating_add(size)),
            confidence: Confidence::Exact,
            evidence: format!("heap_info at {heap} {how}: ar_ptr {state}, size {size}, mprotect_size {committed}"),
        })
    }

    /// The first chunk behind a `malloc_state` in its heap, which ends at `end`.
    /// Where the main arena did not tell the struct's size, a chunk's header
    /// tells which of the known ones it has.
    fn after_state(&self, state: Addr, end: Addr) -> Option<Addr> {
        let known = self.shape.states.iter();
        let known = known.flat_map(|layout| self.shape.starts().map(|start| start.saturating_add_signed(layout.end)));
        let sizes: Vec<u64> = self.state_size.map_or_else(|| known.collect(), |size| vec![size]);
        sizes.into_iter().map(|size| state.saturating_add(size).align_up(self.shape.chunk.alignment)).find(|&first| {
            let head = first.checked_add(self.shape.chunk.size).and_then(|a| self.memory.u64(a).ok());
            // Nothing lies before it that could be free.
            let first_in_heap = head.is_some_and(|h| h & self.shape.chunk.prev_inuse != 0);
            first_in_heap && self.chunk_size(first).is_some_and(|size| first.saturating_add(size) <= end)
        })
    }

    /// Whether the base maps all of `range` without a file.
    pub(super) fn is_anonymous(&self, range: AddrRange) -> bool {
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
    pub(super) fn guess_main_heap(&self, process: &Process) -> Option<MallocHeap> {
        let program = process.auxv(at::PHDR).map(Addr::new)?;
        let module = process.modules.iter().find(|m| m.range.contains(program))?;
        for e in self.base.entries.overlapping(AddrRange::sized(module.range.end, limits::MAX_BRK_OFFSET)) {
            if e.file.is_some() || !e.perms.is_some_and(|p| p.read && p.write) {
                continue;
            }
            let mut at = e.range.start;
            let mut chunks = 0;
            while let Some(size) = self.chunk_size(at) {
                at = at.saturating_add(size);
                chunks += 1;
                if chunks == GUESS_CHUNKS || at >= e.range.end {
                    break;
                }
            }
            if chunks == GUESS_CHUNKS || (chunks > 1 && at == e.range.end) {
                return Some(MallocHeap {
                    range: e.range,
                    reserve: AddrRange::default(),
                    arena: None,
                    main: true,
                    chunks: e.range,
                    confidence: Confidence::Heuristic,
                    evidence: format!(
                        "above the program; begins with {} in a row",
                        crate::units::count(chunks as u64, "chunk")
                    ),
                });
            }
        }
        None
    }
}

/// Chunks in a row that make a guess.
const GUESS_CHUNKS: usize = 8;
