//! Finds obmalloc's arenas. They are in an array of `arena_object`. The interpreter's state points to it (since 3.12),
//! or a static variable without a symbol does.

use crate::addr::{Addr, AddrRange, WORD};
use crate::image::ModuleKind;
use crate::layout::{Layout, LayoutError, StructView};
use crate::limits;
use crate::memory::window::Window;
use crate::memory::{Memory, ProcessMemory};
use crate::native::obmalloc::{ArenaObject, SIZES};
use crate::phase::Phase;
use crate::runtimes::cpython::runtime::{PyError, Runtime};

/// Alignment of blocks, and granularity of block sizes, in bytes (ALIGNMENT).
pub(crate) const ALIGNMENT: u64 = 16;

const COUNT: u64 = 4;

/// An arena of obmalloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Index in the array. The headers of its pools contain it too.
    pub index: u64,
    /// Addresses of the whole arena.
    pub range: AddrRange,
    /// First pool. It is aligned to the pool size; the arena itself need not be.
    pub first_pool: Addr,
    /// Start of the pools that were never used.
    pub untouched: Addr,
    /// First pool that was used and is free again. Null if there is none.
    pub free_pools: Addr,
    /// Number of free pools, including those never used.
    pub free_count: u64,
}

/// All arenas of one obmalloc state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arenas {
    /// Arenas, sorted by address.
    pub all: Vec<Arena>,
    /// Size of an arena in bytes.
    pub arena: u64,
    /// Size of a pool in bytes.
    pub pool: u64,
    /// Address of the array of `arena_object`.
    pub array: Addr,
    /// Length in bytes of the array's valid part.
    pub array_bytes: u64,
    /// How the array was found, in words.
    pub how: &'static str,
}

/// Offsets in an `arena_object`.
struct Shape {
    address: u64,
    pool_address: u64,
    free_count: u64,
    total: u64,
    free_pools: u64,
    size: u64,
    /// Offset of the arena's index in a pool's header.
    pool_arena: u64,
}

impl Shape {
    fn of(layout: &Layout) -> Result<Shape, LayoutError> {
        Ok(Shape {
            address: layout.positive("arena_object", "address")?,
            pool_address: layout.positive("arena_object", "pool_address")?,
            free_count: layout.positive("arena_object", "nfreepools")?,
            total: layout.positive("arena_object", "ntotalpools")?,
            free_pools: layout.positive("arena_object", "freepools")?,
            size: layout.size("arena_object")?,
            pool_arena: layout.positive("pool_header", "arenaindex")?,
        })
    }
}

/// State of an entry in the array.
enum Slot {
    /// Never used, or given back.
    Unused,
    Used(Arena, (u64, u64)),
}

/// Finds the arenas of all interpreters. Arrays that interpreters share are returned once.
pub(crate) fn find(runtime: &Runtime<'_>) -> Result<Vec<Arenas>, PyError> {
    let _phase = runtime.process.enter(Phase::Malloc);
    let finder = Finder { memory: runtime.memory, shape: Shape::of(&runtime.layout)? };
    let mut out: Vec<Arenas> = Vec::new();
    for &interpreter in &runtime.interpreters {
        if let Some(found) = finder.of_interpreter(runtime, interpreter)
            && !out.iter().any(|known| known.array == found.array)
        {
            out.push(found);
        }
    }
    // Before 3.12 all interpreters share one static array. The search also finds one that an unknown patch release
    // moved.
    if out.iter().all(|arenas| arenas.all.is_empty()) {
        out.extend(finder.search(runtime));
    }
    Ok(out)
}

struct Finder<'p> {
    memory: &'p ProcessMemory,
    shape: Shape,
}

impl Finder<'_> {
    /// Follows the interpreter's own state. Since 3.12.
    fn of_interpreter(&self, runtime: &Runtime<'_>, interpreter: Addr) -> Option<Arenas> {
        let state = runtime.view("PyInterpreterState", interpreter);
        let place = state.addr_of("obmalloc").ok()?;
        // In 3.12 the state is part of the interpreter's state. In later versions there is a pointer to it.
        let pointed = self.memory.ptr(place).unwrap_or(Addr::NULL);
        [place, pointed].into_iter().find_map(|at| {
            let state = StructView::new(self.memory, &runtime.layout, "_obmalloc_state", at);
            let array = state.ptr("mgmt.arenas").ok().filter(|array| !array.is_null())?;
            let count = u64::from(state.u32("mgmt.maxarenas").ok()?);
            let (found, seen) = self.array(array, count, "interpreter's obmalloc state")?;
            if seen != count {
                return None;
            }
            // For scrub: a sub-interpreter's state is in a malloc block. Only addresses are recognised as structure
            // there, and a count is not an address.
            if at == pointed {
                self.memory.keep(place, WORD);
            }
            for (field, len) in [("mgmt.arenas", WORD), ("mgmt.maxarenas", COUNT)] {
                self.memory.keep(state.addr_of(field).ok()?, len);
            }
            Some(found)
        })
    }

    /// Searches the module's data for a pointer to an array of arenas whose indices match. The array with most arenas
    /// wins.
    fn search(&self, runtime: &Runtime<'_>) -> Option<Arenas> {
        let module = runtime.process.modules.get(runtime.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let mut candidates: Vec<Addr> = Vec::new();
        for part in image.writable_parts(self.memory) {
            for window in Window::all(runtime.process.target(), part) {
                for word in window.within(part) {
                    let to = Addr::new(u64::from_le_bytes(*word));
                    let plausible = to.is_aligned(ALIGNMENT) && !part.contains(to) && to.get() > 0xffff;
                    if plausible && candidates.len() < limits::MAX_PY_ARENA_ARRAYS && self.begins(to) {
                        candidates.push(to);
                    }
                }
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let how = "array of arena_objects referenced from the module's data";
        let found = candidates.into_iter().filter_map(|at| self.array(at, limits::MAX_PY_ARENAS, how));
        found.map(|(arenas, _)| arenas).max_by_key(|arenas| arenas.all.len()).filter(|found| !found.all.is_empty())
    }

    /// Whether an array may begin at `at`, judged by a used entry near its start.
    fn begins(&self, at: Addr) -> bool {
        for index in 0..limits::MAX_PY_UNUSED_ARENAS {
            match self.slot(at, index, None) {
                Some(Slot::Used(..)) => return true,
                Some(Slot::Unused) => {}
                None => return false,
            }
        }
        false
    }

    /// Reads an array of at most `limit` entries. Returns the arenas, and the number of valid entries.
    fn array(&self, array: Addr, limit: u64, how: &'static str) -> Option<(Arenas, u64)> {
        let mut found = Arenas { array, how, ..Arenas::default() };
        let (mut seen, mut size, mut unused) = (0, None, 0);
        while seen < limit.min(limits::MAX_PY_ARENAS) {
            match self.slot(array, seen, size) {
                Some(Slot::Used(arena, of)) => {
                    (found.arena, found.pool) = *size.insert(of);
                    found.all.push(arena);
                    unused = 0;
                }
                Some(Slot::Unused) => unused += 1,
                None => break,
            }
            seen += 1;
            // If the length is unknown, stop after many unused entries: zeros may continue far beyond the array.
            if limit == limits::MAX_PY_ARENAS && unused > limits::MAX_PY_UNUSED_ARENAS {
                break;
            }
        }
        // If the length is unknown, the array ends with its last used entry.
        let entries = if limit == limits::MAX_PY_ARENAS { seen.saturating_sub(unused) } else { seen };
        found.array_bytes = entries.saturating_mul(self.shape.size);
        found.all.sort_by_key(|arena| arena.range.start);
        let before = found.all.len();
        let mut end = Addr::NULL;
        found.all.retain(|arena| {
            let apart = arena.range.start >= end;
            end = end.max(arena.range.end);
            apart
        });
        (before == found.all.len()).then_some((found, seen))
    }

    /// The entry at `index`. `None` if it is invalid.
    fn slot(&self, array: Addr, index: u64, size: Option<(u64, u64)>) -> Option<Slot> {
        let at = array.checked_add(index.checked_mul(self.shape.size)?)?;
        let word = |offset: u64| self.memory.peek_u64(at.checked_add(offset)?).ok();
        let half = |offset: u64| self.memory.peek_u32(at.checked_add(offset)?).ok().map(u64::from);
        let start = Addr::new(word(self.shape.address)?);
        let (free_count, total) = (half(self.shape.free_count)?, half(self.shape.total)?);
        if start.is_null() {
            // An arena that was given back keeps its counts. One that was never used has zeros.
            let (arena, pool) = SIZES[0];
            return (total <= arena / pool && free_count <= arena / pool).then_some(Slot::Unused);
        }
        let entry = ArenaObject {
            address: start,
            pool_address: Addr::new(word(self.shape.pool_address)?),
            free_pools: free_count,
            pools: total,
            first_free: Addr::new(word(self.shape.free_pools)?),
        };
        let sizes = size.map_or_else(|| SIZES.to_vec(), |size| vec![size]);
        sizes.into_iter().find_map(|(arena, pool)| {
            let found = entry.arena((arena, pool))?;
            // Pools that were used once contain their arena's index.
            let numbered = found.carved == 0 || {
                let header = found.first_pool.checked_add(self.shape.pool_arena)?;
                self.memory.peek_u32(header).is_ok_and(|number| u64::from(number) == index)
            };
            let arena = Arena {
                index,
                range: found.range,
                first_pool: found.first_pool,
                untouched: entry.pool_address,
                free_pools: entry.first_free,
                free_count,
            };
            numbered.then_some(Slot::Used(arena, (found.range.len(), pool)))
        })
    }
}
