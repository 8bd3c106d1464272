//! Contents of blocks with the same path: classes, texts, and links.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::block_graph::edges::{Edges, Lead};
use crate::analysis::block_graph::facts::Part;
use crate::analysis::block_graph::kinds::text;
use crate::analysis::block_graph::owners::Vertex;
use crate::analysis::block_graph::scene::Scene;
use crate::bytes::printable;

/// Maximum number of texts, and of classes, per result.
const TEXTS: usize = 3;
const CLASSES: usize = 4;

/// Minimum share of a path's bytes, in percent, of a path below it that is searched for text.
const PART: u64 = 3;

impl Scene<'_, '_> {
    /// Returns the number of words in a holder that point at blocks of a path. 0 if the holder is no table of such
    /// words.
    pub(super) fn heads(&self, holder: u32, path: u32) -> u64 {
        let is = |block: u32| self.paths.of_block.get(block as usize) == Some(&path);
        let (heads, words) = match self.paths.get(holder).map(|path| path.first) {
            Some(Vertex::Block(block)) => {
                let heads = self.graph.edges.of(block).filter(|(_, to, _)| is(*to)).count() as u64;
                (heads, self.graph.usable(block) / 8)
            }
            Some(Vertex::Group(group)) => {
                let words = self.groups.get(group as usize).map_or(&[][..], |group| &group.words);
                (words.iter().filter(|word| is(word.to)).count() as u64, words.len() as u64)
            }
            Some(Vertex::Root | Vertex::Lost) | None => (0, 0),
        };
        // A few such words may be fields of a structure of the program.
        if heads.saturating_mul(8) >= words { heads } else { 0 }
    }

    /// Returns the offset of the word by which a path's blocks point at each other. `heads`: number of their lists.
    pub(super) fn linked(&self, path: u32, heads: u64) -> Option<u64> {
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        let is = |block: u32| self.paths.of_block.get(block as usize) == Some(&path);
        for &block in self.paths.blocks_of(path) {
            let known = |(at, to, _): &(u16, u32, Lead)| *at < Edges::LAST_WORD && *to != block && is(*to);
            for (at, ..) in self.graph.edges.of(block).filter(known) {
                let count = counts.entry(at).or_default();
                *count = count.saturating_add(1);
            }
        }
        let (at, count) = counts.into_iter().max_by_key(|(at, count)| (*count, Reverse(*at)))?;
        let all = self.paths.get(path)?.count;
        // All nodes but the last of each list are linked. Stale words would give another number.
        let linked = all.saturating_sub(heads.min(all));
        let fits = count.saturating_mul(10) >= linked.saturating_mul(9)
            && (heads == 0 || count.saturating_mul(10) <= linked.saturating_mul(11));
        let is_link = fits && linked.saturating_mul(20) >= all;
        is_link.then(|| u64::from(at).saturating_mul(8))
    }

    /// Returns the classes of the blocks at and below a path, with the blocks' own bytes.
    pub(super) fn classes(&self, path: u32) -> Vec<Part> {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for path in self.below(path).into_iter().filter_map(|path| self.paths.get(path)) {
            if let Vertex::Block(block) = path.first
                && let Some(name) = self.kinds.name(block)
            {
                let sum = sums.entry(name).or_default();
                sum.0 = sum.0.saturating_add(path.count);
                sum.1 = sum.1.saturating_add(path.count.saturating_mul(self.graph.size(block)));
            }
        }
        let part =
            |(name, (count, bytes)): (&str, (u64, u64))| Part { what: printable(name).into_owned(), count, bytes };
        let mut all: Vec<Part> = sums.into_iter().map(part).collect();
        all.sort_by_key(|part| Reverse(part.count));
        all.truncate(CLASSES);
        all
    }

    /// Returns texts in the first blocks of a path and of paths below it. If there are few, also of neighbouring paths.
    pub(super) fn texts(&self, path: u32, chain: &[u32]) -> Vec<String> {
        let least = self.paths.get(path).map_or(0, |path| path.bytes / 100 * PART);
        let mut out: Vec<String> = Vec::new();
        let mut add = |paths: &[u32]| {
            for path in paths.iter().filter_map(|path| self.paths.get(*path)).filter(|path| path.bytes >= least) {
                let Vertex::Block(block) = path.first else { continue };
                let found = text(&self.session.process.memory, self.graph, block);
                if let Some(found) = found.filter(|found| !out.contains(found)) {
                    out.push(found);
                }
                if out.len() >= TEXTS {
                    break;
                }
            }
            out.len()
        };
        let own = add(&self.below(path));
        if own == 0 || own < TEXTS && chain.last() != Some(&path) {
            add(chain.last().map_or(&[][..], |last| self.paths.below(*last)));
        }
        out
    }
}
