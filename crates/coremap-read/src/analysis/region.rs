//! A region of the map as a row of a report.

use crate::map::Region;
use crate::report::{RegionRow, Shown};

pub fn row(r: &Region, names: &mut Shown) -> RegionRow {
    RegionRow {
        start: r.range.start,
        end: r.range.end,
        size: r.range.len(),
        kind: r.kind,
        detail: names.of(&r.detail),
        perms: r.perms_text(),
        file: r.file.as_ref().map(|path| names.of(path)),
        in_core: r.in_core,
        rss: None,
        rss_estimated: None,
        confidence: r.confidence,
        content: None,
        zero: None,
        written: None,
    }
}
