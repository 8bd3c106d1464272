//! Zero pages by region and by stack, from one scan.

use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::memory::scan::{self, ZeroStat};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::range_map::{RangeMap, Ranged};
use crate::session::Session;

/// A scanned range. It does not cross the border of a region, of a stack, or of a mapping with residence figures.
struct ScannedRange {
    range: AddrRange,
    region: usize,
    stat: ZeroStat,
}

impl Ranged for ScannedRange {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Result of a scan for zero pages.
pub struct ZeroMap {
    parts: RangeMap<ScannedRange>,
}

impl ZeroMap {
    /// Scans all regions, or only those of one kind.
    pub fn scan(session: &Session<'_>, only: Option<Kind>, progress: &Progress) -> ZeroMap {
        let mut cuts: Vec<Addr> = session.stacks().list.iter().flat_map(|s| [s.stack.start, s.stack.end]).collect();
        // Residence figures are per mapping, and a region may extend over several mappings.
        let mappings = session.process.residence().into_iter().flat_map(|residence| residence.mappings.iter());
        cuts.extend(mappings.flat_map(|mapping| [mapping.range.start, mapping.range.end]));
        cuts.sort_unstable();
        let mut parts = Vec::new();
        for (region, r) in session.map().regions.iter().enumerate() {
            if only.is_some_and(|kind| kind != r.kind) {
                continue;
            }
            let mut at = r.range.start;
            let inside = cuts.partition_point(|c| *c <= at)..cuts.partition_point(|c| *c < r.range.end);
            for &cut in cuts[inside].iter().chain([&r.range.end]) {
                if cut > at {
                    parts.push(ScannedRange { range: AddrRange::new(at, cut), region, stat: ZeroStat::default() });
                    at = cut;
                }
            }
        }
        let _phase = session.process.enter(Phase::ZeroPages);
        let ranges: Vec<AddrRange> = parts.iter().map(|p| p.range).collect();
        for (part, stat) in parts.iter_mut().zip(scan::zero_pages(session.process.target(), &ranges, progress)) {
            part.stat = stat;
        }
        // The regions are sorted and disjoint, so these ranges are too.
        ZeroMap { parts: RangeMap::from_sorted(parts).unwrap_or_default() }
    }

    /// Zero pages of each region, by region index.
    pub fn by_region(&self, regions: usize) -> Vec<ZeroStat> {
        let mut out = vec![ZeroStat::default(); regions];
        for p in self.parts.iter() {
            out[p.region].merge(p.stat);
        }
        out
    }

    /// Returns the zero pages in `range`. No scanned range may cross the ends of `range`.
    pub fn within(&self, range: AddrRange) -> ZeroStat {
        let mut out = ZeroStat::default();
        for p in self.parts.overlapping(range).filter(|p| range.covers(&p.range)) {
            out.merge(p.stat);
        }
        out
    }
}
