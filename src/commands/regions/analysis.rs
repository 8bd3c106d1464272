use std::cmp::Reverse;

use crate::addr::AddrRange;
use crate::analysis::contents::Destinations;
use crate::analysis::region::row;
use crate::analysis::resident::by_range;
use crate::analysis::zero::ZeroMap;
use crate::commands::regions::report::RegionsReport;
use crate::map::{Kind, Region};
use crate::memory::content::{filled, stretches, within};
use crate::progress::Progress;
use crate::report::{RegionRow, Shown};
use crate::session::Session;

/// Options of `regions`.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Only these kinds. Empty means all kinds.
    pub kinds: Vec<Kind>,
    /// Sort by size, largest first, instead of by address.
    pub by_size: bool,
    /// Read all pages without a known owner, and cut their regions where the content changes.
    pub contents: bool,
    /// Count zero pages, except in regions that `contents` cuts.
    pub zero_fill: bool,
}

/// Lists the regions of the map.
pub fn regions(session: &Session<'_>, options: &RegionOptions, progress: &Progress) -> RegionsReport {
    let mut names = Shown::default();
    let asked = |r: &&Region| options.kinds.is_empty() || options.kinds.contains(&r.kind);
    let all = &session.map().regions;
    let listed = || all.iter().filter(asked);
    let mut rows: Vec<RegionRow> = match options.contents {
        false => listed().map(|r| row(r, &mut names)).collect(),
        true => by_content(session, &listed().collect::<Vec<_>>(), &mut names, progress),
    };
    if options.zero_fill && !options.contents {
        // The scan takes one kind or all, so several kinds mean all.
        let only = options.kinds.first().copied().filter(|_| options.kinds.len() == 1);
        let zeros = ZeroMap::scan(session, only, progress).by_region(all.len());
        let zeros = all.iter().zip(zeros).filter(|(r, _)| asked(r));
        for (row, (_, stat)) in rows.iter_mut().zip(zeros) {
            (row.zero, row.written) = (Some(stat.zero), Some(stat.written));
        }
    }
    if let Some(residence) = session.process.residence() {
        let ranges: Vec<AddrRange> = rows.iter().map(|row| AddrRange::new(row.start, row.end)).collect();
        let figures = by_range(session, residence, &ranges, None);
        rows.iter_mut()
            .zip(figures)
            .for_each(|(row, figures)| (row.rss, row.rss_estimated) = (figures.rss, figures.rss_estimated));
    }
    if options.by_size {
        rows.sort_by_key(|r| (Reverse(r.size), r.start));
    }
    RegionsReport { regions: rows }
}

/// Lists the regions, with those of no known owner cut where their content changes.
fn by_content(session: &Session<'_>, listed: &[&Region], names: &mut Shown, progress: &Progress) -> Vec<RegionRow> {
    let anonymous: Vec<AddrRange> = listed.iter().filter(|r| r.kind.is_anonymous()).map(|r| r.range).collect();
    let destinations = Destinations::of(session.map());
    let runs = filled(session.process.target(), &anonymous, &destinations, progress);
    let mut rows = Vec::with_capacity(listed.len());
    for region in listed {
        let whole = row(region, names);
        if !region.kind.is_anonymous() {
            rows.push(whole);
            continue;
        }
        let parts = stretches(region.range, within(&runs, region.range)).into_iter();
        rows.extend(parts.map(|part| RegionRow {
            start: part.range.start,
            end: part.range.end,
            size: part.range.len(),
            in_core: session.process.space().dumped_in(part.range),
            content: destinations.describe_makeup(&part.makeup),
            ..whole.clone()
        }));
    }
    rows
}
