//! Objects that the collector tracks: circular lists of PyGC_Head, one per generation (Modules/gcmodule.c,
//! Python/gc.c).

use crate::addr::Addr;
use crate::layout::LayoutError;
use crate::limits;
use crate::memory::walk::{Broken, Walks};
use crate::memory::{Fault, Memory};
use crate::phase::Phase;
use crate::runtimes::cpython::runtime::{PyError, Runtime};

/// Bits of a link that are flags of the collector.
const LINK_FLAGS: u64 = 3;

/// Number of generations that `gc.get_objects()` lists. The permanent generation (`gc.freeze()`) follows.
const GENERATIONS: u64 = 3;

/// Distance in bytes from the table's offset within which the first list is searched. 3.13.5 aligned PyGC_Head to 4 and
/// moved the list accordingly; nothing in the process records that.
const NEAR: u64 = 8;

/// The tracked objects of all interpreters.
pub(super) struct Tracked {
    /// Addresses, sorted and without duplicates.
    pub(super) objects: Vec<Addr>,
}

impl Tracked {
    pub(super) fn has(&self, at: Addr) -> bool {
        self.objects.binary_search(&at).is_ok()
    }
}

/// Follows the lists. Adds to `notes` each list that is broken.
pub(super) fn lists(runtime: &Runtime<'_>, notes: &mut Vec<String>) -> Tracked {
    let _phase = runtime.process.enter(Phase::GcHeap);
    let mut found = Tracked { objects: Vec::new() };
    let walks = Walks::new(Phase::GcHeap, limits::MAX_PY_TRACKED);
    for &interpreter in &runtime.interpreters {
        if let Err(e) = of_interpreter(runtime, interpreter, &walks, &mut found, notes) {
            notes.push(format!("the collector's lists can't be read: {e}"));
        }
    }
    found.objects.sort_unstable();
    found.objects.dedup();
    found
}

fn of_interpreter(
    runtime: &Runtime<'_>,
    interpreter: Addr,
    walks: &Walks,
    found: &mut Tracked,
    notes: &mut Vec<String>,
) -> Result<(), PyError> {
    let gc = runtime.view("PyInterpreterState", interpreter).addr_of("gc")?;
    let size = runtime.layout.size("gc_generation")?;
    let expected = runtime.view("_gc_runtime_state", gc).addr_of("generations")?;
    let is_ring = |head: Addr| {
        let next = link(runtime, head, "_gc_next")?;
        let prev = link(runtime, head, "_gc_prev")?;
        Some(link(runtime, next, "_gc_prev")? == head && link(runtime, prev, "_gc_next")? == head)
    };
    let all_rings = |first: &Addr| (0..GENERATIONS).all(|i| is_ring(first.wrapping_add(i * size)) == Some(true));
    let near = (0..=2 * NEAR / 4).map(|i| expected.saturating_sub(NEAR).wrapping_add(4 * i));
    let first = std::iter::once(expected).chain(near).find(all_rings);
    let first = first.ok_or(PyError::Nonsense { what: "no list of objects", at: expected })?;
    for i in 0..GENERATIONS {
        let head = first.wrapping_add(i * size);
        if let Err(e) = read_list(runtime, head, walks, found) {
            notes.push(format!("generation {i} of the collector {e}; some of its objects may be missing"));
        }
    }
    Ok(())
}

fn link(runtime: &Runtime<'_>, head: Addr, field: &str) -> Option<Addr> {
    let word = runtime.view("PyGC_Head", head).u64(field).ok()?;
    Some(Addr::new(word & !LINK_FLAGS))
}

/// Reasons why a list was not read to its end.
#[derive(Debug, thiserror::Error)]
enum RingError {
    /// The layout lacks a field of PyGC_Head.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The list is broken.
    #[error(transparent)]
    List(#[from] Broken<Fault>),
}

/// Adds the objects of one list. Each object follows its PyGC_Head.
fn read_list(runtime: &Runtime<'_>, head: Addr, walks: &Walks, found: &mut Tracked) -> Result<(), RingError> {
    let (next, size) = (runtime.layout.positive("PyGC_Head", "_gc_next")?, runtime.layout.size("PyGC_Head")?);
    let mut walk = walks.begin_cycle_only();
    let mut at = head;
    loop {
        let word = runtime.memory.u64(at.wrapping_add(next)).map_err(|fault| Broken::Unreadable(at, fault))?;
        at = Addr::new(word & !LINK_FLAGS);
        if at == head {
            return Ok(());
        }
        walk.step(at).map_err(Broken::Stop)?;
        found.objects.push(at.wrapping_add(size));
    }
}
