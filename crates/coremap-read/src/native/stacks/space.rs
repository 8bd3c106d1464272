//! Memory that can be a stack: writable and contiguous, with inaccessible pages only at its low end.

use crate::addr::{Addr, AddrRange, union};
use crate::map::{Base, BaseEntry};
use crate::range_map::RangeMap;
use crate::targets::Facts;
use crate::targets::Producer;

/// Pages of the smallest stack (PTHREAD_STACK_MIN, 16 KiB).
const SMALLEST: u64 = 4;

/// Mappings of the process that can contain stacks.
pub(super) struct Space<'a> {
    base: &'a Base,
    /// Writable anonymous memory, with adjacent mappings joined, since createdump cuts one mapping into many segments.
    /// It is computed once, because many threads may have their stacks in one run.
    runs: RangeMap<AddrRange>,
    producer: Producer,
}

impl<'a> Space<'a> {
    pub(super) fn of(facts: &Facts, base: &'a Base) -> Space<'a> {
        let runs = union(base.entries.iter().filter(|e| is_anonymous(e) && is_writable(e)).map(|e| e.range).collect());
        Space { base, runs: RangeMap::from_sorted(runs).unwrap_or_default(), producer: facts.producer }
    }

    /// Returns the top `size` bytes of writable anonymous mappings, at most `limit` of them. A mapping must have at
    /// least [`SMALLEST`] times that size. Mappings above an unwritable mapping, such as a guard, come first.
    pub(super) fn tops(&self, size: u64, limit: usize) -> Vec<AddrRange> {
        let entries: Vec<&BaseEntry> = self.base.entries.iter().collect();
        let guarded = |pair: &[&BaseEntry]| matches!(pair, [below, at] if below.range.end == at.range.start && !is_writable(below));
        let large = |e: &BaseEntry| is_anonymous(e) && is_writable(e) && e.range.len() >= size.saturating_mul(SMALLEST);
        let found = entries.windows(2).filter_map(|pair| Some((guarded(pair), *pair.get(1)?)));
        let (first, rest): (Vec<_>, Vec<_>) = found.filter(|(_, e)| large(e)).partition(|(guarded, _)| *guarded);
        let top = |(_, e): (bool, &BaseEntry)| {
            AddrRange::new(e.range.end.checked_sub(size).unwrap_or(e.range.start), e.range.end)
        };
        first.into_iter().chain(rest).take(limit).map(top).collect()
    }

    /// Returns the writable anonymous memory around `addr`, with adjacent mappings joined.
    pub(super) fn run_at(&self, addr: Addr) -> Option<AddrRange> {
        self.runs.at(addr).copied()
    }

    /// Returns the writable anonymous mapping that contains `addr`. In cores of createdump, which cuts mappings
    /// anywhere, adjacent mappings are joined.
    pub(super) fn mapping_at(&self, addr: Addr) -> Option<AddrRange> {
        match self.producer {
            Producer::Createdump => self.run_at(addr),
            _ => self.base.at(addr).filter(|e| is_anonymous(e) && is_writable(e)).map(|e| e.range),
        }
    }

    /// Returns the writable mapping that contains `addr`, including mappings of files.
    pub(super) fn writable_at(&self, addr: Addr) -> Option<AddrRange> {
        self.run_at(addr).or_else(|| self.base.at(addr).filter(|e| is_writable(e)).map(|e| e.range))
    }

    /// Checks whether `stack` can be a stack in which `used` is in use. Returns its guard zone.
    ///
    /// All of the stack must be writable, except inaccessible pages at its low end. These are a runtime's guard zone;
    /// the range is empty if there are none. If the producer leaves mappings out, missing mappings prove nothing.
    pub(super) fn guard_zone_if_stack(&self, stack: AddrRange, used: Addr) -> Option<AddrRange> {
        let writable = self.base.at(used).is_some_and(is_writable);
        if stack.is_empty() || !stack.contains(used) || !writable {
            return None;
        }
        let gaps = self.producer != Producer::Kernel;
        let mut at = stack.start;
        let mut closed = stack.start;
        for entry in self.base.entries.overlapping(stack) {
            if entry.range.start > at {
                match (gaps, closed == at) {
                    (false, _) => return None,
                    (true, true) => closed = entry.range.start,
                    (true, false) => {}
                }
            }
            at = entry.range.end.min(stack.end);
            if !is_writable(entry) {
                let untouchable = is_anonymous(entry) && entry.perms.is_some_and(|p| !p.exec);
                if !untouchable || closed < entry.range.start.max(stack.start) {
                    return None;
                }
                closed = at;
            }
        }
        (at >= stack.end || gaps).then(|| AddrRange::new(stack.start, closed))
    }
}

fn is_anonymous(entry: &BaseEntry) -> bool {
    entry.file.is_none()
}

fn is_writable(entry: &BaseEntry) -> bool {
    entry.perms.is_some_and(|p| p.read && p.write)
}
