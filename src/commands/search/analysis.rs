use crate::addr::AddrRange;
use crate::analysis::in_object::each_in_object;
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::commands::search::report::{HitRow, SearchReport};
use crate::diag::WarningCode;
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::search::{self, Hit, HitEncoding, Pattern};
use crate::session::Session;

/// Options of `search`.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Only in regions of these kinds. Empty means all kinds.
    pub kinds: Vec<Kind>,
    /// Maximum number of matches listed.
    pub limit: Option<usize>,
    /// Also show the text around each match.
    pub context: bool,
}

/// Searches all dumped memory for `pattern`.
pub fn search(
    session: &Session<'_>,
    text: &str,
    pattern: &Pattern,
    options: &SearchOptions,
    progress: &Progress,
) -> SearchReport {
    session.process.target().expect_scan();
    let ranges: Option<Vec<AddrRange>> = (!options.kinds.is_empty())
        .then(|| session.map().regions.iter().filter(|r| options.kinds.contains(&r.kind)).map(|r| r.range).collect());
    let result = search::search(session.process.target(), pattern, ranges.as_deref(), options.limit, progress);
    if result.capped && options.limit.is_none_or(|l| l > limits::MAX_HITS) {
        session.process.diag.note(
            WarningCode::Limit,
            format!("{} hits; only the first {} are listed", result.total, result.hits.len()),
        );
    }
    if let Some(note) = pattern.note() {
        session.process.diag.note(WarningCode::Pattern, note);
    }
    let mut hits: Vec<HitRow> = result.hits.iter().map(|h| row(session, h, options.context)).collect();
    objects(session, &mut hits);
    SearchReport { pattern: text.to_owned(), hits, total: result.total, scanned: result.scanned }
}

/// Adds the managed objects that contain the matches. `hits` is sorted by address, and only segments with matches are
/// walked.
fn objects(session: &Session<'_>, hits: &mut [HitRow]) {
    if !hits.iter().any(|h| h.kind.is_some_and(Kind::holds_objects)) {
        return;
    }
    let _phase = session.process.enter(Phase::Objects);
    each_in_object(
        session,
        hits,
        |hit| hit.address,
        |hit, found| {
            if !found.is_free() {
                hit.object = Some(found.object.addr);
                hit.name = Some(found.name());
                hit.field = found.named_field();
            }
        },
    );
}

fn row(session: &Session<'_>, hit: &Hit, context: bool) -> HitRow {
    let region = session.map().region_at(hit.address);
    let context = context.then(|| context_of(session.process, hit));
    let chars = |text: &String| text.chars().count() as u64;
    HitRow {
        address: hit.address,
        encoding: hit.encoding,
        // Every dumped byte has a region; a match without one would be a bug of the map.
        kind: region.map(|r| r.kind),
        detail: region.map_or_else(String::new, |r| place(session, r, hit.address)),
        length: u64::from(hit.len),
        match_start: context.as_ref().map(|[before, ..]| chars(before)),
        match_length: context.as_ref().map(|[_, matched, _]| chars(matched)),
        context: context.map(|parts| parts.concat()),
        ..HitRow::default()
    }
}

/// Number of bytes shown on each side of a match.
const CONTEXT: u64 = 48;

/// Text before a match, the match, and the text after it. Bytes that are not text become dots.
fn context_of(process: &Process, hit: &Hit) -> [String; 3] {
    let wide = hit.encoding == HitEncoding::Utf16;
    let unit = if wide { 2 } else { 1 };
    let side = CONTEXT * unit;
    let before = (1..=side / unit)
        .take_while(|i| process.memory.readable(hit.address.saturating_sub(i * unit), 1) == 1)
        .count() as u64
        * unit;
    let start = hit.address.saturating_sub(before);
    let before = hit.address.since(start);
    let len = process.memory.readable(start, before + u64::from(hit.len) + side);
    let Ok(bytes) = process.memory.bytes(start, len as usize) else { return Default::default() };
    let (before, rest) = bytes.split_at(bytes.len().min(before as usize));
    let (matched, behind) = rest.split_at(rest.len().min(hit.len as usize));
    [before, matched, behind].map(|bytes| readable(bytes, wide))
}

/// Converts bytes to text, with dots for bytes that are not text.
fn readable(bytes: &[u8], wide: bool) -> String {
    let text: String = if wide {
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        char::decode_utf16(units).map(|c| c.unwrap_or('.')).collect()
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    };
    let dotted: String =
        text.chars().map(|c| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '.' } else { c }).collect();
    printable(&dotted).into_owned()
}
