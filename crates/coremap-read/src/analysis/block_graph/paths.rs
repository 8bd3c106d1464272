//! The dominator tree with equal blocks merged: one path for all equal blocks below equal blocks.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::edges::{Edges, Lead};
use crate::analysis::block_graph::kinds::{Kind, Kinds};
use crate::analysis::block_graph::owners::{Owners, Vertex};
use crate::runtimes::graph::{GraphError, MemoryBudget};

/// Maximum number of paths.
const PATHS: usize = 1 << 18;

/// Maximum number of paths above a block that are compared with it. Nodes of a list or tree are below each other.
const UPWARD: usize = 64;

/// Maximum number of words of a block that are compared.
const COMPARED: usize = 12;

/// Minimum usable size in bytes of a block without a class that counts as a table or buffer. Their words differ.
const WIDE: u64 = 1024;

/// Properties that equal blocks have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Block(u64, Kind),
    Group(u32),
    Lost,
}

/// Equal blocks with equal blocks above them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) parent: u32,
    pub(super) first: Vertex,
    /// Number of blocks.
    pub(super) count: u64,
    /// Bytes of these blocks and of blocks below them.
    pub(super) bytes: u64,
    /// Number of these blocks and of blocks below them.
    pub(super) blocks: u64,
}

/// All paths. The root has index 0.
pub(super) struct Paths {
    pub(super) all: Vec<Path>,
    /// Children of each path, most bytes first.
    pub(super) children: Vec<Vec<u32>>,
    /// Path of each block. 0: none.
    pub(super) of_block: Vec<u32>,
    /// The group at the start of each path. `None` if several roots lead to it.
    pub(super) group: Vec<Option<u32>>,
    /// Whether each path is lost: no root reaches it.
    pub(super) lost: Vec<bool>,
    /// Two lists: the end index of each path's blocks in the second list, and all blocks by path.
    by_path: OnceCell<(Vec<u32>, Vec<u32>)>,
}

impl Paths {
    /// Merges equal blocks below equal blocks.
    ///
    /// # Errors
    /// [`GraphError::OutOfTime`]
    pub(super) fn find(
        graph: &BlockGraph<'_>,
        kinds: &Kinds,
        owners: &Owners,
        budget: &MemoryBudget,
    ) -> Result<Paths, GraphError> {
        let root = Path { parent: 0, first: Vertex::Root, count: 1, bytes: 0, blocks: 0 };
        let mut out = Paths {
            all: vec![root],
            children: Vec::new(),
            of_block: vec![0; graph.len()],
            group: vec![None],
            lost: vec![false],
            by_path: OnceCell::new(),
        };
        let mut keys: Vec<Key> = vec![Key::Lost];
        let mut of_vertex: Vec<u32> = Vec::with_capacity(owners.len());
        let mut known: HashMap<(u32, Key), u32> = HashMap::new();
        of_vertex.push(0);
        for index in 1..owners.len() {
            budget.in_time_at(index)?;
            let (vertex, up) = owners.at(index);
            let above = of_vertex.get(up).copied().unwrap_or(0);
            let key = match vertex {
                Vertex::Block(block) => Key::Block(graph.size(block), kinds.of(block)),
                Vertex::Group(group) => Key::Group(group),
                Vertex::Lost | Vertex::Root => Key::Lost,
            };
            let path = match out.upward(graph, kinds, &keys, above, key, vertex) {
                Some(path) => path,
                None => match known.get(&(above, key)) {
                    Some(&path) => path,
                    None if out.all.len() < PATHS => {
                        let path = out.all.len() as u32;
                        known.insert((above, key), path);
                        out.all.push(Path { parent: above, first: vertex, count: 0, bytes: 0, blocks: 0 });
                        let group = match vertex {
                            Vertex::Group(group) => Some(group),
                            Vertex::Block(_) | Vertex::Root | Vertex::Lost => {
                                out.group.get(above as usize).copied().flatten()
                            }
                        };
                        out.group.push(group);
                        let is_lost = out.lost.get(above as usize).copied().unwrap_or(false);
                        out.lost.push(is_lost || vertex == Vertex::Lost);
                        keys.push(key);
                        path
                    }
                    None => above,
                },
            };
            of_vertex.push(path);
            if let Some(found) = out.all.get_mut(path as usize) {
                found.count = found.count.saturating_add(1);
                if let Vertex::Block(block) = vertex {
                    found.bytes = found.bytes.saturating_add(graph.size(block));
                    found.blocks = found.blocks.saturating_add(1);
                }
            }
            if let Vertex::Block(block) = vertex
                && let Some(place) = out.of_block.get_mut(block as usize)
            {
                *place = path;
            }
        }
        out.add_up();
        Ok(out)
    }

    /// Returns the path above a block to which the block itself belongs, since it equals that path's blocks.
    fn upward(
        &self,
        graph: &BlockGraph<'_>,
        kinds: &Kinds,
        keys: &[Key],
        above: u32,
        key: Key,
        vertex: Vertex,
    ) -> Option<u32> {
        let Vertex::Block(block) = vertex else { return None };
        let mut at = above;
        for _ in 0..UPWARD {
            let path = self.all.get(at as usize).filter(|_| at > 0)?;
            if keys.get(at as usize) == Some(&key)
                && let Vertex::Block(first) = path.first
                && (is_wide(graph, kinds, block) || are_alike(graph, first, block))
            {
                return Some(at);
            }
            at = path.parent;
        }
        None
    }

    /// Adds the sums of each path to its parent. A path's index is higher than its parent's.
    fn add_up(&mut self) {
        self.children = vec![Vec::new(); self.all.len()];
        for at in (1..self.all.len()).rev() {
            let Some(&Path { parent, bytes, blocks, .. }) = self.all.get(at) else { continue };
            if let Some(above) = self.all.get_mut(parent as usize) {
                above.bytes = above.bytes.saturating_add(bytes);
                above.blocks = above.blocks.saturating_add(blocks);
            }
            if let Some(list) = self.children.get_mut(parent as usize) {
                list.push(at as u32);
            }
        }
        for list in &mut self.children {
            list.sort_by_key(|path| std::cmp::Reverse(self.all.get(*path as usize).map_or(0, |path| path.bytes)));
        }
    }

    pub(super) fn get(&self, path: u32) -> Option<&Path> {
        self.all.get(path as usize)
    }

    /// Returns the blocks of a path, by address.
    pub(super) fn blocks_of(&self, path: u32) -> &[u32] {
        let (ends, blocks) = self.by_path.get_or_init(|| {
            let mut next: Vec<u32> = vec![0; self.all.len().saturating_add(1)];
            for path in &self.of_block {
                if let Some(count) = next.get_mut((*path as usize).saturating_add(1)) {
                    *count = count.saturating_add(1);
                }
            }
            for at in 1..next.len() {
                let before = next.get(at - 1).copied().unwrap_or(0);
                if let Some(start) = next.get_mut(at) {
                    *start = start.saturating_add(before);
                }
            }
            let mut blocks = vec![0; self.of_block.len()];
            for (block, path) in (0..).zip(&self.of_block) {
                let Some(start) = next.get_mut(*path as usize) else { continue };
                if let Some(place) = blocks.get_mut(*start as usize) {
                    *place = block;
                }
                *start = start.saturating_add(1);
            }
            (next, blocks)
        });
        // After this pass, each entry is the end of its path's blocks.
        let end = ends.get(path as usize).map_or(0, |end| *end as usize);
        let from = path.checked_sub(1).and_then(|before| ends.get(before as usize)).map_or(0, |end| *end as usize);
        blocks.get(from..end).unwrap_or_default()
    }

    pub(super) fn below(&self, path: u32) -> &[u32] {
        self.children.get(path as usize).map_or(&[], Vec::as_slice)
    }
}

fn is_wide(graph: &BlockGraph<'_>, kinds: &Kinds, block: u32) -> bool {
    graph.usable(block) > WIDE && kinds.of(block).class == 0
}

/// Whether two blocks of one size may be of the same kind: both have pointers at the same offset to blocks of similar
/// size. Otherwise they may be, for example, a table and its element.
fn are_alike(graph: &BlockGraph<'_>, a: u32, b: u32) -> bool {
    // The highest index is shared by all positions beyond it.
    let known = |(at, ..): &(u16, u32, Lead)| *at < Edges::LAST_WORD;
    let words = |block: u32| {
        graph.edges.of(block).filter(known).take(COMPARED).map(|(at, to, _)| (at, graph.usable(to).max(1)))
    };
    if words(a).next().is_none() || words(b).next().is_none() {
        return true;
    }
    let mut common = false;
    for (at, size) in words(a) {
        if let Some((_, other)) = words(b).find(|(other, _)| *other == at) {
            common = true;
            if size > other.saturating_mul(16) || other > size.saturating_mul(16) {
                return false;
            }
        }
    }
    common
}
