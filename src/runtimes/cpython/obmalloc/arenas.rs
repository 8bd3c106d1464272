//! Where the arenas are: an array of `arena_object`, to which the interpreter's state leads (3.12 on), or a static
//! variable without a name.

use crate::addr::{Addr, AddrRange, WORD};
use crate::image::ModuleKind;
use crate::layout::{Layout, LayoutError, StructView};
use crate::limits;
use crate::memory::window::Window;
use crate::memory::{Memory, ProcessMemory};
use crate::native::obmalloc::{ArenaObject, SIZES};
use crate::phase::Phase;
use crate::runtimes::cpython::runtime::{PyError, Runtime};

/// Blocks begin at multiples of this (ALIGNMENT), and their sizes are such.
pub(crate) const ALIGNMENT: u64 = 16;

const COUNT: u64 = 4;

/// An arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Its number in the array, which its pools have too.
    pub index: u64,
    /// All of it.
    pub range: AddrRange,
    /// Its first pool: arenas need not begin at a multiple of a pool's size.
    pub first_pool: Addr,
    /// Pools from here on were never used.
    pub untouched: Addr,
    /// The first pool that was used and is free again; null where there is none.
    pub free_pools: Addr,
    /// Pools that are free, the untouched ones too.
    pub free_count: u64,
}

/// All arenas of one obmalloc state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arenas {
    /// By address.
    pub all: Vec<Arena>,
    /// Bytes of an arena.
    pub arena: u64,
    /// Bytes of a pool.
    pub pool: u64,
    /// The array of `arena_object`.
    pub array: Addr,
    /// Bytes of it, as far as they make sense.
    pub array_bytes: u64,
    /// What led there, in words.
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
    /// In a pool's header: the number of its arena.
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

/// What an entry of the array is.
enum Slot {
    /// Not in use now, or never.
    Unused,
    Used(Arena, (u64, u64)),
}

/// Arenas of all interpreters, by address, each once.
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
    // Before 3.12 all interpreters share one; and what an unknown patch release moved is found by its shape.
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
    /// By the interpreter's own state, since 3.12.
    fn of_interpreter(&self, runtime: &Runtime<'_>, interpreter: Addr) -> Option<Arenas> {
        let state = runtime.view("PyInterpreterState", interpreter);
        let place = state.addr_of("obmalloc").ok()?;
        // Part of the interpreter's state in 3.12; since, a pointer there.
        let pointed = self.memory.ptr(place).unwrap_or(Addr::NULL);
        [place, pointed].into_iter().find_map(|at| {
            let state = StructView::new(self.memory, &runtime.layout, "_obmalloc_state", at);
            let array = state.ptr("mgmt.arenas").ok().filter(|array| !array.is_null())?;
            let count = u64::from(state.u32("mgmt.maxarenas").ok()?);
            let (found, seen) = self.array(array, count, "interpreter's obmalloc state")?;
            if seen != count {
                return None;
            }
            // The state of an interpreter within another lies in a block of malloc, where a count is nobody's address.
            if at == pointed {
                self.memory.keep(place, WORD);
            }
            for (field, len) in [("mgmt.arenas", WORD), ("mgmt.maxarenas", COUNT)] {
                self.memory.keep(state.addr_of(field).ok()?, len);
            }
            Some(found)
        })
    }

    /// By the words of the module's data: the one that leads to the longest array of arenas whose numbers agree.
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

    /// Whether an array may begin at `at`: some entry near its start is in use.
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

    /// The arenas of the array at `array` of at most `most` entries, and how many entries make sense.
    fn array(&self, array: Addr, most: u64, how: &'static str) -> Option<(Arenas, u64)> {
        let mut found = Arenas { array, how, ..Arenas::default() };
        let (mut seen, mut size, mut unused) = (0, None, 0);
        while seen < most.min(limits::MAX_PY_ARENAS) {
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
            // Zeros go on for long behind an array whose length nobody tells.
            if most == limits::MAX_PY_ARENAS && unused > limits::MAX_PY_UNUSED_ARENAS {
                break;
            }
        }
        // Where nobody tells its length it ends with the last that is in use.
        let entries = if most == limits::MAX_PY_ARENAS { seen.saturating_sub(unused) } else { seen };
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

    /// The entry of that number, if it makes sense.
    fn slot(&self, array: Addr, index: u64, size: Option<(u64, u64)>) -> Option<Slot> {
        let at = array.checked_add(index.checked_mul(self.shape.size)?)?;
        let word = |offset: u64| self.memory.peek_u64(at.checked_add(offset)?).ok();
        let half = |offset: u64| self.memory.peek_u32(at.checked_add(offset)?).ok().map(u64::from);
        let start = Addr::new(word(self.shape.address)?);
        let (free_count, total) = (half(self.shape.free_count)?, half(self.shape.total)?);
        if start.is_null() {
            // What was given back keeps its other numbers; what never was has none at all.
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
            // Pools that were used once keep the number of their arena.
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
