//! Virtual addresses, address ranges, and the sweep that turns overlapping ranges into disjoint ones.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

/// Length of a word and of a pointer in bytes. Only 64-bit processes are supported.
#[doc(hidden)]
pub const WORD: u64 = 8;

/// Length of a page in bytes. All page counts use this size, whatever the page size of the process.
#[doc(hidden)]
pub const PAGE: u64 = 4096;

/// A virtual address in the process.
///
/// The number is private, so that only this type does address arithmetic. A core may claim memory at 0 or at the top of
/// the address space, and no sum or difference may panic or wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(u64);

impl Addr {
    /// Address 0, the null pointer.
    pub const NULL: Addr = Addr(0);

    /// The highest address.
    pub const MAX: Addr = Addr(u64::MAX);

    /// Creates an address from a number.
    pub const fn new(number: u64) -> Addr {
        Addr(number)
    }

    /// The address as a number, for printing, comparing with words, or masking bits. Use the methods of this type for
    /// sums and differences.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is address 0.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address with only the bits that are set in `mask`.
    pub const fn masked(self, mask: u64) -> Addr {
        Addr(self.0 & mask)
    }

    /// Adds `bytes`. `None` if the sum is beyond the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Addr> {
        self.0.checked_add(bytes).map(Addr)
    }

    /// Subtracts `bytes`. `None` if the result is below 0.
    pub fn checked_sub(self, bytes: u64) -> Option<Addr> {
        self.0.checked_sub(bytes).map(Addr)
    }

    /// Adds `bytes`, up to the top of the address space.
    pub fn saturating_add(self, bytes: u64) -> Addr {
        Addr(self.0.saturating_add(bytes))
    }

    /// Subtracts `bytes`, down to 0.
    pub fn saturating_sub(self, bytes: u64) -> Addr {
        Addr(self.0.saturating_sub(bytes))
    }

    /// Adds a signed offset. `None` if the result is outside the address space.
    pub fn checked_offset(self, bytes: i64) -> Option<Addr> {
        self.0.checked_add_signed(bytes).map(Addr)
    }

    /// Adds `bytes` modulo 2^64, as a processor does. For addresses that are read next. The result may be below `self`.
    pub const fn wrapping_add(self, bytes: u64) -> Addr {
        Addr(self.0.wrapping_add(bytes))
    }

    /// Adds a signed offset modulo 2^64, as a processor does.
    pub const fn wrapping_offset(self, bytes: i64) -> Addr {
        Addr(self.0.wrapping_add_signed(bytes))
    }

    /// Distance from `other` to this address in bytes, negative if `other` is above it. The inverse of
    /// [`Addr::wrapping_offset`].
    pub const fn offset_from(self, other: Addr) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// Distance from `lower` up to this address in bytes. `None` if `lower` is above it.
    pub fn checked_since(self, lower: Addr) -> Option<u64> {
        self.0.checked_sub(lower.0)
    }

    /// Distance from `lower` up to this address in bytes. 0 if `lower` is above it.
    pub fn since(self, lower: Addr) -> u64 {
        self.0.saturating_sub(lower.0)
    }

    /// Rounds down to a multiple of `align`, a power of two.
    pub fn align_down(self, align: u64) -> Addr {
        Addr(self.0 & !(align - 1))
    }

    /// Rounds up to a multiple of `align`, a power of two.
    pub fn align_up(self, align: u64) -> Addr {
        Addr(self.0.saturating_add(align - 1) & !(align - 1))
    }

    /// Whether the address is a multiple of `align`, a power of two.
    pub fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl serde::Serialize for Addr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Addr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Addr".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A virtual address of the process.",
            "type": "string",
            "pattern": "^0x(0|[1-9a-f][0-9a-f]{0,15})$",
        })
    }
}

/// A half-open range of addresses, `start <= address < end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrRange {
    /// First address in the range.
    pub start: Addr,
    /// First address after the range.
    pub end: Addr,
}

impl AddrRange {
    /// The range `[start, end)`. An end below the start gives the empty range at `start`.
    pub fn new(start: Addr, end: Addr) -> AddrRange {
        AddrRange { start, end: end.max(start) }
    }

    /// The range of `len` bytes from `start`, cut at the top of the address space.
    pub fn sized(start: Addr, len: u64) -> AddrRange {
        AddrRange::new(start, start.saturating_add(len))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.end.since(self.start)
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether `addr` is in the range.
    pub fn contains(&self, addr: Addr) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Whether `other` is entirely in the range.
    pub fn covers(&self, other: &AddrRange) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The intersection of both ranges. `None` if it is empty.
    pub fn intersect(&self, other: &AddrRange) -> Option<AddrRange> {
        let r = AddrRange::new(self.start.max(other.start), self.end.min(other.end));
        (!r.is_empty()).then_some(r)
    }

    /// The parts of the range that are in none of `taken`, which is sorted and disjoint.
    pub fn without(&self, taken: &[AddrRange]) -> Vec<AddrRange> {
        let (mut out, mut at) = (Vec::new(), self.start);
        let first = taken.partition_point(|t| t.end <= self.start);
        for t in taken.iter().skip(first).take_while(|t| t.start < self.end) {
            if t.start > at {
                out.push(AddrRange::new(at, t.start));
            }
            at = at.max(t.end);
        }
        if at < self.end {
            out.push(AddrRange::new(at, self.end));
        }
        out
    }
}

impl fmt::Display for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

impl fmt::Debug for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

struct Active<K> {
    rank: K,
    end: Addr,
    index: usize,
}

impl<K: Ord> Ord for Active<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equal ranks, the lower index wins. Callers whose result must not depend on the order make ranks distinct.
        self.rank.cmp(&other.rank).then_with(|| other.index.cmp(&self.index))
    }
}
impl<K: Ord> PartialOrd for Active<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K: Ord> PartialEq for Active<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<K: Ord> Eq for Active<K> {}

/// Resolves overlapping ranges: at each address the one of highest rank wins.
///
/// Returns disjoint, sorted ranges, each with the index of its item. Neighbours of one item are joined. There are at
/// most `2n` ranges, computed in `O(n log n)`, whatever the overlaps.
pub fn sweep<K: Ord + Clone>(items: &[(AddrRange, K)]) -> Vec<(AddrRange, usize)> {
    let mut order: Vec<usize> = (0..items.len()).filter(|&i| !items[i].0.is_empty()).collect();
    order.sort_by_key(|&i| items[i].0.start);
    let mut heap: BinaryHeap<Active<K>> = BinaryHeap::new();
    let mut out: Vec<(AddrRange, usize)> = Vec::with_capacity(order.len());
    let mut next = 0;
    let mut pos = Addr(0);
    loop {
        while heap.peek().is_some_and(|top| top.end <= pos) {
            heap.pop();
        }
        if heap.is_empty() {
            match order.get(next) {
                Some(&i) => pos = items[i].0.start,
                None => break,
            }
        }
        while let Some(&i) = order.get(next) {
            if items[i].0.start > pos {
                break;
            }
            heap.push(Active { rank: items[i].1.clone(), end: items[i].0.end, index: i });
            next += 1;
        }
        let Some(top) = heap.peek() else { break };
        // The winner stays until it ends or a later item starts.
        let until = match order.get(next) {
            Some(&i) => top.end.min(items[i].0.start),
            None => top.end,
        };
        let piece = AddrRange::new(pos, until);
        match out.last_mut() {
            Some((last, index)) if *index == top.index && last.end == piece.start => last.end = piece.end,
            _ => out.push((piece, top.index)),
        }
        pos = until;
    }
    out
}

/// The union of `ranges`, as sorted, disjoint ranges.
pub fn union(mut ranges: Vec<AddrRange>) -> Vec<AddrRange> {
    ranges.retain(|r| !r.is_empty());
    ranges.sort();
    let mut out: Vec<AddrRange> = Vec::with_capacity(ranges.len());
    for r in ranges {
        match out.last_mut() {
            Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(a: u64, b: u64) -> AddrRange {
        AddrRange::new(Addr(a), Addr(b))
    }

    #[test]
    fn what_is_left_of_a_range_is_what_nobody_took() {
        let taken = [r(0x0, 0x10), r(0x20, 0x30), r(0x40, 0x60), r(0x90, 0xa0)];
        assert_eq!(r(0x10, 0x50).without(&taken), [r(0x10, 0x20), r(0x30, 0x40)]);
        assert_eq!(r(0x48, 0x58).without(&taken), []);
        assert_eq!(r(0x5f, 0x90).without(&taken), [r(0x60, 0x90)]);
    }

    #[test]
    fn sweep_gives_each_place_to_the_highest_rank() {
        let items = [(r(0, 10), 1), (r(4, 6), 3), (r(5, 12), 2), (r(20, 21), 0)];
        assert_eq!(sweep(&items), vec![(r(0, 4), 0), (r(4, 6), 1), (r(6, 12), 2), (r(20, 21), 3)]);
    }

    #[test]
    fn sweep_joins_a_winner_that_others_only_touch() {
        let items = [(r(0, 10), 5), (r(2, 3), 1), (r(4, 9), 2)];
        assert_eq!(sweep(&items), vec![(r(0, 10), 0)]);
    }

    #[test]
    fn sweep_is_not_quadratic_in_nested_ranges() {
        let n = 200_000u64;
        let items: Vec<_> = (0..n).map(|i| (r(i, 2 * n - i), i)).collect();
        assert_eq!(sweep(&items).len() as u64, 2 * n - 1);
    }

    #[test]
    fn union_joins_touching_ranges() {
        assert_eq!(union(vec![r(5, 7), r(0, 3), r(3, 4), r(9, 9)]), vec![r(0, 4), r(5, 7)]);
    }
}
