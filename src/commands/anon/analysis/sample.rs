//! Finds equal blocks and their content from a fixed number of pages, however much memory there is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::analysis::contents::Destinations;
use crate::limits;
use crate::memory::content::{Content, Makeup};
use crate::phase::Phase;
use crate::process::Process;
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::targets::Run;

/// Maximum number of pages sampled per block.
pub(super) const SAMPLES: usize = 64;

/// Minimum number of pages sampled per block.
const MIN_PAGES: usize = 2;

/// Blocks of one size and content.
pub(super) struct Pattern {
    /// Size of each block in bytes.
    pub(super) size: u64,
    /// Number of blocks: an estimate if only some were sampled and these differed.
    pub(super) blocks: u64,
    /// Whether `blocks` is an estimate.
    pub(super) about: bool,
    /// Number of blocks of this size. `looked` of them were sampled, up to `pages` pages each.
    pub(super) of: usize,
    pub(super) looked: usize,
    pub(super) pages: usize,
    /// Start of the first sampled block with this content.
    pub(super) first: Addr,
    /// Content of the sampled pages.
    pub(super) makeup: Makeup,
    /// Ranges of the blocks, by address. If only some blocks of the size were sampled, the estimated number of them.
    pub(super) ranges: Vec<AddrRange>,
    /// Whether any block of this size is only a part of a region.
    pub(super) cut: bool,
}

impl Pattern {
    pub(super) fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.blocks)
    }
}

struct SizeClass {
    size: u64,
    blocks: Vec<AddrRange>,
    cut: bool,
}

/// Returns the pattern with most bytes among `blocks`, if these are at least `least`. `blocks` is sorted by address;
/// the flag is true for a whole region.
pub(super) fn largest(
    session: &Session<'_>,
    destinations: &Destinations,
    blocks: &[(AddrRange, bool)],
    least: u64,
) -> Option<Pattern> {
    let _phase = session.process.enter(Phase::Anonymous);
    let sizes = sizes(blocks, least);
    let each = limits::MAX_FINDING_PAGES / sizes.len().max(1);
    let places: Vec<(usize, Vec<Vec<AddrRange>>)> =
        sizes.iter().map(|s| sample_pages(session.process, s, each)).collect();
    session.process.target().expect(places.iter().flat_map(|(_, blocks)| blocks.iter().flatten().copied()));
    let patterns = sizes.iter().zip(&places).flat_map(|(size, (pages, places))| {
        let contents: Vec<Makeup> = places.par_iter().map(|places| makeup(session, destinations, places)).collect();
        patterns(size, *pages, &contents)
    });
    patterns.filter(|p| p.bytes() >= least).max_by_key(|p| (p.bytes(), Reverse(p.first)))
}

/// Sizes whose blocks are at least `least` bytes together, most bytes first.
fn sizes(blocks: &[(AddrRange, bool)], least: u64) -> Vec<SizeClass> {
    let mut by_size: BTreeMap<u64, SizeClass> = BTreeMap::new();
    for &(block, whole) in blocks {
        let size = block.len();
        let of = by_size.entry(size).or_insert_with(|| SizeClass { size, blocks: Vec::new(), cut: false });
        of.blocks.push(block);
        of.cut |= !whole;
    }
    let bytes = |s: &SizeClass| s.size.saturating_mul(s.blocks.len() as u64);
    let mut sizes: Vec<SizeClass> = by_size.into_values().filter(|s| bytes(s) >= least).collect();
    sizes.sort_by_key(|s| (Reverse(bytes(s)), s.blocks.first().map(|b| b.start)));
    sizes.truncate(limits::MAX_FINDING_SIZES);
    sizes
}

/// Returns at most `most` of the indices below `n`, evenly spread, beginning with 0.
fn evenly_spaced(n: usize, most: usize) -> impl Iterator<Item = usize> {
    let of = most.min(n);
    (0..of).map(move |i| (i as u128 * n as u128 / of as u128) as usize)
}

/// Chooses about `most` pages to sample among the blocks of one size. Returns the maximum number of pages per block,
/// and the pages of each sampled block.
fn sample_pages(process: &Process, size: &SizeClass, most: usize) -> (usize, Vec<Vec<AddrRange>>) {
    let n = size.blocks.len().max(1);
    let pages = (most / n).clamp(MIN_PAGES, SAMPLES);
    let looked = evenly_spaced(n, (most / pages).max(1)).filter_map(|i| size.blocks.get(i));
    let samples = looked.map(|block| {
        let runs = process.target().dumped_runs(*block);
        let held: u64 = runs.iter().map(|r| r.range.len().div_ceil(PAGE)).saturating_sum();
        let mut places = Vec::new();
        let (mut run, mut before) = (runs.iter().peekable(), 0);
        for page in evenly_spaced(held as usize, pages).map(|p| p as u64) {
            while let Some(r) = run.next_if(|r| before + r.range.len().div_ceil(PAGE) <= page) {
                before += r.range.len().div_ceil(PAGE);
            }
            let page = |r: &Run<'_>| AddrRange::sized(r.range.start.saturating_add((page - before) * PAGE), PAGE);
            places.extend(run.peek().and_then(|r| page(r).intersect(&r.range)));
        }
        places
    });
    (pages, samples.collect())
}

fn makeup(session: &Session<'_>, destinations: &Destinations, places: &[AddrRange]) -> Makeup {
    let mut out = Makeup::default();
    for place in places {
        let page = session.process.target().copied(*place);
        // The content of a page that could not be read is unknown.
        if !page.is_empty() {
            out.add(Content::of_page(&page, destinations), page.len() as u64);
        }
    }
    out
}

/// Groups the blocks of one size by content, extrapolated from the sampled ones.
fn patterns(size: &SizeClass, pages: usize, contents: &[Makeup]) -> Vec<Pattern> {
    let (of, looked) = (size.blocks.len(), contents.len());
    let seen: BTreeMap<usize, &Makeup> = evenly_spaced(of, looked).zip(contents).collect();
    let mut by_look: BTreeMap<Option<Content>, (u64, Addr, Makeup)> = BTreeMap::new();
    for (i, makeup) in &seen {
        let Some(block) = size.blocks.get(*i) else { continue };
        let (count, _, all) = by_look.entry(makeup.content()).or_insert((0, block.start, Makeup::default()));
        *count += 1;
        all.merge(makeup);
    }
    let alike = by_look.len() == 1;
    let all = |seen: u64| (u128::from(seen) * of as u128 / looked.max(1) as u128) as u64;
    let pattern = |(look, (count, first, makeup)): (Option<Content>, (u64, Addr, Makeup))| {
        let other = |i: &usize| seen.get(i).is_some_and(|makeup| makeup.content() != look);
        let these = size.blocks.iter().enumerate().filter(|(i, _)| !other(i)).map(|(_, block)| *block);
        Pattern {
            size: size.size,
            blocks: all(count),
            about: !alike && looked < of,
            of,
            looked,
            pages,
            first,
            makeup,
            ranges: these.take(all(count) as usize).collect(),
            cut: size.cut,
        }
    };
    by_look.into_iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::content::Filled;

    fn content(fill: u8) -> Makeup {
        Makeup::of([Filled { range: AddrRange::sized(Addr::new(0x1000), PAGE), content: Content::Byte(fill) }])
    }

    fn blocks(n: u64, size: u64) -> Vec<AddrRange> {
        (0..n).map(|i| AddrRange::sized(Addr::new(0x10_0000 + i * size), size)).collect()
    }

    #[test]
    fn places_are_spread_evenly_and_never_more_than_there_are() {
        assert_eq!(evenly_spaced(10, 4).collect::<Vec<_>>(), [0, 2, 5, 7]);
        assert_eq!(evenly_spaced(3, 64).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(evenly_spaced(0, 4).count(), 0);
        assert_eq!(evenly_spaced(usize::MAX, 2).collect::<Vec<_>>(), [0, usize::MAX / 2]);
    }

    #[test]
    fn what_samples_tell_of_the_others_is_a_guess_only_where_they_differ() {
        let size = SizeClass { size: 0x1000, blocks: blocks(1000, 0x1000), cut: false };
        let same = patterns(&size, 2, &vec![content(7); 100]);
        assert_eq!(same.iter().map(|p| (p.blocks, p.about)).collect::<Vec<_>>(), [(1000, false)]);
        let mut differ = vec![content(7); 100];
        differ[10..40].fill(content(9));
        let differ = patterns(&size, 2, &differ);
        assert_eq!(differ.iter().map(|p| (p.blocks, p.about)).collect::<Vec<_>>(), [(700, true), (300, true)]);
        // The ranges exclude blocks that were seen to differ.
        let ranges = |size: &SizeClass, contents: &[Makeup]| {
            let all = patterns(size, 2, contents);
            all.iter()
                .map(|p| p.ranges.iter().map(|r| r.start.get() >> 12 & 0xfff).collect())
                .collect::<Vec<Vec<u64>>>()
        };
        let few = SizeClass { size: 0x1000, blocks: blocks(6, 0x1000), cut: false };
        assert_eq!(
            ranges(&few, &[content(7), content(9), content(7)]),
            [vec![0x100, 0x101, 0x103, 0x104], vec![0x101, 0x102]]
        );
        // If all blocks were sampled, nothing is estimated.
        let size = SizeClass { blocks: blocks(2, 0x1000), ..size };
        let all = patterns(&size, 2, &[content(7), content(9)]);
        assert_eq!(all.iter().map(|p| (p.blocks, p.about)).collect::<Vec<_>>(), [(1, false), (1, false)]);
    }

    #[test]
    fn only_sizes_of_enough_bytes_count_those_of_most_first() {
        let mut all: Vec<(AddrRange, bool)> = blocks(3, 0x1000).into_iter().map(|b| (b, true)).collect();
        all.extend(blocks(2, 0x10000).into_iter().map(|b| (b, false)));
        let found: Vec<(u64, bool)> = sizes(&all, 0x3000).iter().map(|s| (s.size, s.cut)).collect();
        assert_eq!(found, [(0x10000, true), (0x1000, false)]);
        assert_eq!(sizes(&all, 0x3001).len(), 1);
    }
}
