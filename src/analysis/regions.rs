use std::cmp::Reverse;

use crate::map::{Kind, Region};
use crate::report::{RegionRow, RegionsReport, Shown};
use crate::session::Session;

/// What of the map to list.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Only these kinds; all where empty.
    pub kinds: Vec<Kind>,
    /// Biggest first instead of by address.
    pub by_size: bool,
}

/// List the map.
pub fn regions(session: &Session<'_>, options: &RegionOptions) -> RegionsReport {
    let mut names = Shown::default();
    let mut rows: Vec<RegionRow> = session
        .map()
        .regions
        .iter()
        .filter(|r| options.kinds.is_empty() || options.kinds.contains(&r.kind))
        .map(|r| row(r, &mut names))
        .collect();
    if options.by_size {
        rows.sort_by_key(|r| (Reverse(r.size), r.start));
    }
    RegionsReport { regions: rows }
}

/// One region as a row.
pub(super) fn row(r: &Region, names: &mut Shown) -> RegionRow {
    RegionRow {
        start: r.range.start,
        end: r.range.end,
        size: r.range.len(),
        kind: r.kind,
        detail: names.of(&r.detail),
        perms: r.perms_text(),
        file: r.file.as_ref().map(|path| names.of(path)),
        in_core: r.in_core,
        confidence: r.confidence,
    }
}
