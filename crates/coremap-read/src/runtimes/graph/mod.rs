//! The object graph of a heap: shortest paths from roots, live objects, dominators and retained sizes, path shapes.
//!
//! Works for every runtime, through [`Heap`] and [`ObjectReader`]. Finding the roots is the runtime's task; printing is
//! the commands'.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::runtimes::graph::{Graph, MemoryBudget, PathSearch, Retained};
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let (id, runtime) = session.runtimes_by_id()[0];
//! let heap = runtime.heap().ok_or("no heap")?;
//! let roots = session.roots(id).all;
//!
//! // Retained size: the bytes that would be freed with the object.
//! let budget = MemoryBudget::unbounded();
//! let retained = Retained::find(Graph::new(heap), &roots, &budget, |_| {})?;
//! let biggest = retained.top(1, |_, _| true)[0];
//! let object = retained.live.object(biggest).ok_or("a root")?;
//! println!("{object} keeps {} bytes", retained.bytes(biggest));
//! assert!(retained.bytes(biggest) <= retained.total.size);
//!
//! // A shortest path from a root to the object.
//! let found = PathSearch::new(Graph::new(heap), object, &budget).run(&roots, 1)?;
//! let path = &found.paths[0];
//! println!("{}: {} objects", path.root.kind.name(), path.steps.len());
//! assert_eq!(path.steps.last().map(|(addr, _)| *addr), Some(object));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adjacency;
mod bfs_order;
mod budget;
mod graph_cache;
mod heap_pass;
mod id_set;
mod list_nodes;
mod live_graph;
#[cfg(test)]
mod model_tests;
mod object_ids;
mod own_sizes;
mod owner_sums;
mod owner_tree;
mod packed_index;
mod packed_size;
mod parallel_bfs;
mod path_search;
mod path_shapes;
mod plain;
mod rank_select;
mod reduced_graph;
#[cfg(test)]
mod reference;
mod retained;
mod root_bfs;
mod segmented_vec;
mod semi_nca;
mod shared_dominators;
mod shared_objects;
mod shortest_path_tree;
#[cfg(test)]
mod toy_heap;
mod type_sums;
mod visit_states;
mod visited;
mod work;

pub use budget::{GraphError, MemoryBudget};
#[doc(hidden)]
pub use graph_cache::{CacheGuard, GraphCache};
pub use live_graph::{GraphSize, LiveGraph, LiveObjects, RootNode};
pub(crate) use object_ids::{ObjectIds, WalkResult};
pub use owner_tree::{OwnerTree, Parent, TreeNode};
pub use path_search::{FoundPaths, Path, PathSearch};
pub use path_shapes::{FieldKey, Shape, ShapeIndex, Shapes};
pub(crate) use plain::{Below, PlainGraph};
pub use retained::{Retained, RetainedSums, TypeSum};
pub use shortest_path_tree::ShortestPathTree;

use crate::runtimes::api::{Heap, ObjectReader, Space};

/// The objects of a heap and their references.
#[derive(Clone, Copy)]
pub struct Graph<'g> {
    /// The heap whose objects are the nodes.
    pub heap: &'g dyn Heap,
    space: &'g Space<'g>,
}

impl<'g> Graph<'g> {
    /// Creates the graph of `heap`. Reads nothing but the heap's [`Space`].
    pub fn new(heap: &'g dyn Heap) -> Graph<'g> {
        Graph { heap, space: heap.space() }
    }

    /// Creates an object reader. Each thread needs its own.
    pub fn reader(self) -> Box<dyn ObjectReader + 'g> {
        self.heap.reader()
    }

    /// The word at `addr`, which is the first of an object that begins there. 0 if it is not in the core.
    fn first_word(self, addr: u64) -> u64 {
        let word = self.space.run(addr).and_then(|run| run.words(addr).first());
        word.map_or(0, |w| u64::from_le_bytes(*w))
    }
}
