//! Objects and the references between them, of any runtime: shortest paths from roots,
//! what lives, what dominates what, and the shapes of ways.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::runtimes::graph::{Graph, Retained, Room, Search};
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let (id, runtime) = session.runtimes_by_id()[0];
//! let heap = runtime.heap().ok_or("no heap")?;
//! let roots = session.roots(id).all;
//!
//! // What each live object keeps alive: the objects that would be freed with it.
//! let room = Room::unbounded();
//! let retained = Retained::find(Graph::new(heap), &roots, &room, |_| {})?;
//! let biggest = retained.top(1, |_, _| true)[0];
//! let object = retained.live.object(biggest).ok_or("a root")?;
//! println!("{object} keeps {} bytes", retained.bytes(biggest));
//! assert!(retained.bytes(biggest) <= retained.total.size);
//!
//! // Why it is alive: a shortest path from a root to it.
//! let found = Search::new(Graph::new(heap), object, &room).run(&roots, 1)?;
//! let path = &found.paths[0];
//! println!("{}: {} objects", path.root.kind.name(), path.steps.len());
//! assert_eq!(path.steps.last().map(|(addr, _)| *addr), Some(object));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod above;
#[cfg(test)]
mod agree;
mod ahead;
mod bits;
mod deep;
mod dominators;
mod fold;
mod ids;
mod knot;
mod live;
mod marks;
mod narrow;
mod order;
mod pieces;
mod reach;
mod read;
mod retained;
mod room;
mod rows;
mod search;
mod shapes;
mod shared;
#[cfg(test)]
mod simple;
mod states;
#[cfg(test)]
mod toy;
mod tree;
mod weigh;
mod wide;

pub(crate) use ids::{Ids, Walked};
pub use live::{Live, Needs, Numbered, Source};
pub use retained::{Retained, Sums, TypeSum};
pub use room::{GraphError, Room};
pub use search::{Found, Path, Search};
pub use shapes::{FieldKey, Shape, ShapeIndex, Shapes};
pub(crate) use shared::{Graphs, Keeping};
pub use tree::Tree;

use crate::runtimes::api::{Heap, ObjectReader, Space};

/// The objects of a heap as a graph.
#[derive(Clone, Copy)]
pub struct Graph<'g> {
    /// The heap.
    pub heap: &'g dyn Heap,
    space: &'g Space<'g>,
}

impl<'g> Graph<'g> {
    /// The graph of `heap`.
    pub fn new(heap: &'g dyn Heap) -> Graph<'g> {
        Graph { heap, space: heap.space() }
    }

    /// A reader of objects.
    pub fn reader(self) -> Box<dyn ObjectReader + 'g> {
        self.heap.reader()
    }

    /// The word that an object at `addr` would begin with.
    fn first_word(self, addr: u64) -> u64 {
        let word = self.space.run(addr).and_then(|run| run.words(addr).first());
        word.map_or(0, |w| u64::from_le_bytes(*w))
    }
}
