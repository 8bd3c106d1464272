//! Anonymous memory without a known owner: its blocks, their contents, and what
//! points at them.
//!
//! The kernel merges adjacent mappings, so a hundred blocks of one size may be
//! one region. Blocks are separated where pointers lead, because the code that
//! made a block stores its start address. They are also separated where the
//! content changes, and at every multiple of one size if a pool maps blocks of
//! that size.

mod blocks;
mod finding;
mod owners;
mod sample;
mod unit;

pub(in crate::commands) use finding::{finding, noun};

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::analysis::contents::Destinations;
use crate::commands::anon::analysis::blocks::{Cluster, clusters, cut, cut_by_content};
use crate::commands::anon::analysis::unit::by_unit;
use crate::commands::anon::report::{AnonReport, BlockClusterRow, ContentRow};
use crate::commands::refs;
use crate::commands::refs::RefRow;
use crate::limits;
use crate::map::{Confidence, Kind, Region};
use crate::memory::content::{Content, Makeup, filled};
use crate::memory::pointers::pointers;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::BlockContent;
use crate::session::Session;
use crate::sums::SaturatingSum;

/// Maximum number of clusters listed.
const MAX_LISTED: usize = 50;

/// Maximum number of clusters listed with their owners.
const MAX_EXPLAINED: usize = 20;

/// Maximum number of contents listed.
const MAX_CONTENTS: usize = 50;

/// A word that points to the start of a page of anonymous memory.
#[derive(Clone, Copy)]
struct Pointer {
    at: Addr,
    value: Addr,
}

/// Anonymous memory, cut at the addresses that pointers refer to.
#[derive(Default)]
pub(in crate::commands) struct Survey {
    /// Blocks by address. The flag is true for a whole region.
    pub blocks: Vec<(AddrRange, bool)>,
    pointers: Vec<Pointer>,
    /// Addresses at which the regions are cut, and targets of words in the same region. Both are sorted.
    cuts: Vec<Addr>,
    inside: Vec<Addr>,
    scanned: u64,
}

/// Whether a region is writable memory without a known owner.
pub(in crate::commands) fn is_anonymous(region: &Region) -> bool {
    region.kind == Kind::AnonRW || region.kind == Kind::AnonRWX
}

/// Reports anonymous memory: equal blocks, their contents and their likely
/// owners.
pub fn anon(session: &Session<'_>, progress: &Progress) -> AnonReport {
    let anonymous: Vec<&Region> = session.map().regions.iter().filter(|r| is_anonymous(r)).collect();
    let everywhere = session.map().regions.iter().filter(|r| r.kind != Kind::DoubleMapped);
    let survey = survey(session, union(everywhere.map(|r| r.range).collect()), progress);
    let destinations = Destinations::of(session.map());
    let ranges: Vec<AddrRange> = anonymous.iter().map(|r| r.range).collect();
    let runs = filled(session.process.target(), &ranges, &destinations, progress);
    let blocks = by_unit(&ranges, &survey.cuts, &survey.inside, &runs).unwrap_or(survey.blocks);
    let all = clusters(&cut_by_content(&blocks, &runs));
    let mut rows: Vec<RefRow> =
        survey.pointers.iter().map(|p| refs::row(session, AddrRange::sized(p.value, 1), p.at, p.value)).collect();
    refs::objects(session, &mut rows);
    let mut clusters: Vec<BlockClusterRow> =
        all.iter().take(MAX_LISTED).map(|c| row(session.process, &destinations, c)).collect();
    for (row, cluster) in clusters.iter_mut().zip(&all).take(MAX_EXPLAINED) {
        row.owners = owners::of(cluster, &rows);
    }
    owners::add_roots(session, &mut clusters);
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
        contents: contents(&destinations, &Makeup::of(runs)),
        scanned: survey.scanned,
    }
}

fn row(process: &Process, destinations: &Destinations, cluster: &Cluster) -> BlockClusterRow {
    let Cluster { size, content, makeup, blocks, borders } = cluster;
    let shares = content.is_some_and(|content| !content.is_fill());
    let percent = |is: fn(Content) -> bool| {
        shares.then(|| makeup.sum(is).saturating_mul(100).checked_div(makeup.written()).unwrap_or(0))
    };
    BlockClusterRow {
        size: *size,
        count: blocks.len() as u64,
        bytes: cluster.bytes(),
        in_core: blocks.iter().map(|b| process.space().dumped_in(*b)).saturating_sum(),
        content: content.map_or(BlockContent::NotInCore, Content::word),
        fill: match content {
            Some(Content::Zero) => Some("0x00".into()),
            Some(Content::Byte(byte)) => Some(format!("{byte:#04x}")),
            _ => None,
        },
        text_percent: percent(|content| matches!(content, Content::Utf8 | Content::Utf16)),
        pointer_percent: percent(|content| matches!(content, Content::Pointers(_))),
        example: blocks.first().map(|b| b.start).unwrap_or_default(),
        borders: *borders,
        written: makeup.written(),
        word: match content {
            Some(Content::Word(word)) => Some(format!("{word:#x}")),
            _ => None,
        },
        filled_with: destinations.describe_makeup(makeup),
        into: content.and_then(|content| destinations.pointee(content)).map(str::to_owned),
        content_percent: content.filter(|c| *c != Content::Mixed).map(|content| makeup.percent(content)),
        ..BlockClusterRow::default()
    }
}

fn contents(destinations: &Destinations, makeup: &Makeup) -> Vec<ContentRow> {
    let row = |(content, bytes): (Content, u64)| ContentRow {
        content: content.word(),
        filled_with: destinations.describe(content),
        bytes,
    };
    makeup.by_size().into_iter().take(MAX_CONTENTS).map(row).collect()
}

/// Cuts anonymous regions into blocks at the targets of the pointers in
/// `within`.
pub(in crate::commands) fn survey(session: &Session<'_>, within: Vec<AddrRange>, progress: &Progress) -> Survey {
    let regions: Vec<AddrRange> = session.map().regions.iter().filter(|r| is_anonymous(r)).map(|r| r.range).collect();
    let (Some(first), Some(last)) = (regions.first(), regions.last()) else {
        return Survey::default();
    };
    let _phase = session.process.enter(Phase::Anonymous);
    let hull = AddrRange::new(first.start, last.end);
    let mut kept: Vec<Pointer> = Vec::new();
    let mut inside: Vec<Addr> = Vec::new();
    let keep = |share: &mut (Vec<Pointer>, Vec<Addr>), at: Addr, value: Addr| {
        // Checked before the search, because few words are aligned to a page.
        if !value.is_aligned(PAGE) {
            return;
        }
        let i = regions.partition_point(|r| r.end <= value);
        match regions.get(i).filter(|r| r.contains(value)).map(|r| r.contains(at)) {
            Some(false) => share.0.push(Pointer { at, value }),
            Some(true) if share.1.len() < limits::MAX_REFS => share.1.push(value),
            Some(true) | None => {}
        }
    };
    let scanned =
        pointers(session.process.target(), &within, hull, progress, keep, |share: (Vec<Pointer>, Vec<Addr>)| {
            let room = limits::MAX_REFS.saturating_sub(kept.len());
            kept.extend(share.0.into_iter().take(room));
            let room = limits::MAX_REFS.saturating_sub(inside.len());
            inside.extend(share.1.into_iter().take(room));
        });
    inside.sort_unstable();
    inside.dedup();
    let left_over = |p: &&Pointer| session.map().region_at(p.at).is_some_and(|r| session.is_left_over(r, p.at));
    let mut cuts: Vec<Addr> = kept.iter().filter(|p| !left_over(p)).map(|p| p.value).collect();
    cuts.sort_unstable();
    cuts.dedup();
    Survey { blocks: cut(&regions, &cuts), pointers: kept, cuts, inside, scanned }
}
