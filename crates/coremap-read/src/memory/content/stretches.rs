//! Divides a range where its content changes for good. A mapping has a head, a few pages that differ, and a tail that
//! was never written. So a change is a border only if the new content lasts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::memory::content::{Content, Filled};

/// Minimum percentage of the written bytes that one content needs to describe a whole range.
const MIN_SHARE: u64 = 90;

/// Minimum number of written bytes of changing content that form a stretch. Less belongs to the neighbouring stretch.
const CHANGING: u64 = 16 * PAGE;

/// Minimum number of written bytes of one content that form a stretch. Heaps have many adjacent pages of one kind by
/// chance, but not of one fill value.
fn min_stretch(content: Content) -> u64 {
    match content {
        Content::Zero => u64::MAX,
        Content::Byte(_) | Content::Word(_) | Content::Overwritten => 4 * PAGE,
        Content::Utf8 | Content::Utf16 | Content::Bitmap | Content::Float | Content::Random => 16 * PAGE,
        Content::Sparse | Content::Pointers(_) | Content::Structures | Content::Mixed => 64 * PAGE,
    }
}

/// Bytes of a range per content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Makeup {
    bytes: BTreeMap<Content, u64>,
}

impl Makeup {
    /// Sums up `runs`.
    pub fn of(runs: impl IntoIterator<Item = Filled>) -> Makeup {
        let mut out = Makeup::default();
        runs.into_iter().for_each(|run| out.add(run.content, run.range.len()));
        out
    }

    /// Adds `bytes` of `content`.
    pub fn add(&mut self, content: Content, bytes: u64) {
        let sum = self.bytes.entry(content).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Adds all of another makeup.
    pub fn merge(&mut self, other: &Makeup) {
        other.bytes.iter().for_each(|(content, bytes)| self.add(*content, *bytes));
    }

    /// Number of bytes classified.
    pub fn seen(&self) -> u64 {
        self.bytes.values().copied().fold(0, u64::saturating_add)
    }

    /// Number of classified bytes in pages that are not all zero.
    pub fn written(&self) -> u64 {
        self.seen().saturating_sub(self.bytes.get(&Content::Zero).copied().unwrap_or(0))
    }

    /// Number of bytes whose content satisfies `is`.
    pub fn sum(&self, is: impl Fn(Content) -> bool) -> u64 {
        self.bytes.iter().filter(|(content, _)| is(**content)).map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Returns each content with its bytes, largest first, without zeros.
    pub fn by_size(&self) -> Vec<(Content, u64)> {
        let written = self.bytes.iter().filter(|(content, _)| **content != Content::Zero);
        let mut out: Vec<(Content, u64)> = written.map(|(content, bytes)| (*content, *bytes)).collect();
        out.sort_by_key(|(content, bytes)| (Reverse(*bytes), *content));
        out
    }

    /// Returns the content of nearly all written bytes, or `Mixed` if there is none. `Zero` if nothing was written.
    /// `None` if nothing was classified.
    pub fn content(&self) -> Option<Content> {
        if self.written() == 0 {
            return (self.seen() > 0).then_some(Content::Zero);
        }
        let (most, bytes) = self.by_size().into_iter().next()?;
        if self.is_predominant(bytes) {
            return Some(most);
        }
        let pointers = Content::Pointers(None);
        Some(if self.is_predominant(self.bytes_like(pointers)) { pointers } else { Content::Mixed })
    }

    /// Number of bytes of `content`. `Pointers(None)` includes pointers to any destination.
    fn bytes_like(&self, content: Content) -> u64 {
        match content {
            Content::Pointers(None) => self.sum(|other| matches!(other, Content::Pointers(_))),
            _ => self.sum(|other| other == content),
        }
    }

    fn is_predominant(&self, bytes: u64) -> bool {
        bytes.saturating_mul(100) >= self.written().saturating_mul(MIN_SHARE)
    }

    /// Percentage of the written bytes that are `content`.
    pub fn percent(&self, content: Content) -> u64 {
        self.bytes_like(content).saturating_mul(100).checked_div(self.written()).unwrap_or(100)
    }
}

/// A stretch of a range with mostly one content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Addresses. Bytes that are not in the core, and zeros, belong to the stretch before them.
    pub range: AddrRange,
    /// Bytes per content.
    pub makeup: Makeup,
}

/// Returns the parts of `runs` (by address) that are in `range`.
pub fn within(runs: &[Filled], range: AddrRange) -> impl Iterator<Item = Filled> + '_ {
    let from = runs.partition_point(|run| run.range.end <= range.start);
    let clipped = move |run: &Filled| run.range.intersect(&range).map(|range| Filled { range, content: run.content });
    runs.get(from..).unwrap_or_default().iter().map_while(clipped)
}

/// Divides `range` where its content changes, given the runs of its pages (by address). The stretches cover all of it.
pub fn stretches(range: AddrRange, runs: impl IntoIterator<Item = Filled>) -> Vec<Stretch> {
    let mut done: Vec<Segment> = Vec::new();
    let mut pending: Option<Segment> = None;
    for segment in segments(runs) {
        match done.last_mut() {
            Some(last) if last.of.is_some() && last.of == segment.of => {
                pending.take().into_iter().for_each(|p| last.makeup.merge(&p.makeup));
                last.makeup.merge(&segment.makeup);
            }
            last if segment.is_stretch() => {
                let head = match (last, pending.take()) {
                    (Some(last), Some(p)) => {
                        last.makeup.merge(&p.makeup);
                        None
                    }
                    (_, head) => head,
                };
                // Pages before the first stretch are its head.
                done.push(head.map_or(segment.clone(), |head| Segment { of: segment.of, ..head.with(&segment) }));
            }
            Some(last) if last.of.is_none() => last.makeup.merge(&segment.makeup),
            _ => {
                let all = pending.take().map_or(segment.clone(), |p| p.with(&segment));
                match all.makeup.written() >= CHANGING {
                    true => done.push(Segment { of: None, ..all }),
                    false => pending = Some(all),
                }
            }
        }
    }
    match (done.last_mut(), pending) {
        (Some(last), Some(p)) => last.makeup.merge(&p.makeup),
        (None, Some(p)) => done.push(p),
        _ => {}
    }
    let ends: Vec<Addr> = done.iter().skip(1).map(|segment| segment.start).chain([range.end]).collect();
    let mut start = range.start;
    let stretch = |(segment, end): (Segment, Addr)| {
        let range = AddrRange::new(std::mem::replace(&mut start, end), end);
        Stretch { range, makeup: segment.makeup }
    };
    match done.is_empty() {
        true => vec![Stretch { range, makeup: Makeup::default() }],
        false => done.into_iter().zip(ends).map(stretch).collect(),
    }
}

/// Pages of one content, or an unfinished stretch.
#[derive(Clone)]
struct Segment {
    start: Addr,
    /// Content. `None` if it keeps changing.
    of: Option<Content>,
    makeup: Makeup,
}

impl Segment {
    /// Whether it is long enough to be a stretch.
    fn is_stretch(&self) -> bool {
        self.of.is_some_and(|content| self.makeup.written() >= min_stretch(content))
    }

    /// Joins it with the part that follows.
    fn with(mut self, next: &Segment) -> Segment {
        self.makeup.merge(&next.makeup);
        self
    }
}

/// Joins runs of equal content, across zeros between them. A zero page says nothing about its mapping, so zeros belong
/// to the part before them.
fn segments(runs: impl IntoIterator<Item = Filled>) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if run.content == Content::Zero || last.of == Some(run.content) => {
                last.makeup.add(run.content, run.range.len());
            }
            Some(last) if last.of == Some(Content::Zero) => {
                last.of = Some(run.content);
                last.makeup.add(run.content, run.range.len());
            }
            _ => {
                out.push(Segment { start: run.range.start, of: Some(run.content), makeup: Makeup::of([run]) });
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "stretches_tests.rs"]
mod tests;
