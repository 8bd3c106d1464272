//! Whose anonymous memory it is where neither malloc of the C library nor .NET knows: other allocators, other runtimes, and
//! what libraries map for themselves. They are recognised: the answer is a name and bytes, and of
//! jemalloc and tcmalloc the blocks.
//!
//! A recogniser is a file with one function, and a row in [`RECOGNISERS`]. It sees a [`Scene`]: the memory that
//! nobody claimed so far, and the images that are loaded. First it asks for a hint (a module's name, a symbol, a table
//! in an image's data), so that a process without its runtime costs next to nothing. Then it looks for what
//! proves itself: pointers back and forth, a magic number, a sum that comes out. Such a claim is derived. What only
//! lies as that runtime's memory does is heuristic, and nothing here is ever exact. What is
//! neither stays AnonRW: a wrong name misleads more than none.
//!
//! | file | knows |
//! |---|---|
//! | `page_map` | jemalloc and tcmalloc, by their maps from a page to what holds it |
//! | `jemalloc`, `tcmalloc` | which blocks of their extents and spans are given out |
//! | `mimalloc` | segments, by their cookie |
//! | `partition` | PartitionAlloc's super pages, by their entries and roots |
//! | `v8`, `ghc`, `go`, `cpython`, `ruby`, `php`, `beam` | heaps of these runtimes |
//! | `sanitizer` | shadow of AddressSanitizer and what its allocator mapped |
//! | `openblas` | working buffers of OpenBLAS |
//! | `tls` | the main thread's control block and what lies beside it |

mod beam;
mod cpython;
mod found;
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
use found::Found;
pub(crate) use found::UnreadHeap;
use scene::Scene;

/// One recogniser: what it looks for, in a word, and its function.
type Recogniser = (&'static str, fn(&Scene<'_>, &mut Found));

/// All of them, in the order in which they look. What one proves, the next ones no longer see.
const RECOGNISERS: &[Recogniser] = &[
    ("mimalloc", mimalloc::find),
    ("page maps", page_map::find),
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

/// Claim what can be recognised of the memory that nobody claimed; heaps of which the blocks can be read.
pub(crate) fn claim(process: &Process, base: &Base, claims: &mut Claims) -> Vec<UnreadHeap> {
    let _phase = process.enter(Phase::Foreign);
    let open = scene::unclaimed(base, claims);
    let mut scene = Scene::over(process, base, open);
    let mut heaps = Vec::new();
    for (name, find) in RECOGNISERS {
        if scene.is_empty() {
            return heaps;
        }
        let mut found = Found::default();
        find(&scene, &mut found);
        if !found.is_empty() {
            tracing::debug!(name, "recognised");
        }
        heaps.append(&mut found.heaps);
        scene.settle(found, claims);
    }
    heaps
}

/// The blocks of a heap, unless its structures contradict each other.
pub(crate) fn read_heap(process: &Process, heap: &UnreadHeap) -> Option<ExtentHeap> {
    let _phase = process.enter(Phase::Foreign);
    let open = RangeMap::from_sorted(heap.open.to_vec()).unwrap_or_default();
    let scene = Scene::over(process, process.base(), open);
    match heap.name {
        AllocatorName::Jemalloc => jemalloc::heap(&scene, &heap.holders, heap.owner),
        AllocatorName::Tcmalloc => {
            let image = scene.images.iter().find(|image| image.owner == heap.owner)?;
            tcmalloc::heap(&scene, &heap.holders, image)
        }
        _ => None,
    }
}
