//! Start addresses of a heap's objects, as one bit per eight bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{Addr, AddrRange};

/// Alignment of objects in every known heap.
const UNIT: u64 = 8;

/// Bytes of the heap per word of bits.
const SPAN: u64 = 64 * UNIT;

/// Interval in bytes at which the start of the last object before is stored. An array may be as large as the heap.
const STEP: u64 = 1 << 20;

/// A set of addresses in the parts of a heap. Threads can mark addresses concurrently.
#[derive(Default)]
pub(super) struct ObjectStarts {
    /// Parts, sorted and disjoint.
    parts: Vec<PartBits>,
}

struct PartBits {
    range: AddrRange,
    bits: Vec<AtomicU64>,
    /// The last marked address before each multiple of [`STEP`] from the part's start. 0 if there is none.
    before: Vec<u64>,
}

impl ObjectStarts {
    /// Creates an empty set over these parts (sorted, disjoint).
    pub(super) fn new(parts: &[AddrRange]) -> ObjectStarts {
        let parts = parts.iter().map(|&range| {
            let words = usize::try_from(range.len().div_ceil(SPAN)).unwrap_or(0);
            PartBits { range, bits: (0..words).map(|_| AtomicU64::new(0)).collect(), before: Vec::new() }
        });
        ObjectStarts { parts: parts.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the part that contains an address.
    fn part(&self, at: Addr) -> Option<&PartBits> {
        let i = self.parts.partition_point(|part| part.range.end <= at);
        self.parts.get(i).filter(|part| part.range.contains(at))
    }

    /// Whether an address is in any part.
    pub(super) fn covers(&self, at: Addr) -> bool {
        self.part(at).is_some()
    }

    /// Marks an address. Ignores it if it is not aligned, or in no part.
    pub(super) fn mark(&self, at: Addr) {
        if let Some((bits, bit)) = self.part(at).and_then(|part| part.bit(at)) {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn has(&self, at: Addr) -> bool {
        self.part(at).and_then(|part| part.bit(at)).is_some_and(|(bits, bit)| bits.load(Ordering::Relaxed) & bit != 0)
    }

    /// Completes the set after all addresses are marked, for fast queries.
    pub(super) fn finish(&mut self) {
        self.parts.iter_mut().for_each(PartBits::finish);
    }

    /// Visits the marked addresses in `range`, and before them the last one below `range` in the same part. That
    /// object may extend into `range`.
    pub(super) fn each(&self, range: AddrRange, mut visit: impl FnMut(Addr)) {
        let first = self.parts.partition_point(|part| part.range.end <= range.start);
        for part in self.parts.iter().skip(first).take_while(|part| part.range.start < range.end) {
            let from = range.start.max(part.range.start);
            part.last_before(from).into_iter().for_each(&mut visit);
            part.each(AddrRange::new(from, range.end.min(part.range.end)), &mut visit);
        }
    }
}

impl PartBits {
    fn bit(&self, at: Addr) -> Option<(&AtomicU64, u64)> {
        let from = at.since(self.range.start);
        let word = usize::try_from(from / SPAN).ok()?;
        Some((self.bits.get(word).filter(|_| from.is_multiple_of(UNIT))?, 1 << (from % SPAN / UNIT)))
    }

    fn finish(&mut self) {
        let mut last = 0;
        let words = (STEP / SPAN) as usize;
        self.before = self
            .bits
            .chunks(words)
            .enumerate()
            .map(|(step, bits)| {
                let before = last;
                let start = self.range.start.saturating_add(step as u64 * STEP);
                if let Some((i, word)) =
                    bits.iter().map(|b| b.load(Ordering::Relaxed)).enumerate().rfind(|(_, w)| *w != 0)
                {
                    last = start.saturating_add(i as u64 * SPAN + UNIT * u64::from(word.ilog2())).get();
                }
                before
            })
            .collect();
    }

    /// Returns the last marked address before `at`.
    fn last_before(&self, at: Addr) -> Option<Addr> {
        let from = at.since(self.range.start);
        let step = from / STEP;
        let noted = self.before.get(usize::try_from(step).ok()?).copied().filter(|&before| before != 0).map(Addr::new);
        let mut last = noted;
        self.each(AddrRange::new(self.range.start.saturating_add(step * STEP), at), &mut |place| last = Some(place));
        last
    }

    /// Visits the marked addresses in `range`, which must be within this part.
    fn each(&self, range: AddrRange, visit: &mut dyn FnMut(Addr)) {
        let (from, to) = (range.start.since(self.range.start), range.end.since(self.range.start));
        let words = (from / SPAN) as usize..to.div_ceil(SPAN) as usize;
        for (i, bits) in self.bits.get(words.clone()).unwrap_or_default().iter().enumerate() {
            let mut bits = bits.load(Ordering::Relaxed);
            let word = (words.start + i) as u64 * SPAN;
            while bits != 0 {
                let place = word + UNIT * u64::from(bits.trailing_zeros());
                if (from..to).contains(&place) {
                    visit(self.range.start.saturating_add(place));
                }
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_visited_with_the_one_before() {
        let parts = [(0x1000, 0x40_0000), (0x80_0008, 0x100)].map(|(at, len)| AddrRange::sized(Addr::new(at), len));
        let mut starts = ObjectStarts::new(&parts);
        let all = [0x1000, 0x1008, 0x11f8, 0x1200, 0x20_0000, 0x80_0018].map(Addr::new);
        all.iter().for_each(|at| starts.mark(*at));
        // Not aligned, or in no part.
        [0x100c, 0x800, 0x90_0000].into_iter().for_each(|at| starts.mark(Addr::new(at)));
        starts.finish();
        let visited = |from: u64, to: u64| {
            let mut out = Vec::new();
            starts.each(AddrRange::new(Addr::new(from), Addr::new(to)), |at| out.push(at.get()));
            out
        };
        assert_eq!(visited(0, 0x100_0000), all.map(Addr::get));
        assert_eq!(visited(0x1000, 0x1010), [0x1000, 0x1008]);
        assert_eq!(visited(0x1100, 0x1200), [0x1008, 0x11f8]);
        assert_eq!(visited(0x1f_fff8, 0x20_0008), [0x1200, 0x20_0000]);
        assert_eq!(visited(0x3f_0000, 0x80_0010), [0x20_0000]);
        assert_eq!(visited(0x80_0020, 0x80_0030), [0x80_0018]);
        assert!(starts.has(Addr::new(0x11f8)) && !starts.has(Addr::new(0x11f0)) && !starts.has(Addr::new(0x100c)));
        assert!(starts.covers(Addr::new(0x80_0008)) && !starts.covers(Addr::new(0x80_0000)));
    }
}
