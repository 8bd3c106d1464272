use std::cmp::Reverse;

use crate::analysis::region::row;
use crate::commands::regions::report::RegionsReport;
use crate::map::Kind;
use crate::report::{RegionRow, Shown};
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
