//! Recognises anonymous memory that neither the C library's malloc nor a supported runtime claims: other allocators,
//! other runtimes, and mappings of libraries.
//!
//! The result is a name and a size. Only jemalloc's and tcmalloc's blocks are read.
//!
//! A recogniser is a file with one function, and a row in [`RECOGNISERS`]. It gets a [`Scene`]: the memory that nobody
//! has claimed, and the loaded images. First it needs a hint (a module's name, a symbol, a table in an image's data),
//! so that other processes cost next to nothing. Then it needs proof: pointers in both directions, a magic number, a
//! matching sum. Such a claim is derived. Memory that only has the runtime's typical arrangement is heuristic. Nothing
//! here is exact. Everything else stays AnonRW, since a wrong name misleads more than none.
//!
//! | file | recognises |
//! |---|---|
//! | `page_map` | jemalloc and tcmalloc, by their maps from a page to its extent or span |
//! | `jemalloc`, `tcmalloc` | which blocks of their extents and spans are allocated |
//! | `mimalloc` | segments, by their cookie; arenas |
//! | `partition` | PartitionAlloc's super pages, by their entries and roots |
//! | `v8`, `ghc`, `go`, `cpython`, `ruby`, `php`, `beam` | heaps of these runtimes |
//! | `sanitizer` | shadow of AddressSanitizer, and its allocator's mappings |
//! | `fibers` | stacks of user-level threads, by their saved contexts |
//! | `openblas` | working buffers of OpenBLAS |
//! | `tls` | the main thread's control block and TLS |

mod beam;
mod cpython;
mod fibers;
mod findings;
mod ghc;
mod go;
mod jemalloc;
mod mimalloc;
mod openblas;
mod page_map;
mod partition;
mod php;
mod ruby;
mod sanitizer;
mod scene;
mod tcmalloc;
#[cfg(test)]
pub(in crate::native) mod testing;
mod tls;
mod v8;

use crate::map::{Base, Claims};
use crate::native::malloc::ExtentHeap;
use crate::phase::Phase;
use crate::process::Process;
use crate::range_map::RangeMap;
use crate::words::AllocatorName;
pub use fibers::FIBER_STACK;
use findings::Findings;
pub use findings::UnreadHeap;
use scene::Scene;

/// Separates the heap from the rest of a region's description, if a process has several heaps of one runtime.
pub const HEAP_OF: &str = " of heap ";

/// The name of a recogniser, for logs, and its function.
type Recogniser = (&'static str, fn(&Scene<'_>, &mut Findings));

/// All recognisers, in the order in which they run. Memory that one of them claims is hidden from the next ones.
const RECOGNISERS: &[Recogniser] = &[
    ("mimalloc", mimalloc::find),
    ("page maps", page_map::find),
    // After the allocators: a fiber's stack in an allocated block belongs to the allocator.
    ("fibers", fibers::find),
    ("V8", v8::find),
    ("PartitionAlloc", partition::find),
    ("Go", go::find),
    ("GHC", ghc::find),
    ("CPython", cpython::find),
    ("Ruby", ruby::find),
    ("PHP", php::find),
    ("BEAM", beam::find),
    ("sanitizers", sanitizer::find),
    ("OpenBLAS", openblas::find),
    ("TLS", tls::find),
];

/// Claims what can be recognised in unclaimed memory. Returns the heaps whose blocks can be read.
pub(crate) fn claim(process: &Process, base: &Base, claims: &mut Claims) -> Vec<UnreadHeap> {
    let _phase = process.enter(Phase::Foreign);
    let unclaimed = scene::unclaimed(base, claims);
    let mut scene = Scene::over(process, base, unclaimed);
    let mut heaps = Vec::new();
    for (name, find) in RECOGNISERS {
        if scene.is_empty() {
            return heaps;
        }
        let mut found = Findings::default();
        find(&scene, &mut found);
        if !found.is_empty() {
            tracing::debug!(name, "recognised");
        }
        heaps.append(&mut found.heaps);
        scene.settle(found, claims);
    }
    heaps
}

/// Reads the blocks of a heap. `None` if its structures contradict each other.
pub(crate) fn read_heap(process: &Process, heap: &UnreadHeap) -> Option<ExtentHeap> {
    let _phase = process.enter(Phase::Foreign);
    let unclaimed = RangeMap::from_sorted(heap.unclaimed.to_vec()).unwrap_or_default();
    let scene = Scene::over(process, process.base(), unclaimed);
    match heap.name {
        AllocatorName::Jemalloc => jemalloc::heap(&scene, &heap.structures, heap.page, heap.owner),
        AllocatorName::Tcmalloc => {
            let image = scene.images.iter().find(|image| image.owner == heap.owner)?;
            tcmalloc::heap(&scene, &heap.structures, image)
        }
        _ => None,
    }
}
