//! The object graph of a heap: shortest paths from roots, live objects, dominators and retained sizes, path shapes.
//!
//! Works for every runtime, through [`Heap`] and [`ObjectReader`]. Finding the roots is the runtime's task; printing is
//! the commands'.

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
pub(crate) use shared::{GraphCacheGuard, Graphs};
pub use tree::Tree;

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
