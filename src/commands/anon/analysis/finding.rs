//! The finding about equal blocks in anonymous memory. It reads only part of the core.

use crate::addr::{AddrRange, PAGE, union};
use crate::analysis::contents::Destinations;
use crate::analysis::resident::written;
use crate::commands::anon::analysis::sample::{Pattern, SAMPLES, largest};
use crate::commands::anon::analysis::{is_anonymous, survey};
use crate::limits;
use crate::map::{Confidence, Kind, Region};
use crate::memory::content::{Content, Makeup};
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::session::Session;
use crate::units::{exact, round};

/// Minimum size of anonymous memory in the core, in bytes.
const MIN_BYTES: u64 = 64 << 20;

/// Minimum number of equal blocks.
const MIN_BLOCKS: u64 = 8;

/// Minimum size of a single block to be reported, in bytes.
const MIN_SINGLE: u64 = 1 << 30;

/// Share of the sampled pages, in percent, below which the text says how many were written.
const MOSTLY_WRITTEN: u64 = 90;

/// Kinds of memory in which owners store pointers, smallest kinds first.
const OWNER_KINDS: [Kind; 5] = [Kind::HandleTable, Kind::Stack, Kind::Image, Kind::Malloc, Kind::GCHeap];

/// Equal blocks of anonymous memory, and the finding about them.
pub(in crate::commands) struct EqualBlocks {
    pub(in crate::commands) finding: Finding,
    /// Ranges of the blocks, by address. If only a sample was read, the estimated number of blocks.
    pub(in crate::commands) blocks: Vec<AddrRange>,
    /// Size of all blocks in bytes, written or not.
    pub(in crate::commands) size: u64,
    pattern: Pattern,
    /// Words for the memory.
    noun: &'static str,
}

/// Words for memory without a known owner. Without a list of files, it may be a file's.
pub(in crate::commands) fn noun(session: &Session<'_>) -> &'static str {
    if session.process.facts().lists_files() { "anonymous memory" } else { "anonymous or file-backed memory" }
}

impl EqualBlocks {
    /// Describes the blocks by all their pages, in place of a sample. `written` are the bytes of all pages that take up
    /// memory.
    pub(in crate::commands) fn with_all_pages(
        self,
        makeup: Makeup,
        written: u64,
        destinations: &Destinations,
    ) -> Finding {
        let pattern = Pattern { makeup, ..self.pattern };
        let text = text(&pattern, self.noun, Some(written), true, destinations);
        Finding { text, severity: severity(written), bytes: Some(written), ..self.finding }
    }
}

/// Reports the equal blocks that have most bytes, if there is much anonymous memory.
pub(in crate::commands) fn finding(session: &Session<'_>) -> Option<EqualBlocks> {
    let anonymous = session.map().regions.iter().filter(|r| is_anonymous(r));
    if anonymous.map(|r| r.in_core).fold(0, u64::saturating_add) < MIN_BYTES {
        return None;
    }
    let (within, all) = owner_ranges(session);
    let survey = survey(session, within, &Progress::silent());
    let destinations = Destinations::of(session.map());
    let pattern = largest(session, &destinations, &survey.blocks, MIN_BYTES)?;
    if pattern.blocks < MIN_BLOCKS && pattern.size < MIN_SINGLE {
        return None;
    }
    let where_from = match pattern.cut {
        true => "block boundaries from the pointers to them",
        false => "each has a separate mapping",
    };
    let how_far =
        if all { "" } else { " (only part of memory was searched for pointers; `coremap anon` searches all)" };
    let each = if pattern.looked < pattern.of {
        format!("{} of {} blocks of this size", exact(pattern.looked as u64), exact(pattern.of as u64))
    } else {
        "each block".to_owned()
    };
    // Without figures of the kernel, the sampled pages show how much was written. Holes of the core's file were not.
    let resident = session.process.residence().and_then(|_| {
        let ranges: Vec<(AddrRange, usize)> = pattern.ranges.iter().map(|range| (*range, 0)).collect();
        written(session, &ranges, 1).first().copied().flatten()
    });
    let (seen, used) = (u128::from(pattern.makeup.seen().max(1)), u128::from(pattern.makeup.written()));
    let data = pattern.ranges.iter().map(|range| stored(session, *range)).fold(0, u64::saturating_add);
    let estimate = ((u128::from(pattern.bytes()) * used / seen) as u64).min(data);
    let noun = noun(session);
    let finding = Finding {
        id: "anonymous-blocks",
        severity: severity(resident.unwrap_or(estimate)),
        text: text(&pattern, noun, resident, false, &destinations),
        evidence: format!(
            "first block at {}; {where_from}{how_far}; content from samples of up to {} pages of {each}",
            pattern.first, pattern.pages
        ),
        bytes: Some(resident.unwrap_or(estimate)),
        confidence: Some(Confidence::Heuristic),
        command: Some("anon".into()),
        ..Finding::default()
    };
    Some(EqualBlocks { finding, blocks: pattern.ranges.clone(), size: pattern.bytes(), pattern, noun })
}

/// Returns the bytes of a range that the core's file stores, without its holes.
fn stored(session: &Session<'_>, range: AddrRange) -> u64 {
    let extents = session.process.target().extents();
    let places = session.process.space().places(range);
    places.flat_map(|place| extents.within(place)).map(|data| data.end - data.start).fold(0, u64::saturating_add)
}

/// Blocks that were hardly written are address space, and no problem.
fn severity(written: u64) -> Severity {
    if written >= MIN_BYTES { Severity::Warning } else { Severity::Info }
}

/// The finding's sentence. `written` is `None` if only sampled pages show it. `read_all`: whether every page was read.
fn text(pattern: &Pattern, noun: &str, written: Option<u64>, read_all: bool, destinations: &Destinations) -> String {
    format!(
        "{}{}: {noun} with no known owner. `coremap anon` shows what points at it.",
        blocks(pattern, written, read_all, destinations),
        if pattern.cut { ", delimited by the pointers to them" } else { "" }
    )
}

fn blocks(pattern: &Pattern, written: Option<u64>, read_all: bool, destinations: &Destinations) -> String {
    // Pages that were not read may contain anything.
    let sampled = !read_all && ((pattern.pages as u64) < pattern.size.div_ceil(PAGE) || pattern.looked < pattern.of);
    let few = pattern.pages < SAMPLES || pattern.looked < pattern.of;
    let each = if pattern.looked < pattern.of {
        format!("{} of them", exact(pattern.looked as u64))
    } else {
        "each".to_owned()
    };
    let makeup = &pattern.makeup;
    let share = makeup.written().saturating_mul(100).checked_div(makeup.seen()).unwrap_or(100);
    let all = |content| makeup.written() == makeup.seen() && makeup.percent(content) == 100;
    let byte = match makeup.content() {
        Some(Content::Zero) => Some(0),
        Some(content @ Content::Byte(byte)) if all(content) => Some(byte),
        _ => None,
    };
    let content = match (byte, makeup.content()) {
        (Some(byte), _) if sampled => format!(", byte {byte:#04x} in the {} sampled pages of {each}", pattern.pages),
        (Some(0), _) => ", all zero".to_owned(),
        (Some(byte), _) => format!(", filled with byte {byte:#04x}"),
        (_, Some(content)) if !sampled && content != Content::Mixed => {
            format!(", mostly {}", destinations.describe(content))
        }
        (_, Some(content)) if !few && content != Content::Mixed => {
            let which = if share < MOSTLY_WRITTEN { "written ones of the " } else { "" };
            let (content, pages) = (destinations.describe(content), pattern.pages);
            format!(", mostly {content} in the {which}{pages} sampled pages of {each}")
        }
        _ => String::new(),
    };
    let written = match written {
        Some(written) if written < pattern.bytes() => format!(", {} written", round(written)),
        None if byte != Some(0) && share < MOSTLY_WRITTEN => format!(", {share} % of the sampled pages written"),
        _ => String::new(),
    };
    let (about, size) = (if pattern.about { "About " } else { "" }, round(pattern.size));
    match pattern.blocks {
        1 => format!("One block of {size}{written}{content}"),
        n => {
            format!("{about}{} equal blocks of {size} ({} in all{written}){content}", exact(n), round(pattern.bytes()))
        }
    }
}

/// Returns the ranges in which owners store pointers, up to `MAX_FINDING_SCAN` bytes, and whether these are all.
fn owner_ranges(session: &Session<'_>) -> (Vec<AddrRange>, bool) {
    let mut left = limits::MAX_FINDING_SCAN;
    let mut all = true;
    let mut out = Vec::new();
    for kind in OWNER_KINDS {
        let of_kind = |r: &&Region| r.kind == kind && r.perms.is_none_or(|p| p.write);
        for region in session.map().regions.iter().filter(of_kind) {
            // Old contents below the stack pointer own nothing.
            let live =
                session.sp_in(region).map_or(region.range.start, |sp| sp.align_down(PAGE).max(region.range.start));
            let range = AddrRange::new(live, region.range.end);
            match left.checked_sub(session.process.space().dumped_in(range)) {
                Some(rest) => left = rest,
                None => {
                    all = false;
                    continue;
                }
            }
            out.push(range);
        }
    }
    (union(out), all)
}
