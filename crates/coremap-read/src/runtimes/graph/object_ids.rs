//! Numbers objects densely, in address order.
//!
//! One bit per word of the heap shows where objects begin. Every 64 bits are stored with the number of objects before
//! them. So the ID for any reference is found in one step. The table has a thirty-second of the heap's size. A table of
//! IDs by address would have a sixth of it, and would wait for memory more often.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::space::{MemoryRun, Space};
use crate::runtimes::api::{FREE, Heap, HeapRange, Object, UnwalkedRanges};
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget, Table};

/// Maximum number of objects.
const MAX_OBJECTS: u32 = 1 << 31;

/// Interval at which the entry of an object is recorded.
const SAMPLE_INTERVAL: u32 = 64;

/// 512 bytes of the heap: a bit set of the words where objects begin, and the number of objects before.
type Entry = [u64; 2];

/// Dense IDs of all objects of a heap, in address order from 0.
pub(crate) struct ObjectIds {
    entries: Table<u64>,
    /// Index of the entry that contains each [`SAMPLE_INTERVAL`]th object.
    samples: Vec<u32>,
    len: u32,
    _charge: Charge,
}

/// What the walk over the heap saw, in parts without a defined order.
pub(crate) struct WalkResult<S> {
    /// The results of `see`, one per part of the work.
    pub(crate) seen: Vec<S>,
    pub(crate) unwalked: UnwalkedRanges,
}

impl ObjectIds {
    /// Walks the heap and gives an ID to each object that is not free space. Calls `see` for each object, free space
    /// included, with a result to accumulate in. Calls `passed` for each part of the heap that was walked.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(crate) fn new<S: Default + Send>(
        heap: &dyn Heap,
        budget: &MemoryBudget,
        see: impl Fn(&mut S, &HeapRange, &Object) + Sync,
        passed: impl Fn(&HeapRange) + Sync,
    ) -> Result<(ObjectIds, WalkResult<S>), GraphError> {
        let space = heap.space();
        let words = usize::try_from(space.words() / 64 + 1).ok().filter(|&words| u32::try_from(words).is_ok());
        let words = words.ok_or(GraphError::TooMany)?;
        let bits: Table<AtomicU64> = budget.table(2 * words)?;
        let of_part = |(mut seen, mut unwalked): (S, UnwalkedRanges), heap_range: &HeapRange| {
            let mut gathered = (0, 0);
            heap.walker().walk(heap_range, &mut unwalked, &mut |object| {
                see(&mut seen, heap_range, object);
                let addr = object.addr.get();
                let run = space.run(addr).filter(|_| object.kind != FREE && addr & 7 == 0);
                let Some(index) = run.map(|run| run.index(addr)) else { return };
                // Parts of the heap may share a word. Write each word once per part, atomically.
                if index / 64 != gathered.0 {
                    set_bits(&bits, gathered);
                    gathered = (index / 64, 0);
                }
                gathered.1 |= 1 << (index % 64);
            });
            set_bits(&bits, gathered);
            passed(heap_range);
            (seen, unwalked)
        };
        let shares: Vec<(S, UnwalkedRanges)> = heap.ranges().par_iter().fold(Default::default, of_part).collect();
        let mut all = WalkResult { seen: Vec::new(), unwalked: UnwalkedRanges::default() };
        budget.in_time()?;
        for (seen, unwalked) in shares {
            all.seen.push(seen);
            all.unwalked.merge(unwalked);
        }
        Ok((ObjectIds::from_bits(bits.settled(), budget)?, all))
    }

    /// Counts the objects before each entry, whose bits are complete.
    fn from_bits(mut entries: Table<u64>, budget: &MemoryBudget) -> Result<ObjectIds, GraphError> {
        let mut samples = Vec::new();
        let mut len = 0_u32;
        for (at, [bits, before]) in (0_u32..).zip(entries.as_chunks_mut::<2>().0) {
            *before = len.into();
            len += bits.count_ones();
            while (samples.len() as u64 * u64::from(SAMPLE_INTERVAL)) < u64::from(len) {
                samples.push(at);
            }
            if len > MAX_OBJECTS {
                return Err(GraphError::TooMany);
            }
        }
        let charge = budget.charge(4 * samples.len() as u64);
        Ok(ObjectIds { entries, samples, len, _charge: charge })
    }

    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        self.entries.as_chunks().0
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// ID of the object that begins at `value`. `None` if none does.
    #[inline(always)]
    pub(crate) fn find(&self, space: &Space<'_>, value: u64) -> Option<u32> {
        let place = space.run(value).filter(|_| value & 7 == 0)?.index(value);
        id_at(self.entries().get((place / 64) as usize)?, place)
    }

    /// Finds the objects at several addresses, so that cache misses overlap. `out` gets one ID per value, or `none` if
    /// no object begins there. `places` is scratch space.
    pub(super) fn find_all(
        &self,
        space: &Space<'_>,
        values: &[u64],
        none: u32,
        places: &mut Vec<u64>,
        out: &mut Vec<u32>,
    ) {
        places.clear();
        places.extend(values.iter().map(|&value| match space.run(value) {
            Some(run) if value & 7 == 0 => run.index(value),
            _ => u64::MAX,
        }));
        let entries = self.entries();
        let entry = |place: u64| entries.get((place / 64) as usize);
        black_box(places.iter().fold(0, |sum, &place| sum ^ entry(place).map_or(0, |entry| entry[0])));
        out.clear();
        out.extend(places.iter().map(|&place| entry(place).and_then(|entry| id_at(entry, place)).unwrap_or(none)));
    }

    pub(super) fn address(&self, space: &Space<'_>, id: u32) -> Option<Addr> {
        let at = self.entry_of(id)?;
        let &[mut bits, before] = self.entries().get(at)?;
        for _ in before as u32..id {
            bits &= bits.wrapping_sub(1);
        }
        let index = at as u64 * 64 + u64::from(bits.trailing_zeros());
        space.run_of(index)?.address(index).map(Addr::new)
    }

    /// Reads the memory that [`ObjectIds::address`] will need, approximately.
    #[inline(always)]
    pub(super) fn touch_address(&self, id: u32) -> u64 {
        let from = self.samples.get((id / SAMPLE_INTERVAL) as usize).map_or(0, |&from| from as usize);
        let about = from + ((id % SAMPLE_INTERVAL) / 16) as usize;
        self.entries.get(2 * about).copied().unwrap_or(0)
    }

    /// Index of the entry that contains an object.
    fn entry_of(&self, id: u32) -> Option<usize> {
        let sample = (id / SAMPLE_INTERVAL) as usize;
        let from = *self.samples.get(sample).filter(|_| id < self.len)? as usize;
        let to = self.samples.get(sample + 1).map_or(self.entries().len(), |&to| to as usize + 1);
        // Only a few entries, because objects are larger than words.
        let some = self.entries().get(from..to)?;
        let passed = some.iter().position(|&[_, before]| before > id.into()).unwrap_or(some.len());
        (from + passed).checked_sub(1)
    }

    /// IDs of the objects that begin in `range`.
    pub(crate) fn ids_in(&self, space: &Space<'_>, range: AddrRange) -> Range<u32> {
        self.count_before(space, range.start)..self.count_before(space, range.end)
    }

    /// Number of objects that begin before `addr`.
    fn count_before(&self, space: &Space<'_>, addr: Addr) -> u32 {
        let Some(index) = space.index_from(addr.get()) else { return self.len };
        let Some(&[bits, before]) = self.entries().get((index / 64) as usize) else { return self.len };
        before as u32 + (bits & ((1 << (index % 64)) - 1)).count_ones()
    }

    /// Iterates the addresses of a range of objects, in ascending order.
    pub(crate) fn addresses<'i>(&'i self, space: &'i Space<'_>, ids: Range<u32>) -> impl Iterator<Item = Addr> + 'i {
        let first = self.entry_of(ids.start).unwrap_or(self.entries().len());
        let entries = (first as u64..).zip(self.entries().get(first..).unwrap_or_default());
        let words = entries.take_while({
            let end = ids.end;
            move |(_, entry)| entry[1] < end.into()
        });
        let mut run: Option<&MemoryRun<'_>> = None;
        let addresses = words.flat_map(move |(at, entry)| {
            let (mut bits, mut id) = (entry[0], entry[1] as u32);
            let ids = ids.clone();
            std::iter::from_fn(move || {
                while bits != 0 {
                    let index = at * 64 + u64::from(bits.trailing_zeros());
                    let wanted = ids.contains(&id);
                    (bits, id) = (bits & (bits - 1), id + 1);
                    if wanted {
                        return Some(index);
                    }
                }
                None
            })
        });
        addresses.filter_map(move |index| {
            if run.and_then(|run| run.address(index)).is_none() {
                run = space.run_of(index);
            }
            run.and_then(|run| run.address(index)).map(Addr::new)
        })
    }

    /// Visits a range of objects in address order: ID and address.
    pub(super) fn each(&self, space: &Space<'_>, ids: Range<u32>, mut visit: impl FnMut(u32, u64)) {
        let Some(first) = self.entry_of(ids.start) else { return };
        let mut run = None;
        for (at, &[bits, before]) in (first as u64..).zip(self.entries().get(first..).unwrap_or_default()) {
            let (mut bits, mut id) = (bits, before as u32);
            if id >= ids.end {
                break;
            }
            while bits != 0 {
                let index = at * 64 + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if ids.contains(&id) {
                    if run.and_then(|run: &MemoryRun<'_>| run.address(index)).is_none() {
                        run = space.run_of(index);
                    }
                    if let Some(addr) = run.and_then(|run| run.address(index)) {
                        visit(id, addr);
                    }
                }
                id += 1;
            }
        }
    }
}

/// ID of the object that begins at word `place`, whose entry is given.
#[inline(always)]
fn id_at(&[bits, before]: &Entry, place: u64) -> Option<u32> {
    let bit = 1_u64 << (place % 64);
    (bits & bit != 0).then(|| before as u32 + (bits & (bit - 1)).count_ones())
}

/// Sets bits in the entry of a word group. The pair is the group's index and its bits.
fn set_bits(bits: &[AtomicU64], (word, some): (u64, u64)) {
    if let Some(word) = bits.get(2 * word as usize).filter(|_| some != 0) {
        word.fetch_or(some, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::api::space::of_runs;

    #[test]
    fn numbers_and_places_are_each_other_s() {
        // Two runs of memory: objects at every fifth word of the first, and two objects in the second.
        let (long, short) = (vec![0_u8; 8 * 40_000], vec![0_u8; 256]);
        let space = of_runs(&[(0x10_0000, &long), (0x7000_0000_0000, &short)]);
        let places: Vec<u64> =
            (0..8_000).map(|i| 0x10_0000 + 40 * i).chain([0x7000_0000_0000, 0x7000_0000_00f8]).collect();
        let Ok(mut bits) = MemoryBudget::unbounded().table::<u64>(2 * (space.words() / 64 + 1) as usize) else {
            panic!("no room")
        };
        for index in places.iter().filter_map(|&at| Some(space.run(at)?.index(at))) {
            bits[2 * (index / 64) as usize] |= 1 << (index % 64);
        }
        let Ok(ids) = ObjectIds::from_bits(bits, &MemoryBudget::unbounded()) else { panic!("too many") };
        assert_eq!(ids.len() as usize, places.len());
        for (id, &at) in (0..).zip(&places) {
            assert_eq!(ids.find(&space, at), Some(id));
            assert_eq!(ids.address(&space, id), Some(Addr::new(at)));
        }
        for none in [0, 0x10_0008, 0x10_0001, 0x7000_0000_0008, u64::MAX] {
            assert_eq!(ids.find(&space, none), None);
        }
        assert_eq!(ids.address(&space, ids.len()), None);
        let mut seen = Vec::new();
        ids.each(&space, 777..8_001, |id, at| seen.push((id, at)));
        let expected: Vec<(u32, u64)> = (777..).zip(places[777..8_001].iter().copied()).collect();
        assert_eq!(seen, expected);
        let listed: Vec<u64> = ids.addresses(&space, 777..8_001).map(Addr::get).collect();
        assert_eq!(listed, places[777..8_001]);
        let within = |from, to| ids.ids_in(&space, AddrRange::new(Addr::new(from), Addr::new(to)));
        assert_eq!(within(0, u64::MAX), 0..8_002);
        assert_eq!(within(0x10_0028, 0x10_0051), 1..3);
        assert_eq!(within(0x10_0000 + 8 * 40_000 - 40, 0x7000_0000_00f8), 7_999..8_001);
        assert!(within(0x20_0000, 0x30_0000).is_empty());
    }
}
