//! Finds glibc's heaps: the main arena by the shape of its bins, the others by the arena ring and their `heap_info`.

use std::collections::{BTreeMap, BTreeSet};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::bytes;
use crate::image::{Module, ModuleKind};
use crate::limits;
use crate::map::{Base, Confidence};
use crate::memory::walk::Walks;
use crate::memory::window::data_parts;
use crate::memory::{Fault, Memory};
use crate::native::libc;
use crate::native::malloc::MallocHeap;
use crate::native::malloc::mapped_chunk;
use crate::native::malloc::shape::{Shape, StateShape};
use crate::native::stack_records::Libc;
use crate::phase::Phase;
use crate::process::Process;
use crate::targets::at;

pub(super) struct MainArena {
    pub(super) bins: Addr,
    pub(super) layout: StateShape,
    /// The range of writable data that contains it.
    pub(super) data: AddrRange,
    /// Index into [`Process::modules`] of the module that contains it.
    pub(super) module: usize,
}

pub(super) struct Finder<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) base: &'a Base,
    pub(super) shape: &'a Shape,
    /// Size of `malloc_state` in bytes. `None` if the main arena does not show it.
    pub(super) state_size: Option<u64>,
}

/// Returns the writable data of a module. Without the module's ELF headers (the kernel can leave them out of a core),
/// these are its writable mappings.
pub(super) fn writable(process: &Process, base: &Base, module: &Module) -> Vec<AddrRange> {
    if let ModuleKind::Elf(image) = &module.kind {
        return image.segments.iter().filter(|s| s.perms.write).map(|s| s.range).collect();
    }
    let files = module.mappings.iter().filter_map(|&i| process.files().get(i as usize));
    let entries = files.flat_map(|f| base.entries.overlapping(f.range));
    entries.filter(|e| e.perms.is_some_and(|p| p.write)).map(|e| e.range).collect()
}

impl Finder<'_> {
    /// Searches the writable data of all modules for main arenas, libc first. After the first, only further copies of
    /// glibc can have one: `dlmopen` loads them, each with a heap of its own.
    pub(super) fn main_arenas(&self, process: &Process) -> Vec<MainArena> {
        let mut modules: Vec<_> = process.modules.iter().enumerate().collect();
        // A program with malloc linked in follows the libraries named libc.
        modules.sort_by_key(|(_, m)| {
            let program = matches!(&m.kind, ModuleKind::Elf(image) if image.has_interpreter);
            (!m.name().starts_with("libc"), !program)
        });
        let mut out: Vec<MainArena> = Vec::new();
        for (module, m) in modules {
            let is_glibc = || libc::which(process, m).is_some_and(|(libc, _)| libc == Libc::Glibc);
            if out.len() < limits::MAX_LIBCS && (out.is_empty() || is_glibc()) {
                out.extend(self.main_arena_of(process, module, m));
            }
        }
        out
    }

    fn main_arena_of(&self, process: &Process, module: usize, m: &Module) -> Option<MainArena> {
        let data = writable(process, self.base, m).into_iter();
        let mut parts = data.flat_map(|data| {
            let parts = self.memory.readable_parts(data, limits::MAX_ALLOCATOR_DATA);
            parts.into_iter().map(move |part| (data, part))
        });
        parts.find_map(|(data, part)| {
            let (bins, layout) = self.arena_in(process, part.start, part.len())?;
            Some(MainArena { bins, layout, data, module })
        })
    }

    fn arena_in(&self, process: &Process, start: Addr, len: u64) -> Option<(Addr, StateShape)> {
        let data = self.memory.look(start, len as usize).ok()?;
        let b = self.shape.bins;
        // An empty bin points to where a chunk header with these links would be.
        let is_empty = |i: usize| {
            // The lock and flags of the arena precede its bins.
            let here = start.saturating_add(i as u64).checked_sub(b.header).map(Addr::get);
            here.is_some() && bytes::u64_at(&data, i) == here && bytes::u64_at(&data, i + 8) == here
        };
        let mut i = 0;
        while i + 16 <= data.len() {
            if !is_empty(i) {
                i += 8;
                continue;
            }
            // Bins before this one may be in use, so try every possible index of this one.
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

    /// Returns the layout whose fields are plausible.
    ///
    /// `next` is not null, and fewer than 4,096 threads are attached. `system_mem` is at most its maximum, and a
    /// multiple of 8. It is not always whole pages: in static programs TLS comes first in the brk area.
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
                // Before the first block is allocated, the top is the arena's own unsorted bin.
                let begun = |system: u64| (system > 0) == (word(layout.top) != Some(empty_top));
                near && threads
                    && sizes.is_some_and(|(system, max)| {
                        system <= max && begun(system) && system & 7 == 0 && system < 1 << 47
                    })
            })
            .copied()
    }

    /// Returns the brk area. It ends with the top chunk and is `system_mem` bytes long.
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
            // Other code moved the break, or the heap continued in an mmapped area. The kernel joins that area with
            // mmapped chunks below it.
            let start = mapped_chunk::after(self.memory, self.shape, mapping.range.start, top);
            // Mappings are made downwards, so older ranges of the heap are above.
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

    /// Returns the size of the chunk at `addr` without flags, if it is a possible chunk.
    pub(super) fn chunk_size(&self, addr: Addr) -> Option<u64> {
        let word = self.memory.u64(addr.checked_add(self.shape.chunk.size)?).ok()?;
        let size = self.shape.size_of(word);
        (self.shape.is_size(size) && addr.checked_add(size).is_some()).then_some(size)
    }

    /// Follows `next` from the main arena. Returns the main arena's start if the ring closes, and the addresses of the
    /// other `malloc_state`s.
    pub(super) fn ring(&self, main: &MainArena) -> (Option<Addr>, Vec<Addr>) {
        let next_at = |state: Addr, start: u64| state.wrapping_add(start).wrapping_offset(main.layout.next);
        let mut out = Vec::new();
        let first = self.memory.ptr(main.bins.wrapping_offset(main.layout.next)).unwrap_or_default();
        // The start of the main arena is not known yet. It is the address just below the bins to which the ring
        // returns.
        let is_main = |a: Addr| a < main.bins && main.bins.since(a) < limits::MAX_BEFORE_BINS;
        let mut start = Some(first).filter(|&a| is_main(a));
        let others = if start.is_some() { Addr::NULL } else { first };
        let end = Walks::new(Phase::Malloc, limits::MAX_MALLOC_HEAPS).begin().follow(others, |state| {
            out.push(state);
            // All arenas have the same distance from start to bins. Try each known distance.
            let nexts: Vec<Addr> =
                self.shape.starts().filter_map(|d| self.memory.ptr(next_at(state, d)).ok()).collect();
            let next = nexts.into_iter().find(|n| is_main(*n) || self.first_heap(*n).is_some());
            start = next.filter(|&a| is_main(a));
            Ok::<_, Fault>(if start.is_some() { Addr::NULL } else { next.unwrap_or_default() })
        });
        tracing::debug!(arenas = out.len() + 1, ?start, ?end, "malloc arenas");
        (start, out)
    }

    /// Returns the arena that a heap at `heap` would belong to.
    fn arena_at(&self, heap: Addr) -> Option<Addr> {
        self.memory.peek_u64(heap.checked_add(self.shape.heap.ar_ptr)?).ok().map(Addr::new)
    }

    /// Returns the start of the heap that begins with the arena at `state`. Its `heap_info` directly precedes the state
    /// and points to it.
    pub(super) fn first_heap(&self, state: Addr) -> Option<Addr> {
        let h = self.shape.heap;
        (h.min_size..=h.max_size)
            .step_by(8)
            .filter_map(|size| state.checked_sub(size))
            .find(|heap| heap.is_aligned(1 << 20) && self.arena_at(*heap) == Some(state))
    }

    /// Returns the heaps of `arenas`, and every other heap found at a multiple of HEAP_MAX_SIZE, by address.
    pub(super) fn arena_heaps(&self, arenas: &BTreeSet<Addr>, process: &Process) -> BTreeMap<Addr, MallocHeap> {
        let mut out = BTreeMap::new();
        for &state in arenas {
            if let Some(heap) = self.first_heap(state)
                && let Some(found) = self.heap_at(heap, "in the list of arenas")
            {
                out.insert(heap, found);
            }
        }
        self.scan(&mut out, process);
        out
    }

    /// Adds a heap for every multiple of HEAP_MAX_SIZE in the core that has a `heap_info`. Pages that were never
    /// written have none, and a process may have reserved terabytes of them.
    fn scan(&self, heaps: &mut BTreeMap<Addr, MallocHeap>, process: &Process) {
        let max = self.shape.heap.heap_max;
        let mut probes = 0;
        let mut past = Addr::NULL;
        for e in self.base.entries.iter().filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write)) {
            for data in data_parts(process.target(), self.memory, e.range) {
                let mut at = data.start.align_down(PAGE).max(e.range.start).max(past).align_up(max);
                while at < data.end && !at.is_null() {
                    if probes >= limits::MAX_MALLOC_HEAPS {
                        return;
                    }
                    probes += 1;
                    if !heaps.contains_key(&at)
                        && let Some(found) = self.heap_at(at, "at a multiple of HEAP_MAX_SIZE")
                    {
                        heaps.insert(at, found);
                    }
                    let Some(next) = at.checked_add(max) else { return };
                    (at, past) = (next, next);
                }
            }
        }
    }

    /// Returns the heap whose `heap_info` is at `heap`.
    fn heap_at(&self, heap: Addr, how: &str) -> Option<MallocHeap> {
        let h = self.shape.heap;
        // Any data may be at such a multiple, so these reads are only peeks.
        let word = |field: u64| self.memory.peek_u64(heap.saturating_add(field)).ok();
        let state = self.arena_at(heap)?;
        let (prev, size, committed) = (word(h.prev)?, word(h.size)?, word(h.mprotect_size)?);
        let max = h.heap_max;
        let sizes = size > 0 && size <= committed && committed <= max && size & 4095 == 0 && committed & 4095 == 0;
        // The first heap contains its arena. Later heaps point to the previous heap.
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
            // If that memory is not in the core, no chunk is known.
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

    /// Returns the first chunk after the `malloc_state` in a heap that ends at `end`. If the size of the struct is
    /// unknown, each known size is tried, and the chunk's header decides.
    fn after_state(&self, state: Addr, end: Addr) -> Option<Addr> {
        let known = self.shape.states.iter();
        let known = known.flat_map(|layout| self.shape.starts().map(|start| start.saturating_add_signed(layout.end)));
        let sizes: Vec<u64> = self.state_size.map_or_else(|| known.collect(), |size| vec![size]);
        sizes.into_iter().map(|size| state.saturating_add(size).align_up(self.shape.chunk.alignment)).find(|&first| {
            let head = first.checked_add(self.shape.chunk.size).and_then(|a| self.memory.u64(a).ok());
            // Nothing precedes the first chunk, so its PREV_INUSE flag is set.
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

    /// Guesses the main heap if no main arena was found: the first writable mapping above the program that begins with
    /// a run of chunks.
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

/// Number of consecutive chunks that suffice for a guess.
const GUESS_CHUNKS: usize = 8;
