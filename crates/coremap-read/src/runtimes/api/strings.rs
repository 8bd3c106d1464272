//! Duplicate strings and the memory that they waste.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::runtimes::api::Space;
use crate::runtimes::api::{
    Heap, HeapRange, Object, Selection, StringContent, StringUnits, Tally, TypeIndex, UnwalkedRanges, Walker,
};

/// Number of shards, selected by the first bits of the hash. Shards keep threads from waiting for each other, and each
/// one is small enough to be sorted in the caches.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;

/// Number of strings read in one batch.
const BATCH: usize = 4096;

/// Batches queued per worker before the producer processes one itself.
const QUEUE_DEPTH: usize = 4;

/// A string content that occurs several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Number of strings with this content.
    pub count: u64,
    /// Length of each, in UTF-16 units.
    pub length: u32,
    /// Bytes that sharing one string would save: the sizes of all but one of the strings, with their contents.
    pub wasted: u64,
    /// The string with the lowest address.
    pub example: Addr,
    /// Start of the content, at most `limits::MAX_SHOWN_STRING` units.
    pub value: String,
    /// Whether `value` was cut.
    pub cut: bool,
}

/// Strings of a heap, by content.
#[derive(Clone, Debug, Default)]
pub struct StringStat {
    /// Count and size of all counted strings, with their contents.
    pub total: Tally,
    /// Number of different contents.
    pub distinct: u64,
    /// Bytes that sharing equal strings would save.
    pub wasted: u64,
    /// The contents that waste most, in descending order.
    pub duplicates: Vec<Duplicate>,
    /// Number of strings whose content is not in the core. They are counted only in `total`.
    pub unreadable: u64,
}

/// A string, represented by the hash of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hashed {
    hash: u64,
    addr: u64,
    size: u64,
    /// Address of the object with the content. 0 if the string contains it.
    storage: u64,
}

/// Strings in shards by the first bits of their hashes.
struct Shards(Vec<Mutex<Vec<Hashed>>>);

impl Shards {
    /// Reserves room for `count` strings in all.
    fn new(count: u64) -> Shards {
        // Hashes spread almost evenly; an extra sixteenth covers the difference.
        let each = count.div_ceil(SHARDS as u64);
        let each = usize::try_from(each.saturating_add(each / 16)).unwrap_or(0);
        Shards((0..SHARDS).map(|_| Mutex::new(Vec::with_capacity(each))).collect())
    }

    /// Sorts `found` and adds it to the shards.
    fn add(&self, found: &mut [Hashed]) {
        found.sort_unstable();
        let shard = |string: &Hashed| (string.hash >> (u64::BITS - SHARD_BITS)) as usize;
        for same in found.chunk_by(|a, b| shard(a) == shard(b)) {
            if let Some(place) = same.first().and_then(|first| self.0.get(shard(first))) {
                place.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(same);
            }
        }
    }
}

/// Counts the strings of `heap` by content, if `include` accepts their address. `count`: a lower bound of their number,
/// which sets the number of passes.
pub fn strings(
    heap: &dyn Heap,
    selection: &Selection,
    count: u64,
    include: &(dyn Fn(Addr) -> bool + Sync),
    progress: &Progress,
) -> StringStat {
    let mut out = StringStat::default();
    let Some(kind) = heap.string_type() else { return out };
    let ranges: Vec<&HeapRange> = heap.ranges().iter().filter(|p| selection.includes(p)).collect();
    let bytes = ranges.iter().map(|p| p.range.len()).fold(0, u64::saturating_add);
    // Contents are divided among passes by hash. This bounds the memory of each pass, and the sums stay exact.
    let passes = count.div_ceil(limits::MAX_STRINGS_A_PASS).max(1);
    progress.start(bytes.saturating_mul(passes));
    let hasher = RandomState::new();
    // Build the space now; it makes `string_content` fast.
    let _ = heap.space();
    let mut objects = Tally::default();
    for pass in 0..passes {
        let shards = Shards::new(count.min(limits::MAX_STRINGS_A_PASS));
        let look = |batch: &[Object]| {
            let (mut found, mut failed) = (Vec::with_capacity(batch.len()), 0_u64);
            for string in batch {
                let Some(content) = heap.string_content(string) else {
                    failed += 1;
                    continue;
                };
                let hash = hasher.hash_one((content.length, content.bytes));
                if hash % passes == pass {
                    let storage = content.storage.map_or(0, |(at, _)| at.get());
                    found.push(Hashed { hash, addr: string.addr.get(), size: string.size, storage });
                }
            }
            shards.add(&mut found);
            failed
        };
        let (total, unreadable) = each_batch(heap, kind, &ranges, selection, include, progress, look);
        (objects, out.unreadable) = (total, unreadable);
        keep_worst(heap, kind, shards, &mut out);
    }
    out.total = Tally { count: objects.count, size: objects.size.saturating_add(out.total.size) };
    fill_contents(heap, kind, &mut out);
    out
}

/// Calls `look` in parallel on batches of all selected strings. Returns their tally, and the sum of what `look`
/// returned.
///
/// A part is walked by one thread, because each object's start follows from the previous one. The contents are read by
/// all threads.
fn each_batch(
    heap: &dyn Heap,
    kind: TypeIndex,
    ranges: &[&HeapRange],
    selection: &Selection,
    include: &(dyn Fn(Addr) -> bool + Sync),
    progress: &Progress,
    look: impl Fn(&[Object]) -> u64 + Sync,
) -> (Tally, u64) {
    let limit = QUEUE_DEPTH * rayon::current_num_threads();
    let (waiting, failed) = (&AtomicUsize::new(0), &AtomicU64::new(0));
    let look = &|batch: &[Object]| {
        failed.fetch_add(look(batch), Ordering::Relaxed);
    };
    let total = rayon::scope(|scope| {
        let send = |batch: &mut Vec<Object>| {
            if waiting.load(Ordering::Relaxed) >= limit {
                look(batch);
                batch.clear();
                return;
            }
            waiting.fetch_add(1, Ordering::Relaxed);
            let batch = std::mem::replace(batch, Vec::with_capacity(BATCH));
            scope.spawn(move |_| {
                waiting.fetch_sub(1, Ordering::Relaxed);
                look(&batch);
            });
        };
        let fresh = || (heap.walker(), Vec::with_capacity(BATCH));
        let of_part = |(walker, batch): &mut (Box<dyn Walker + '_>, Vec<Object>), heap_range: &&HeapRange| {
            let mut total = Tally::default();
            walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                if object.kind != kind || !selection.has(object) || !include(object.addr) {
                    return;
                }
                total.add(1, object.size);
                batch.push(*object);
                if batch.len() == BATCH {
                    send(batch);
                }
            });
            look(batch);
            batch.clear();
            progress.add(heap_range.range.len());
            total
        };
        ranges.par_iter().map_init(fresh, of_part).reduce(Tally::default, Tally::plus)
    });
    (total, failed.load(Ordering::Relaxed))
}

/// Bytes of strings with one content.
struct Equal {
    /// Bytes of the objects with the content, other than the strings. Each counts once.
    storage: u64,
    /// Bytes of all strings but one, and of all contents but one. Sizes are those of the total, without padding, so
    /// that the waste is never more than the total.
    wasted: u64,
}

impl Equal {
    /// Sums up `same`, which have the same content. `places` is scratch memory.
    fn of(heap: &dyn Heap, kind: TypeIndex, same: &[Hashed], places: &mut Vec<u64>) -> Equal {
        let Some(first) = same.first() else { return Equal { storage: 0, wasted: 0 } };
        let strings = (same.len() as u64).saturating_sub(1).saturating_mul(first.size);
        if first.storage == 0 {
            return Equal { storage: 0, wasted: strings };
        }
        places.clear();
        places.extend(same.iter().map(|string| string.storage));
        places.sort_unstable();
        places.dedup();
        // Equal contents have storage of equal size.
        let object = Object { addr: Addr::new(first.addr), kind, size: first.size };
        let storage = heap.string_content(&object).and_then(|content| content.storage);
        let size = storage.map_or(0, |(_, size)| size);
        let count = places.len() as u64;
        let contents = count.saturating_sub(1).saturating_mul(size);
        Equal { storage: count.saturating_mul(size), wasted: strings.saturating_add(contents) }
    }
}

/// Adds the counts of one pass to `out`, and its worst duplicates. Their contents are filled in later.
fn keep_worst(heap: &dyn Heap, kind: TypeIndex, shards: Shards, out: &mut StringStat) {
    let of_shard = |shard: Mutex<Vec<Hashed>>| {
        let mut shard = shard.into_inner().unwrap_or_else(PoisonError::into_inner);
        shard.sort_unstable();
        let (mut stat, mut places) = (StringStat::default(), Vec::new());
        for same in shard.chunk_by(|a, b| a.hash == b.hash) {
            stat.distinct += 1;
            let Equal { storage, wasted } = Equal::of(heap, kind, same, &mut places);
            stat.total.size = stat.total.size.saturating_add(storage);
            let [first, _, ..] = same else { continue };
            let (count, example) = (same.len() as u64, Addr::new(first.addr));
            stat.wasted = stat.wasted.saturating_add(wasted);
            stat.duplicates.push(Duplicate { count, length: 0, wasted, example, value: String::new(), cut: false });
            if stat.duplicates.len() >= 2 * limits::MAX_DUPLICATES {
                truncate_to_worst(&mut stat.duplicates);
            }
        }
        stat
    };
    let found: Vec<StringStat> = shards.0.into_par_iter().map(of_shard).collect();
    for stat in found {
        out.total.size = out.total.size.saturating_add(stat.total.size);
        out.distinct = out.distinct.saturating_add(stat.distinct);
        out.wasted = out.wasted.saturating_add(stat.wasted);
        out.duplicates.extend(stat.duplicates);
        truncate_to_worst(&mut out.duplicates);
    }
}

fn truncate_to_worst(duplicates: &mut Vec<Duplicate>) {
    duplicates.sort_unstable_by_key(|d| (std::cmp::Reverse(d.wasted), d.example));
    duplicates.truncate(limits::MAX_DUPLICATES);
}

/// Reads the content of each listed duplicate.
fn fill_contents(heap: &dyn Heap, kind: TypeIndex, out: &mut StringStat) {
    for duplicate in &mut out.duplicates {
        // `string_content` does not use the size.
        let Some(content) = heap.string_content(&Object { addr: duplicate.example, kind, size: 0 }) else { continue };
        duplicate.length = content.length;
        duplicate.value = content.beginning(limits::MAX_SHOWN_STRING);
        duplicate.cut = content.length as usize > limits::MAX_SHOWN_STRING;
    }
}

impl<'a> StringContent<'a> {
    /// Contents of a .NET string, from the addresses of its length (in UTF-16 units) and of its first unit. `space`:
    /// the heap's words, which are faster than `memory` for many strings.
    pub(crate) fn utf16(
        space: Option<&'a Space<'_>>,
        memory: &'a dyn Memory,
        length_at: Addr,
        first_unit: Addr,
    ) -> Option<StringContent<'a>> {
        let length = space.and_then(|space| space.u32(length_at.get()));
        let length = length.or_else(|| memory.u32(length_at).ok())?;
        let len = usize::try_from(length).ok()?.checked_mul(2)?;
        let bytes = space.and_then(|space| space.bytes(first_unit.get(), len));
        let bytes = bytes.or_else(|| memory.borrow(first_unit, len))?;
        Some(StringContent { length, bytes, units: StringUnits::Utf16, storage: None })
    }

    /// The first units as text, at most `limit` of them.
    pub fn beginning(&self, limit: usize) -> String {
        let units = (self.length as usize).min(limit);
        match self.units {
            StringUnits::Utf16 => {
                let units = self.bytes.as_chunks::<2>().0.iter().take(units).map(|c| u16::from_le_bytes(*c));
                char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            StringUnits::Latin1 => self.bytes.iter().take(units).map(|&b| char::from(b)).collect(),
        }
    }
}
