//! The path from a holder to its elements, and the container at its end.

use std::cmp::Reverse;

use crate::analysis::block_graph::containers::Container;
use crate::analysis::block_graph::facts::{ContainerFact, Part};
use crate::analysis::block_graph::owners::Vertex;
use crate::analysis::block_graph::scene::Scene;
use crate::bytes::printable;
use crate::units::exact;

/// Minimum number of equal blocks that count as elements, and their minimum ratio to the blocks that hold them.
const ELEMENTS: u64 = 64;
const TIMES: u64 = 8;

/// Maximum number of other containers that are named.
const OTHERS: usize = 3;

/// Bytes of a block that are searched for a container's header.
const HEADER: u64 = 1024;

/// Maximum number of paths that are searched for classes and texts.
const SEARCHED: usize = 400;

impl Scene<'_, '_> {
    /// Descends from a path while one child has most of its bytes. Returns the paths on the way, and the elements below
    /// the last one.
    pub(super) fn chain(&self, from: u32) -> (Vec<u32>, Option<u32>) {
        let mut chain = vec![from];
        let mut at = from;
        while let Some(&child) = self.paths.below(at).first() {
            let (Some(above), Some(below)) = (self.paths.get(at), self.paths.get(child)) else { break };
            if below.count >= ELEMENTS && below.count >= above.count.saturating_mul(TIMES) {
                return (chain, Some(child));
            }
            if below.bytes.saturating_mul(2) < above.bytes {
                break;
            }
            chain.push(child);
            at = child;
        }
        (chain, None)
    }

    pub(super) fn part(&self, path: u32) -> Option<Part> {
        let found = self.paths.get(path)?;
        let what = match found.first {
            Vertex::Block(block) => self.what(block),
            Vertex::Group(group) => self.name_of(self.groups.get(group as usize)?).name,
            Vertex::Root | Vertex::Lost => return None,
        };
        Some(Part { what, count: found.count, bytes: found.bytes })
    }

    /// Describes a block by its class or its size.
    pub(super) fn what(&self, block: u32) -> String {
        match self.kinds.name(block) {
            Some(class) => printable(class).into_owned(),
            None if self.kinds.of(block).text => format!("blocks of {} bytes with text", exact(self.graph.size(block))),
            None => format!("blocks of {} bytes", exact(self.graph.size(block))),
        }
    }

    /// Returns the container at the end of a chain, whose elements are `elements`.
    pub(super) fn container(&self, chain: &[u32], elements: Option<u32>) -> Option<Container> {
        let (&last, above) = chain.split_last()?;
        let storage = match self.paths.get(last)?.first {
            Vertex::Block(block) => Some(block),
            Vertex::Group(_) | Vertex::Root | Vertex::Lost => None,
        };
        // A container with this block as its storage takes precedence over a container inside its elements. A container
        // in the first of many equal blocks is not the holder.
        let is_one = |path: u32| self.paths.get(path).is_some_and(|path| path.count == 1);
        let above = above.last().filter(|above| is_one(**above)).and_then(|above| {
            let storage = storage?;
            self.in_path(*above).into_iter().find(|found| self.graph.at(found.storage) == Some(storage))
        });
        let path_of = |block: u32| self.paths.of_block.get(block as usize).copied().unwrap_or(0);
        let fits = |found: &Container| {
            let Some(path) = self.graph.at(found.storage).map(path_of).filter(|path| *path > 0) else { return false };
            let parent = self.paths.get(path).map_or(0, |path| path.parent);
            let bytes = |path: u32| self.paths.get(path).map_or(0, |path| path.bytes);
            let large = match elements.and_then(|part| self.paths.get(part)) {
                Some(part) => chain.contains(&path) || found.count.is_none_or(|found| found >= part.count / 2),
                None => chain.contains(&path) || bytes(path) >= bytes(last) / 2,
            };
            (Some(path) == elements || chain.contains(&path) || parent > 0 && chain.contains(&parent)) && large
        };
        above.or_else(|| {
            let mut all = if is_one(last) { self.in_path(last) } else { Vec::new() };
            all.retain(fits);
            all.into_iter().max_by_key(|found| found.count.unwrap_or_else(|| found.room.map_or(0, |room| room.0 / 8)))
        })
    }

    /// Returns other containers with a known number of elements in the block or variable that has `container`.
    pub(super) fn others(&self, last: Option<u32>, container: Option<&Container>) -> Vec<ContainerFact> {
        let is_one = |path: &u32| self.paths.get(*path).is_some_and(|path| path.count == 1);
        let (Some(last), Some(first)) = (last.filter(is_one), container) else { return Vec::new() };
        let mut all = self.in_path(last);
        // Keep only numbers that are proven, by nodes or control bytes.
        all.retain(|found| {
            found.header != first.header && !found.kind.is_array() && found.count.is_some_and(|count| count >= ELEMENTS)
        });
        all.sort_by_key(|found| Reverse(found.count));
        all.truncate(OTHERS);
        all.iter().map(|found| ContainerFact::new(found, self.prover.rust)).collect()
    }

    /// Returns containers whose headers are in the first holder of a path.
    fn in_path(&self, path: u32) -> Vec<Container> {
        match self.paths.get(path).map(|path| path.first) {
            Some(Vertex::Group(group)) => {
                let Some(group) = self.groups.get(group as usize) else { return Vec::new() };
                let near = || group.words.iter().take(HEADER as usize / 8).filter_map(|word| self.prover.near(word.at));
                group.container.clone().map_or_else(|| near().collect(), |found| vec![found])
            }
            Some(Vertex::Block(block)) => {
                let start = self.graph.start(block);
                let words = (0..self.graph.usable(block).min(HEADER)).step_by(8);
                let mut all: Vec<Container> =
                    words.filter_map(|offset| self.prover.at(start.checked_add(offset)?)).collect();
                all.extend(self.prover.ghash(start));
                all
            }
            Some(Vertex::Root | Vertex::Lost) | None => Vec::new(),
        }
    }

    /// Returns the path and those below it, most important first.
    pub(super) fn below(&self, path: u32) -> Vec<u32> {
        let mut out = vec![path];
        let mut at = 0;
        while let Some(&path) = out.get(at).filter(|_| out.len() < SEARCHED) {
            out.extend(self.paths.below(path));
            at = at.saturating_add(1);
        }
        out
    }
}
