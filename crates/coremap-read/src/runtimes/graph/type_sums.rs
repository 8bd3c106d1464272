//! Sums by type of retained bytes. An object that another one of its type dominates counts only in what that one
//! retains.
//!
//! The set of types that dominate an object is represented by one number. It follows from the dominator's set and the
//! dominator's type. Real heaps have few such sets, even where chains of dominators are millions long.

use std::collections::HashMap;

use crate::core::mapped::table::Number;
use crate::runtimes::api::{Tally, TypeIndex};
use crate::runtimes::graph::TypeSum;
use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Maximum number of entries in the table of sets, and of steps to find out whether a type is in a set. Real heaps have
/// some thousand sets. With more, the sums need a walk of the dominator tree.
const MAX_SETS: usize = 1 << 22;
const MAX_STEPS: u64 = 1 << 28;

/// Number of entries in the cache before the table. A power of two.
const CACHE: usize = 1 << 12;

/// The empty set, and the marker for numbers outside of what is summed.
const EMPTY: u32 = 0;
const OUTSIDE: u32 = u32::MAX;

/// A set of types: another set plus one type.
struct Set {
    without: u32,
    kind: u32,
}

/// Cached result of adding a type to a set.
#[derive(Clone, Copy)]
struct Cached {
    set: u32,
    kind: u32,
    /// The set that includes the type.
    with: u32,
}

struct Sets {
    all: Vec<Set>,
    by_parts: HashMap<(u32, u32), u32>,
    cache: Vec<Cached>,
    steps: u64,
}

impl Sets {
    fn new() -> Sets {
        let none = Cached { set: OUTSIDE, kind: 0, with: 0 };
        let empty = Set { without: EMPTY, kind: u32::MAX };
        Sets { all: vec![empty], by_parts: HashMap::new(), cache: vec![none; CACHE], steps: 0 }
    }

    /// The set `set` with `kind` added. `None` if there are too many sets.
    #[inline(always)]
    fn with(&mut self, set: u32, kind: u32) -> Option<u32> {
        let hash = (set ^ kind.rotate_left(16)).wrapping_mul(0x9e37_79b9);
        let slot = (hash >> 20) as usize % CACHE;
        let known = *self.cache.get(slot)?;
        if (known.set, known.kind) == (set, kind) {
            return Some(known.with);
        }
        let with = self.find_or_add(set, kind)?;
        *self.cache.get_mut(slot)? = Cached { set, kind, with };
        Some(with)
    }

    #[cold]
    fn find_or_add(&mut self, set: u32, kind: u32) -> Option<u32> {
        if let Some(&with) = self.by_parts.get(&(set, kind)) {
            return Some(with);
        }
        let mut at = set;
        let with = loop {
            if at == EMPTY {
                self.all.push(Set { without: set, kind });
                break self.all.len() as u32 - 1;
            }
            let step = self.all.get(at as usize)?;
            if step.kind == kind {
                break set;
            }
            at = step.without;
            self.steps += 1;
        };
        self.by_parts.insert((set, kind), with);
        (self.by_parts.len() <= MAX_SETS && self.steps <= MAX_STEPS).then_some(with)
    }
}

/// A number with its dominator and both types.
pub(super) struct DominatorRow {
    pub(super) number: u32,
    /// The immediate dominator.
    pub(super) dominator: u32,
    /// Type of the object. `None` for root kinds.
    pub(super) kind: Option<TypeIndex>,
    /// Type of the dominator. `None` for the virtual root and for root kinds.
    pub(super) dominator_kind: Option<TypeIndex>,
}

/// Why the sums were not computed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SumsError {
    /// There are more sets than the limit, or than fit the table's width.
    TooManySets,
    Error(GraphError),
}

/// A set's number, as stored in a table.
trait SetIndex: Number + Copy {
    /// Converts the number. `None` if it is too large.
    fn of(set: u32) -> Option<Self>;
    fn set(self) -> u32;
}

impl SetIndex for u16 {
    fn of(set: u32) -> Option<u16> {
        if set == OUTSIDE { Some(u16::MAX) } else { u16::try_from(set).ok().filter(|&set| set != u16::MAX) }
    }

    #[inline(always)]
    fn set(self) -> u32 {
        if self == u16::MAX { OUTSIDE } else { self.into() }
    }
}

impl SetIndex for u32 {
    fn of(set: u32) -> Option<u32> {
        Some(set)
    }

    #[inline(always)]
    fn set(self) -> u32 {
        self
    }
}

/// Sums by type of `within` and all that it dominates. For 0, of all live objects. `all` iterates all numbers but 0,
/// dominators first. `len` exceeds all numbers. `bytes` returns the bytes that a number retains.
pub(super) fn type_sums<I: Iterator<Item = DominatorRow>>(
    all: impl Fn() -> I,
    bytes: impl Fn(u32) -> u64,
    len: usize,
    within: u32,
    budget: &MemoryBudget,
) -> Result<Vec<TypeSum>, SumsError> {
    // Few heaps have more than 2^16 sets.
    match sums::<u16>(all(), &bytes, len, within, budget) {
        Err(SumsError::TooManySets) => sums::<u32>(all(), &bytes, len, within, budget),
        done => done,
    }
}

fn sums<S: SetIndex>(
    all: impl Iterator<Item = DominatorRow>,
    bytes: &impl Fn(u32) -> u64,
    len: usize,
    within: u32,
    budget: &MemoryBudget,
) -> Result<Vec<TypeSum>, SumsError> {
    let mut sets = Sets::new();
    let mut above: Table<S> = budget.table(len).map_err(SumsError::Error)?;
    let mut sums: Vec<(Tally, u64)> = Vec::new();
    let top = S::of(if within == 0 { EMPTY } else { OUTSIDE }).ok_or(SumsError::TooManySets)?;
    if let Some(first) = above.first_mut() {
        *first = top;
    }
    for DominatorRow { number, dominator: up, kind, dominator_kind: over_kind } in all {
        budget.in_time_at(number as usize).map_err(SumsError::Error)?;
        let over = above.get(up as usize).map_or(OUTSIDE, |set| set.set());
        let set = if number == within { EMPTY } else { over };
        let mut own = set;
        if let Some(TypeIndex(index)) = kind
            && set != OUTSIDE
        {
            if sums.len() <= index as usize {
                sums.resize(index as usize + 1, Default::default());
            }
            let alike = kind == over_kind && number != within;
            // If the dominator has the same type, the type is in its set already, and what is subtracted there would be
            // added here.
            if !alike {
                let bytes = bytes(number);
                own = sets.with(set, index).ok_or(SumsError::TooManySets)?;
                // An object's own size is what it retains minus what its children in the dominator tree retain.
                if number != within
                    && let Some(TypeIndex(over)) = over_kind
                    && let Some((over, _)) = sums.get_mut(over as usize)
                {
                    over.size = over.size.wrapping_sub(bytes);
                }
                if let Some((tally, kept)) = sums.get_mut(index as usize) {
                    tally.size = tally.size.wrapping_add(bytes);
                    if own != set {
                        *kept = kept.saturating_add(bytes);
                    }
                }
            }
            if let Some((tally, _)) = sums.get_mut(index as usize) {
                tally.count += 1;
            }
        }
        let own = S::of(own).ok_or(SumsError::TooManySets)?;
        if let Some(place) = above.get_mut(number as usize) {
            *place = own;
        }
    }
    let rows = (0..).zip(sums).filter(|(_, sum)| sum.0.count > 0);
    Ok(rows.map(|(kind, (own, retained))| TypeSum { kind: TypeIndex(kind), own, retained }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_have_each_type_once() {
        let mut sets = Sets::new();
        let mut with = |set, kind| sets.with(set, kind).unwrap_or(OUTSIDE);
        let (a, b) = (with(EMPTY, 7), with(EMPTY, 9));
        assert!(a != EMPTY && b != EMPTY && a != b);
        let ab = with(a, 9);
        assert!(![EMPTY, a, b].contains(&ab));
        // Adding a type that is in the set already returns the same set, whatever the order of additions was.
        assert_eq!((with(ab, 7), with(ab, 9), with(a, 7), with(EMPTY, 7)), (ab, ab, a, a));
    }

    /// The sums straight from their definition. In `ups`, each number's dominator is lower.
    fn simple(ups: &[u32], kinds: &[u32], within: u32) -> Vec<TypeSum> {
        let len = ups.len() as u32;
        let above = |number: u32| std::iter::successors(Some(number), |&n| (n != 0).then(|| ups[n as usize])).skip(1);
        let inside = |n: u32| n == within || above(n).any(|up| up == within);
        let keeps = |n: u32| (1..len).filter(|&m| m == n || above(m).any(|up| up == n)).count() as u64;
        let of_kind = |kind: u32| {
            let mine: Vec<u32> = (1..len).filter(|&n| kinds[n as usize] == kind && inside(n)).collect();
            let outer = mine.iter().filter(|&&n| !above(n).any(|up| up != n && mine.contains(&up)));
            let own = Tally { count: mine.len() as u64, size: mine.len() as u64 };
            TypeSum { kind: TypeIndex(kind), own, retained: outer.map(|&n| keeps(n)).sum() }
        };
        (0..4).map(of_kind).filter(|sum| sum.own.count > 0).collect()
    }

    proptest! {
        #[test]
        fn sums_are_what_the_words_mean(
            seeds in prop::collection::vec((0_u32..1000, 0_u32..4), 1..24),
            within in 0_u32..24,
        ) {
            // Number 0 is the virtual root. Each object's own size is one byte.
            let ups: Vec<u32> =
                std::iter::once(0).chain((1..).zip(&seeds).map(|(n, seed)| seed.0 % n)).collect();
            let kinds: Vec<u32> = std::iter::once(9).chain(seeds.iter().map(|seed| seed.1)).collect();
            let mut kept = vec![1_u64; ups.len()];
            for n in (1..ups.len()).rev() {
                kept[ups[n] as usize] += kept[n];
            }
            let within = within % ups.len() as u32;
            let kind = |n: u32| (n > 0).then(|| TypeIndex(kinds[n as usize]));
            let known = |n: u32| {
                let up = ups[n as usize];
                DominatorRow { number: n, dominator: up, kind: kind(n), dominator_kind: kind(up) }
            };
            let budget = MemoryBudget::unbounded();
            let expected = simple(&ups, &kinds, within);
            let (all, bytes) = (|| (1..ups.len() as u32).map(known), |n: u32| kept[n as usize]);
            assert_eq!(sums::<u16>(all(), &bytes, ups.len(), within, &budget).as_ref(), Ok(&expected));
            assert_eq!(sums::<u32>(all(), &bytes, ups.len(), within, &budget), Ok(expected));
        }
    }
}
