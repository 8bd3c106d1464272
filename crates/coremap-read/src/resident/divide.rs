//! Divides the figures of mappings among kinds, stacks or regions within them.
//!
//! Linux reports figures per mapping, and a mapping may have several parts. The sum of the parts always equals Linux's
//! figure:
//!
//! - A mapping with a single group belongs to that group exactly. So does an empty or full mapping.
//! - If single pages are known ([`Pages`](crate::targets::residence::Pages)), each part gets the pages in it.
//! - Otherwise each part gets at least what it must have: non-zero pages in the core were in RAM or in swap, and bytes
//!   that don't fit into the other parts are in this one. The rest goes first where the core has bytes, then anywhere,
//!   in proportion to the room. It counts as estimated.
//!
//! Bytes are divided, not pages. If two parts share a page, each has its bytes of it.

use crate::addr::AddrRange;
use crate::range_map::Ranged;
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::targets::Residence;
use crate::targets::residence::{Figure, Figures, MappingResidence, PageRuns};

/// A range of memory with its group.
#[derive(Clone, Copy, Debug)]
pub struct GroupRange {
    /// Address range.
    pub range: AddrRange,
    /// Number of its group. `None` if no group is of interest.
    pub group: Option<usize>,
    /// Whether it can't have pages (guard pages).
    pub unbacked: bool,
}

/// Evidence from a core about a range of memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreEvidence {
    /// Bytes in non-zero anonymous pages. They were in RAM or in swap.
    pub certain: u64,
    /// Bytes in the core that are not known to be a hole of the file, including `certain`.
    pub likely: u64,
}

/// Figures of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// Bytes of the group in mappings with figures. Nothing is known about the rest.
    pub covered: u64,
    /// The group's share of the figures.
    pub figures: Figures,
    /// Bytes of its RSS that may belong to another group. The rest of its RSS is certain.
    pub rss_estimated: u64,
    /// Bytes of its RSS and swap whose other figures (PSS, private, shared, huge, swap) were divided in proportion.
    pub others_estimated: u64,
}

impl GroupFigures {
    /// Adds the figures of another group.
    pub fn add(&mut self, other: &GroupFigures) {
        self.covered = self.covered.saturating_add(other.covered);
        self.figures.add(&other.figures);
        self.rss_estimated = self.rss_estimated.saturating_add(other.rss_estimated);
        self.others_estimated = self.others_estimated.saturating_add(other.others_estimated);
    }
}

/// The divided figures of all mappings.
#[derive(Clone, Debug, Default)]
pub struct Divided {
    /// Shares by group number.
    pub groups: Vec<GroupFigures>,
    /// Figures outside all groups.
    pub rest: GroupFigures,
}

/// Divides the figures of all mappings among `parts`, which are sorted by address and disjoint. Group numbers are below
/// `groups`. `evidence` returns the core's evidence about a range within one mapping. It is called only if the result
/// depends on it.
pub fn divide(
    residence: &Residence,
    parts: &[GroupRange],
    groups: usize,
    evidence: &dyn Fn(AddrRange, &MappingResidence) -> CoreEvidence,
) -> Divided {
    let mut out = Divided { groups: vec![GroupFigures::default(); groups], rest: GroupFigures::default() };
    let mut next = 0;
    let mut slices = Vec::new();
    for mapping in residence.mappings.iter() {
        while parts.get(next).is_some_and(|part| part.range.end <= mapping.range.start) {
            next += 1;
        }
        slice(mapping, parts.get(next..).unwrap_or_default(), &mut slices);
        for (group, share) in shares(residence, mapping, &slices, evidence) {
            match group.and_then(|group| out.groups.get_mut(group)) {
                Some(sum) => sum.add(&share),
                None => out.rest.add(&share),
            }
        }
    }
    out
}

/// Cuts a mapping at the borders of its parts. `parts` begins with the first one that overlaps it.
fn slice(mapping: &MappingResidence, parts: &[GroupRange], out: &mut Vec<GroupRange>) {
    out.clear();
    let mut at = mapping.range.start;
    let nobody = |from, to| GroupRange { range: AddrRange::new(from, to), group: None, unbacked: false };
    for part in parts {
        let Some(inside) = part.range.intersect(&mapping.range) else { break };
        if inside.start > at {
            out.push(nobody(at, inside.start));
        }
        out.push(GroupRange { range: inside, ..*part });
        at = inside.end;
    }
    if at < mapping.range.end {
        out.push(nobody(at, mapping.range.end));
    }
}

/// The part of a mapping that belongs to one group.
#[derive(Default)]
struct MappingShare {
    group: Option<usize>,
    len: u64,
    /// Bytes of `len` that can have pages.
    room: u64,
    /// Resident bytes, those private to this process, and swapped bytes, if single pages are known.
    resident: u64,
    private: u64,
    swapped: u64,
    evidence: CoreEvidence,
}

fn shares(
    residence: &Residence,
    mapping: &MappingResidence,
    slices: &[GroupRange],
    evidence: &dyn Fn(AddrRange, &MappingResidence) -> CoreEvidence,
) -> Vec<(Option<usize>, GroupFigures)> {
    let alone = slices.first().filter(|first| slices.iter().all(|slice| slice.group == first.group));
    if let Some(first) = alone {
        let whole = GroupFigures { covered: mapping.range.len(), figures: mapping.figures, ..GroupFigures::default() };
        return vec![(first.group, whole)];
    }
    let (rss, swap) = (mapping.figures.get(Figure::Rss), mapping.figures.get(Figure::Swap));
    let len = mapping.range.len();
    let open = (1..len).contains(&rss) || (1..len).contains(&swap);
    let pages = residence.pages.as_ref().filter(|_| open && !mapping.flags.hugetlb);
    let pages = pages.and_then(|pages| pages.pages(mapping.range));
    let mut claims: Vec<MappingShare> = Vec::new();
    let mut order: Vec<&GroupRange> = slices.iter().collect();
    order.sort_by_key(|slice| slice.group);
    for slice in order {
        if claims.last().is_none_or(|last| last.group != slice.group) {
            claims.push(MappingShare { group: slice.group, ..MappingShare::default() });
        }
        let Some(claim) = claims.last_mut() else { continue };
        let bytes = slice.range.len();
        claim.len.add_saturating(bytes);
        claim.room.add_saturating(if slice.unbacked { 0 } else { bytes });
        match &pages {
            Some(pages) => {
                claim.resident.add_saturating(within(&pages.resident, slice.range));
                claim.private.add_saturating(pages.private.as_ref().map_or(0, |private| within(private, slice.range)));
                claim.swapped.add_saturating(within(&pages.swapped, slice.range));
            }
            None if open && !slice.unbacked => {
                let evidence = evidence(slice.range, mapping);
                claim.evidence.certain.add_saturating(evidence.certain.min(bytes));
                claim.evidence.likely.add_saturating(evidence.likely.max(evidence.certain).min(bytes));
            }
            None => {}
        }
    }
    let (resident, least) = resident(&claims, rss, swap, pages.as_ref());
    let (swapped, swap_known) = swapped(&claims, swap, &resident, pages.as_ref());
    let private = pages.as_ref().and_then(|pages| private(mapping, &claims, &resident, pages));
    let figures = figures(mapping, &claims, &resident, &swapped, private.as_deref());
    let shares = claims.iter().zip(figures).enumerate().map(|(i, (claim, figures))| {
        let of = |list: &[u64]| list.get(i).copied().unwrap_or(0);
        let rss_estimated = of(&resident).saturating_sub(of(&least));
        let swap_estimated = if swap_known { 0 } else { of(&swapped) };
        let mixed = mixed(mapping, &figures, private.is_some());
        let others_estimated = mixed.max(rss_estimated).saturating_add(swap_estimated);
        (claim.group, GroupFigures { covered: claim.len, figures, rss_estimated, others_estimated })
    });
    shares.collect()
}

/// Resident bytes of each claim that no other process maps. `None` if single pages don't show this, or disagree with
/// the mapping's figures.
fn private(
    mapping: &MappingResidence,
    claims: &[MappingShare],
    resident: &[u64],
    pages: &PageRuns,
) -> Option<Vec<u64>> {
    pages.private.as_ref()?;
    let list: Vec<u64> = claims.iter().map(|claim| claim.private).collect();
    let total = mapping.figures.get(Figure::PrivateClean).saturating_add(mapping.figures.get(Figure::PrivateDirty));
    let fits = list.iter().zip(resident).all(|(private, resident)| private <= resident);
    (sum(&list) == total && fits).then_some(list)
}

/// Bytes of `range` in sorted, disjoint runs.
fn within(runs: &[AddrRange], range: AddrRange) -> u64 {
    let from = runs.partition_point(|run| run.end <= range.start);
    let inside = runs.get(from..).unwrap_or_default().iter().map_while(|run| run.range().intersect(&range));
    inside.map(|part| part.len()).saturating_sum()
}

/// Resident bytes of each claim, and how many of them are certain.
fn resident(claims: &[MappingShare], rss: u64, swap: u64, pages: Option<&PageRuns>) -> (Vec<u64>, Vec<u64>) {
    let list = |of: &dyn Fn(&MappingShare) -> u64| claims.iter().map(of).collect::<Vec<u64>>();
    let lens = list(&|c| c.len);
    let all: u64 = lens.iter().copied().saturating_sum();
    if rss == 0 || rss == all {
        let full = if rss == 0 { vec![0; claims.len()] } else { lens };
        return (full.clone(), full);
    }
    if pages.is_some() {
        let known = list(&|c| c.resident);
        let sum: u64 = known.iter().copied().saturating_sum();
        // Zero pages, or the process ran between the two readings.
        let less = sum.saturating_sub(rss);
        let least = known.iter().map(|known| known.saturating_sub(less)).collect();
        return (fill(rss, &[known, list(&|c| c.len - c.resident.min(c.len))], &lens), least);
    }
    let certain = list(&|c| c.evidence.certain);
    let likely = list(&|c| c.evidence.likely);
    let rooms = list(&|c| c.room);
    let room = sum(&rooms);
    // If the core has more than was in RAM and swap, the two are from different moments, and nothing is certain.
    let of_one_moment = sum(&certain) <= rss.saturating_add(swap);
    let least = claims.iter().map(|claim| {
        let there = if of_one_moment { claim.evidence.certain.saturating_sub(swap) } else { 0 };
        let elsewhere = if rss <= room { room - claim.room } else { all - claim.len };
        there.max(rss.saturating_sub(elsewhere))
    });
    let least: Vec<u64> = least.collect();
    // Each level gets what the levels before it leave.
    let mut levels = vec![least.clone()];
    let mut full = least.clone();
    for level in [&certain, &likely, &rooms, &lens] {
        levels.push(minus(level, &full));
        full.iter_mut().zip(level).for_each(|(full, level)| *full = (*full).max(*level));
    }
    let amounts = fill(rss, &levels, &lens);
    let least = least.iter().zip(&amounts).map(|(least, amount)| *least.min(amount)).collect();
    (amounts, least)
}

/// Differences `a` − `b` of the elements, at least 0.
fn minus(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a.saturating_sub(*b)).collect()
}

/// Swapped bytes of each claim, and whether they are exact.
fn swapped(claims: &[MappingShare], swap: u64, resident: &[u64], pages: Option<&PageRuns>) -> (Vec<u64>, bool) {
    let lens: Vec<u64> = claims.iter().map(|c| c.len).collect();
    if swap == 0 || swap == sum(&lens) {
        return (if swap == 0 { vec![0; claims.len()] } else { lens }, true);
    }
    let rooms = |of: &dyn Fn(&MappingShare) -> u64| {
        claims.iter().zip(resident).map(|(c, resident)| of(c).saturating_sub(*resident)).collect::<Vec<u64>>()
    };
    if pages.is_some() {
        let known: Vec<u64> = claims.iter().map(|c| c.swapped).collect();
        let exact = known.iter().copied().saturating_sum() == swap;
        return (fill(swap, &[known, rooms(&|c| c.room)], &lens), exact);
    }
    (fill(swap, &[rooms(&|c| c.evidence.certain), rooms(&|c| c.room)], &lens), false)
}

/// Resident bytes of a claim whose other figures were divided in proportion. Such figures are neither 0 nor the whole
/// RSS. `by_page`: whether private pages are known.
fn mixed(mapping: &MappingResidence, share: &Figures, by_page: bool) -> u64 {
    let figures = &mapping.figures;
    let rss = figures.get(Figure::Rss);
    let part = |bytes: u64, of: u64| bytes != 0 && bytes != of;
    if part(figures.huge(), rss) {
        return share.get(Figure::Rss);
    }
    let private =
        |figures: &Figures| figures.get(Figure::PrivateDirty).saturating_add(figures.get(Figure::PrivateClean));
    if by_page {
        // It is not known how many other processes share a page.
        let dirty = part(figures.get(Figure::PrivateDirty), private(figures));
        return share.shared().saturating_add(if dirty { private(share) } else { 0 });
    }
    let all = [figures.get(Figure::Pss), figures.get(Figure::PrivateDirty), figures.shared()];
    if all.into_iter().any(|figure| part(figure, rss)) { share.get(Figure::Rss) } else { 0 }
}

/// All figures of each claim, computed from its resident, swapped and (if known) private bytes.
fn figures(
    mapping: &MappingResidence,
    claims: &[MappingShare],
    resident: &[u64],
    swapped: &[u64],
    private: Option<&[u64]>,
) -> Vec<Figures> {
    let lens: Vec<u64> = claims.iter().map(|c| c.len).collect();
    let mut out = vec![Figures::default(); claims.len()];
    let mut put = |figure: Figure, parts: &[u64]| {
        out.iter_mut().zip(parts).for_each(|(figures, part)| figures.set(figure, *part));
    };
    put(Figure::Rss, resident);
    put(Figure::Swap, swapped);
    let total = |figure: Figure| mapping.figures.get(figure);
    let by = |figure: Figure, weights: &[u64]| fill(total(figure), &[], if sum(weights) > 0 { weights } else { &lens });
    // Each page is shared or private, and clean or dirty. What one of the four takes, the next can't have.
    let mut room = match private {
        Some(private) => minus(resident, private),
        None => resident.to_vec(),
    };
    let mut shared = vec![0; claims.len()];
    for figure in [Figure::SharedClean, Figure::SharedDirty] {
        let parts = by(figure, &room);
        room = minus(&room, &parts);
        shared.iter_mut().zip(&parts).for_each(|(sum, more)| sum.add_saturating(*more));
        put(figure, &parts);
    }
    let private = minus(resident, &shared);
    let dirty = by(Figure::PrivateDirty, &private);
    put(Figure::PrivateClean, &by(Figure::PrivateClean, &minus(&private, &dirty)));
    put(Figure::PrivateDirty, &dirty);
    // A private page counts whole, a shared one in part.
    put(Figure::Pss, &fill(total(Figure::Pss), &[private], if sum(&shared) > 0 { &shared } else { &lens }));
    for figure in [Figure::Anonymous, Figure::LazyFree, Figure::AnonHuge, Figure::ShmemHuge, Figure::FileHuge] {
        put(figure, &by(figure, resident));
    }
    for figure in [Figure::SharedHugetlb, Figure::PrivateHugetlb] {
        put(figure, &by(figure, &lens));
    }
    put(Figure::SwapPss, &by(Figure::SwapPss, swapped));
    out
}

fn sum(weights: &[u64]) -> u64 {
    weights.iter().copied().fold(0, u64::saturating_add)
}

/// Distributes `total` over the levels in order: each level is filled before the next. A level that can't be filled is
/// divided in proportion, and so is the remainder after the last level, by `last`. The sum of the result is `total`, if
/// any element of `last` is greater than 0.
fn fill(total: u64, levels: &[Vec<u64>], last: &[u64]) -> Vec<u64> {
    let mut out = vec![0u64; last.len()];
    let mut left = total;
    for level in levels {
        let room = sum(level);
        if left <= room {
            apportion(left, level, &mut out);
            return out;
        }
        out.iter_mut().zip(level).for_each(|(sum, more)| sum.add_saturating(*more));
        left -= room;
    }
    apportion(left, last, &mut out);
    out
}

/// Adds shares of `total` to `out` in proportion to `weights`. No share exceeds its weight if `total` does not exceed
/// their sum.
fn apportion(total: u64, weights: &[u64], out: &mut [u64]) {
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if all == 0 {
        return;
    }
    let (mut below, mut given) = (0u128, 0u64);
    for (sum, weight) in out.iter_mut().zip(weights) {
        below += u128::from(*weight);
        let until = (u128::from(total) * below / all) as u64;
        *sum = sum.saturating_add(until - given);
        given = until;
    }
}

#[cfg(test)]
#[path = "divide_tests.rs"]
mod tests;
