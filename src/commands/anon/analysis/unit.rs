//! Blocks of one size in a region that the kernel joined from many mappings.
//!
//! Few of the blocks may have a pointer from outside of the region. So the distances between those that have one
//! suggest a size. It is believed if something begins at most multiples of it, and at few places between them: words in
//! the region lead there, or the content changes there.

use crate::addr::{Addr, AddrRange};
use crate::commands::anon::analysis::blocks::cut;
use crate::memory::content::Filled;

/// Minimum size in bytes, minimum number of blocks, and minimum number of starts that suggest a size.
const SIZE: u64 = 64 << 10;
const BLOCKS: u64 = 8;
const STARTS: usize = 3;

/// Maximum number of blocks of one region.
const MOST: u64 = 1 << 20;

/// Cuts regions into blocks of one size, where that is found, and elsewhere at `cuts`. `None` if no region has such
/// blocks. `inside`: targets of words in the same region. `runs`: content of the pages. All are sorted by address.
pub(super) fn by_unit(
    regions: &[AddrRange],
    cuts: &[Addr],
    inside: &[Addr],
    runs: &[Filled],
) -> Option<Vec<(AddrRange, bool)>> {
    let mut all: Vec<Addr> = Vec::new();
    for region in regions {
        let within = |list: &[Addr]| -> Vec<Addr> {
            let from = list.partition_point(|at| *at < region.start);
            let to = list.partition_point(|at| *at < region.end);
            list.get(from..to).unwrap_or_default().to_vec()
        };
        let known = within(cuts);
        let found =
            [known.clone(), within(inside)].iter().find_map(|starts| unit(*region, starts, &known, inside, runs));
        all.extend(found.into_iter().flatten());
    }
    if all.is_empty() {
        return None;
    }
    all.extend(cuts);
    all.sort_unstable();
    all.dedup();
    Some(cut(regions, &all))
}

/// Returns the starts of all blocks of a region, if the distances between `starts` are multiples of one size.
fn unit(region: AddrRange, starts: &[Addr], cuts: &[Addr], inside: &[Addr], runs: &[Filled]) -> Option<Vec<Addr>> {
    let first = *starts.first().filter(|_| starts.len() >= STARTS)?;
    let size = starts.iter().fold(0, |size, at| gcd(size, at.since(first)));
    let before = first.since(region.start).checked_rem(size)?;
    let count = region.len().saturating_sub(before) / size;
    if size < SIZE || !(BLOCKS..=MOST).contains(&count) {
        return None;
    }
    let has = |list: &[Addr], at: Addr| list.binary_search(&at).is_ok();
    // The content changes where a run begins. Pages that are not in the core end one too.
    let changes = |at: Addr| runs.binary_search_by_key(&at, |run| run.range.start).is_ok();
    let begins = |at: &Addr| has(cuts, *at) || has(inside, *at) || changes(*at);
    let at = |offset: u64| region.start.saturating_add(before).saturating_add(offset);
    let multiples = || (0..count).map(|i| at(i.saturating_mul(size)));
    let hits = multiples().filter(begins).count() as u64;
    let between = multiples().map(|start| start.saturating_add(size / 2)).filter(begins).count() as u64;
    let is_unit = hits.saturating_mul(4) >= count.saturating_mul(3) && between.saturating_mul(4) <= count;
    is_unit.then(|| multiples().filter(|start| *start > region.start).collect())
}

/// Greatest common divisor.
fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::content::Content;

    const BASE: u64 = 0x7f00_0000_0000;
    const UNIT: u64 = 1 << 20;

    fn at(mib: u64) -> Addr {
        Addr::new(BASE + mib * UNIT)
    }

    /// 162 blocks of 1 MiB: the first 700 KiB of each are random, and the rest is zero.
    fn runs(count: u64) -> Vec<Filled> {
        let each = |i: u64| {
            let border = at(i).saturating_add(700 << 10);
            let half = |start, end, content| Filled { range: AddrRange::new(start, end), content };
            [half(at(i), border, Content::Random), half(border, at(i + 1), Content::Zero)]
        };
        (0..count).flat_map(each).collect()
    }

    #[test]
    fn joined_mappings_of_one_size_are_blocks_of_that_size() {
        let region = [AddrRange::new(at(0), at(162))];
        // Pointers from outside lead to few of them: distances of 28, 13 and 14 blocks.
        let cuts = [at(0), at(28), at(41), at(55), at(83)];
        let blocks = by_unit(&region, &cuts, &[], &runs(162)).unwrap_or_default();
        assert_eq!(blocks.len(), 162);
        assert!(blocks.iter().all(|(block, _)| block.len() == UNIT));
        // Or words in the region itself, as in a list of blocks.
        let list: Vec<Addr> = (1..162).map(at).collect();
        assert_eq!(by_unit(&region, &[], &list, &[]).map(|blocks| blocks.len()), Some(162));
    }

    #[test]
    fn blocks_of_several_sizes_are_not_cut_at_what_their_sizes_share() {
        let region = [AddrRange::new(at(0), at(162))];
        let cuts = [at(0), at(28), at(41), at(55), at(83)];
        // All of it has one content.
        let one = [Filled { range: region[0], content: Content::Random }];
        assert!(by_unit(&region, &cuts, &[], &one).is_none());
        // The content changes all the time, at multiples or not.
        let changing: Vec<Filled> = (0..324)
            .map(|i| Filled {
                range: AddrRange::sized(Addr::new(BASE + i * UNIT / 2), UNIT / 2),
                content: if i % 2 == 0 { Content::Random } else { Content::Zero },
            })
            .collect();
        assert!(by_unit(&region, &cuts, &[], &changing).is_none());
    }
}
