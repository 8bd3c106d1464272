//! Divides anonymous memory into blocks and groups equal blocks. Regions are cut at the addresses that pointers refer
//! to, then where the content changes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::memory::content::{Content, Filled, Makeup, stretches, within};
use crate::report::BlockBorders;

/// Blocks of one size above which none of them is cut by content. If an owner has many blocks of one size, it writes
/// each in the same way, and a change of content is a change within a block.
const MAX_CUT_BLOCKS: usize = 8;

pub(super) struct Block {
    pub(super) range: AddrRange,
    pub(super) borders: BlockBorders,
    /// Content of its pages.
    pub(super) makeup: Makeup,
}

/// Blocks of one size and content.
pub(super) struct Cluster {
    /// Size of each block in bytes.
    pub(super) size: u64,
    /// Content of nearly all of each block. `None` if the core has none of it.
    pub(super) content: Option<Content>,
    /// Content of all blocks together.
    pub(super) makeup: Makeup,
    pub(super) blocks: Vec<AddrRange>,
    /// How the blocks were delimited. If several ways were used, the last in the order of `BlockBorders`.
    pub(super) borders: BlockBorders,
}

impl Cluster {
    pub(super) fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.blocks.len() as u64)
    }
}

/// Cuts `regions` at `cuts`. The flag of a block is true if it is a whole region.
pub(super) fn cut(regions: &[AddrRange], cuts: &[Addr]) -> Vec<(AddrRange, bool)> {
    let mut out = Vec::new();
    for region in regions {
        let from = cuts.partition_point(|c| *c <= region.start);
        let to = cuts.partition_point(|c| *c < region.end);
        let mut start = region.start;
        for &at in cuts.get(from..to).unwrap_or_default() {
            out.push((AddrRange::new(start, at), false));
            start = at;
        }
        out.push((AddrRange::new(start, region.end), start == region.start));
    }
    out
}

/// Cuts the blocks of `known` where their content changes. `known` is sorted by address; the flag is true for a whole
/// region. `runs` is the content of their pages.
pub(super) fn cut_by_content(known: &[(AddrRange, bool)], runs: &[Filled]) -> Vec<Block> {
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    known.iter().for_each(|(block, _)| *sizes.entry(block.len()).or_default() += 1);
    let blocks = |&(range, whole): &(AddrRange, bool)| {
        let borders = if whole { BlockBorders::Regions } else { BlockBorders::Pointers };
        let held = within(runs, range);
        if sizes.get(&range.len()).is_some_and(|count| *count >= MAX_CUT_BLOCKS) {
            return vec![Block { range, borders, makeup: Makeup::of(held) }];
        }
        let parts = stretches(range, held);
        let borders = if parts.len() > 1 { BlockBorders::Content } else { borders };
        parts.into_iter().map(|part| Block { range: part.range, borders, makeup: part.makeup }).collect()
    };
    known.par_iter().flat_map_iter(blocks).collect()
}

/// Groups equal blocks, most bytes first.
pub(super) fn clusters(blocks: &[Block]) -> Vec<Cluster> {
    let mut by_look: BTreeMap<(u64, Option<Content>), Cluster> = BTreeMap::new();
    for Block { range, borders, makeup } in blocks {
        let (size, content) = (range.len(), makeup.content());
        let cluster = by_look.entry((size, content)).or_insert_with(|| Cluster {
            size,
            content,
            makeup: Makeup::default(),
            blocks: Vec::new(),
            borders: *borders,
        });
        cluster.blocks.push(*range);
        cluster.makeup.merge(makeup);
        cluster.borders = cluster.borders.max(*borders);
    }
    let mut clusters: Vec<Cluster> = by_look.into_values().collect();
    clusters.sort_by_key(|c| (Reverse(c.bytes()), c.blocks.first().map(|b| b.start)));
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(Addr::new(start), Addr::new(end))
    }

    #[test]
    fn regions_are_cut_where_pointers_lead_and_nowhere_else() {
        let regions = [range(0x1000, 0x5000), range(0x8000, 0x9000)];
        let cuts = [Addr::new(0x1000), Addr::new(0x3000), Addr::new(0x5000), Addr::new(0x7000), Addr::new(0x8000)];
        assert_eq!(
            cut(&regions, &cuts),
            [(range(0x1000, 0x3000), false), (range(0x3000, 0x5000), false), (range(0x8000, 0x9000), true)]
        );
    }

    /// Adjacent blocks of 0x40000 bytes: the first quarter is text, the rest random.
    fn blocks(count: u64) -> (Vec<(AddrRange, bool)>, Vec<Filled>) {
        let all: Vec<AddrRange> = (0..count).map(|i| range((i + 1) << 18, (i + 2) << 18)).collect();
        let halves = |block: &AddrRange| {
            let at = block.start.saturating_add(0x10000);
            [(AddrRange::new(block.start, at), Content::Utf8), (AddrRange::new(at, block.end), Content::Random)]
        };
        let runs = all.iter().flat_map(halves).map(|(range, content)| Filled { range, content });
        (all.iter().map(|block| (*block, false)).collect(), runs.collect())
    }

    #[test]
    fn a_few_blocks_are_cut_by_content_and_many_equal_ones_are_not() {
        let (known, runs) = blocks(3);
        let all = clusters(&cut_by_content(&known, &runs));
        let found: Vec<_> = all.iter().map(|c| (c.size, c.blocks.len(), c.content, c.borders)).collect();
        let (text, random) = (Some(Content::Utf8), Some(Content::Random));
        assert_eq!(found, [(0x30000, 3, random, BlockBorders::Content), (0x10000, 3, text, BlockBorders::Content)]);
        let (known, runs) = blocks(8);
        let all = clusters(&cut_by_content(&known, &runs));
        let found: Vec<_> = all.iter().map(|c| (c.size, c.blocks.len(), c.content, c.borders)).collect();
        assert_eq!(found, [(0x40000, 8, Some(Content::Mixed), BlockBorders::Pointers)]);
        let random = all.first().map(|c| c.makeup.percent(Content::Random));
        assert_eq!(random, Some(75));
    }
}
