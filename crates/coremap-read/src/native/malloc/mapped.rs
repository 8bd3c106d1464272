//! Finds the chunks with their own mappings (IS_MMAPPED).

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::{Claims, Confidence, Kind};
use crate::native::malloc::find::Finder;
use crate::native::malloc::mapped_chunk::{self, MappedChunk, chunk_at};
use crate::process::Process;
use crate::range_map::RangeMap;

/// Finds the chunks in writable anonymous memory that nobody claimed.
///
/// `counted` is their number and bytes as malloc counts them. Each mapping is searched from its start. Further chunks
/// follow directly where the kernel joined their mappings. If fewer are found than malloc counts, or its count is
/// unknown, every page is probed: producers join mappings too.
pub(super) fn find(
    process: &Process,
    finder: &Finder<'_>,
    counted: Option<(u64, u64)>,
    has_arenas: bool,
    claims: &Claims,
) -> Vec<MappedChunk> {
    if !has_arenas || counted.is_some_and(|(number, _)| number == 0) {
        return Vec::new();
    }
    let taken = taken(claims);
    let mut found: Vec<MappedChunk> = Vec::new();
    let c = &finder.shape.chunk;
    for range in open_ranges(finder, &taken) {
        let mut at = range.start;
        // Most mappings are no chunk. `peek` avoids copying their pages.
        let head = at
            .checked_add(c.size)
            .and_then(|at| process.target().peek::<8>(at))
            .map(|head| LittleEndian::read_u64(&head));
        if head.is_some_and(|head| head & c.flag_bits != c.is_mmapped) {
            continue;
        }
        while let Some(c) =
            chunk_at(finder.memory, finder.shape, at, range.end).filter(|_| found.len() < limits::MAX_MAPPED_CHUNKS)
        {
            at = c.range.end;
            found.push(c);
        }
    }
    if counted.is_none_or(|(number, _)| (found.len() as u64) < number) {
        probe(process, finder, counted, &taken, &mut found);
    }
    mapped_chunk::align(process, finder.memory, finder.shape, &mut found);
    let bytes = found.iter().map(|c| c.range.len()).fold(0, u64::saturating_add);
    if counted == Some((found.len() as u64, bytes)) {
        for c in &mut found {
            c.confidence = Confidence::Exact;
        }
    }
    found
}

/// Returns the claimed ranges. A claim that only describes the mapping does not count.
fn taken(claims: &Claims) -> RangeMap<AddrRange> {
    let ranges: Vec<AddrRange> = claims
        .iter()
        .filter(|c| c.confidence > Confidence::Heuristic && c.kind.specificity() >= Kind::DoubleMapped.specificity())
        .map(|c| c.range)
        .collect();
    RangeMap::resolve(&ranges, |_, r| (*r, 0u8), |range, _| range)
}

/// Returns writable anonymous memory that is not in `taken`, by address. Each range is as long as one mapping may be.
fn open_ranges(finder: &Finder<'_>, taken: &RangeMap<AddrRange>) -> Vec<AddrRange> {
    let mut out: Vec<AddrRange> = Vec::new();
    let anonymous = finder
        .base
        .entries
        .iter()
        .filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.read && p.write && !p.exec));
    for e in anonymous {
        let mut at = e.range.start;
        let mut add = |from: Addr, to: Addr| match out.last_mut() {
            // Some producers cut one mapping into several segments.
            Some(last) if last.end == from && from == e.range.start => last.end = to,
            _ if from < to => out.push(AddrRange::new(from, to)),
            _ => {}
        };
        for t in taken.overlapping(e.range) {
            add(at, t.start.max(at));
            at = t.end.max(at);
        }
        add(at, e.range.end);
    }
    out
}

/// Minimum size in bytes of a chunk that is found in the middle of a mapping while malloc's count is unknown. glibc
/// gives smaller requests no mapping of their own, unless the program says so (DEFAULT_MMAP_THRESHOLD_MIN).
const MIN_UNCOUNTED: u64 = 128 << 10;

/// Probes the pages in the core that are still unclaimed. Stops when malloc's count is reached, or the limit of probes.
///
/// Without a count, a page may begin with such a header by chance. So chunks found then are a guess.
fn probe(
    process: &Process,
    finder: &Finder<'_>,
    counted: Option<(u64, u64)>,
    taken: &RangeMap<AddrRange>,
    found: &mut Vec<MappedChunk>,
) {
    let wanted = counted.map_or(u64::MAX, |(number, _)| number);
    let target = process.target();
    let extents = target.extents();
    let mut probes = if counted.is_some() { limits::MAX_MAPPED_PROBES } else { limits::MAX_UNCOUNTED_PROBES };
    let mut more = Vec::new();
    let known = RangeMap::from_sorted(found.iter().map(|c| c.range).collect()).unwrap_or_default();
    // The kernel joins their mappings with neighbours, mostly remains of thread stacks. The largest mappings are the
    // program's own, so they come last.
    let mut ranges = open_ranges(finder, taken);
    ranges.sort_by_key(|r| (r.len(), *r));
    for range in ranges {
        let mut past = range.start;
        for run in target.dumped_runs(range) {
            // Holes of the file are zero and contain no chunk.
            for data in extents.within(run.offset..run.offset + run.range.len()) {
                let mut at = run.range.start.saturating_add(data.start - run.offset).align_up(4096).max(past);
                let to = run.range.start.saturating_add(data.end - run.offset);
                while at < to {
                    if (found.len() + more.len()) as u64 >= wanted || probes == 0 {
                        found.append(&mut more);
                        found.sort_by_key(|c| c.range);
                        return;
                    }
                    if let Some(k) = known.at(at) {
                        at = k.end;
                        continue;
                    }
                    probes -= 1;
                    let chunk = chunk_at(finder.memory, finder.shape, at, range.end);
                    match chunk.filter(|c| counted.is_some() || c.range.len() >= MIN_UNCOUNTED) {
                        Some(c) => {
                            at = c.range.end;
                            let confidence = if counted.is_some() { c.confidence } else { Confidence::Heuristic };
                            more.push(MappedChunk { confidence, ..c });
                        }
                        None => at = at.saturating_add(4096),
                    }
                }
                past = at;
            }
        }
    }
    found.append(&mut more);
    found.sort_by_key(|c| c.range);
}
