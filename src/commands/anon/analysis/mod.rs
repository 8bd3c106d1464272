//! Anonymous memory that nothing claims: which blocks it is made of, what
//! fills them, and who points at them.
//!
//! The kernel joins mappings that lie side by side, so that a hundred blocks of
//! one size may be one region. They are told apart where pointers lead: who
//! made a block keeps its start.

mod content;
mod finding;
mod owners;
mod sample;

pub(in crate::commands) use finding::finding;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, union};
use crate::commands::anon::analysis::content::Content;
use crate::commands::anon::report::{AnonReport, BlockClusterRow};
use crate::commands::refs;
use crate::commands::refs::RefRow;
use crate::limits;
use crate::map::{Confidence, Kind, Region};
use crate::memory::pointers::pointers;
use crate::memory::scan::PAGE;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{BlockBorders, BlockContent};
use crate::session::Session;

/// Clusters that are listed.
const LISTED: usize = 50;

/// Clusters of which is told who points at them.
const EXPLAINED: usize = 20;

/// Blocks of one size and content.
struct Cluster {
    /// Size of each.
    size: u64,
    /// What they hold.
    content: Content,
    /// All of them, by address.
    blocks: Vec<AddrRange>,
    /// Whether any was cut out of a region.
    cut: bool,
}

impl Cluster {
    /// Bytes of all blocks.
    fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.blocks.len() as u64)
    }
}

/// A word that leads to the start of a page of anonymous memory.
#[derive(Clone, Copy)]
struct Pointer {
    at: Addr,
    value: Addr,
}

/// Anonymous memory, cut where words lead.
pub(in crate::commands) struct Survey {
    /// By address; with each, whether it is a whole region.
    pub blocks: Vec<(AddrRange, bool)>,
    pointers: Vec<Pointer>,
    scanned: u64,
}

/// Whether a region is memory that nothing claims and somebody may write.
pub(in crate::commands) fn is_anonymous(region: &Region) -> bool {
    matches!(region.kind, Kind::AnonRW | Kind::AnonRWX)
}

/// Tell of anonymous memory.
pub fn anon(session: &Session<'_>, progress: &Progress) -> AnonReport {
    let anonymous: Vec<&Region> = session.map().regions.iter().filter(|r| is_anonymous(r)).collect();
    let everywhere = session.map().regions.iter().filter(|r| r.kind != Kind::DoubleMapped);
    let survey = survey(session, union(everywhere.map(|r| r.range).collect()), progress);
    let all = clusters(session, &survey.blocks);
    let mut rows: Vec<RefRow> =
        survey.pointers.iter().map(|p| refs::row(session, AddrRange::sized(p.value, 1), p.at, p.value)).collect();
    refs::objects(session, &mut rows);
    let mut clusters: Vec<BlockClusterRow> = all.iter().take(LISTED).map(|c| row(session.process, c)).collect();
    for (row, cluster) in clusters.iter_mut().zip(&all).take(EXPLAINED) {
        row.owners = owners::of(cluster, &rows);
    }
    owners::tell_roots(session, &mut clusters);
    for row in &mut clusters {
        row.owner = owners::guess(row);
        row.confidence = row.owner.is_some().then_some(Confidence::Heuristic);
    }
    AnonReport {
        more: all.len().saturating_sub(clusters.len()) as u64,
        clusters,
        regions: anonymous.len() as u64,
        size: anonymous.iter().map(|r| r.range.len()).fold(0, u64::saturating_add),
        in_core: anonymous.iter().map(|r| r.in_core).fold(0, u64::saturating_add),
        scanned: survey.scanned,
    }
}

fn row(process: &Process, cluster: &Cluster) -> BlockClusterRow {
    let Cluster { size, content, blocks, cut } = cluster;
    let shares = content.known && content.fill.is_none();
    BlockClusterRow {
        size: *size,
        count: blocks.len() as u64,
        bytes: cluster.bytes(),
        in_core: blocks.iter().map(|b| process.space().dumped_in(*b)).sum(),
        content: content.look(),
        fill: content.fill.map(|b| format!("{b:#04x}")),
        text_percent: shares.then_some(content.text),
        pointer_percent: shares.then_some(content.pointers),
        example: blocks.first().map(|b| b.start).unwrap_or_default(),
        borders: if *cut { BlockBorders::Pointers } else { BlockBorders::Regions },
        ..BlockClusterRow::default()
    }
}

/// Cut anonymous regions into blocks, by pointers that stand in `within`.
pub(in crate::commands) fn survey(session: &Session<'_>, within: Vec<AddrRange>, progress: &Progress) -> Survey {
    let regions: Vec<AddrRange> = session.map().regions.iter().filter(|r| is_anonymous(r)).map(|r| r.range).collect();
    let (Some(first), Some(last)) = (regions.first(), regions.last()) else {
        return Survey { blocks: Vec::new(), pointers: Vec::new(), scanned: 0 };
    };
    let _phase = session.process.enter(Phase::Anonymous);
    let hull = AddrRange::new(first.start, last.end);
    let mut kept: Vec<Pointer> = Vec::new();
    let keep = |share: &mut Vec<Pointer>, at: Addr, value: Addr| {
        // Before the search: of all words few are.
        if !value.is_aligned(PAGE) {
            return;
        }
        let i = regions.partition_point(|r| r.end <= value);
        if regions.get(i).is_some_and(|r| r.contains(value) && !r.contains(at)) {
            share.push(Pointer { at, value });
        }
    };
    let scanned = pointers(session.process.target(), &within, hull, progress, keep, |share: Vec<Pointer>| {
        let room = limits::MAX_REFS.saturating_sub(kept.len());
        kept.extend(share.into_iter().take(room));
    });
    let left_over = |p: &&Pointer| session.map().region_at(p.at).is_some_and(|r| session.is_left_over(r, p.at));
    let mut cuts: Vec<Addr> = kept.iter().filter(|p| !left_over(p)).map(|p| p.value).collect();
    cuts.sort_unstable();
    cuts.dedup();
    Survey { blocks: cut(&regions, &cuts), pointers: kept, scanned }
}

/// Equal ones of `blocks` put together, by all that the core holds of them; those of most bytes
/// first.
fn clusters(session: &Session<'_>, blocks: &[(AddrRange, bool)]) -> Vec<Cluster> {
    let _phase = session.process.enter(Phase::Anonymous);
    let described: Vec<(AddrRange, bool, Content)> = blocks
        .par_iter()
        .map(|&(block, whole)| (block, whole, Content::of(session.process.target(), &session.map().base, block)))
        .collect();
    let mut by_look: BTreeMap<(u64, BlockContent, Option<u8>), Cluster> = BTreeMap::new();
    for (block, whole, content) in described {
        let key = (block.len(), content.look(), content.fill);
        let cluster = by_look.entry(key).or_insert_with(|| Cluster {
            size: block.len(),
            content,
            blocks: Vec::new(),
            cut: false,
        });
        cluster.blocks.push(block);
        cluster.cut |= !whole;
    }
    let mut clusters: Vec<Cluster> = by_look.into_values().collect();
    clusters.sort_by_key(|c| (Reverse(c.bytes()), c.blocks.first().map(|b| b.start)));
    clusters
}

/// The parts of `regions` between `cuts`; with each, whether it is a whole region.
fn cut(regions: &[AddrRange], cuts: &[Addr]) -> Vec<(AddrRange, bool)> {
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
}
