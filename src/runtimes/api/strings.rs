//! Strings of the same content: what they waste.

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
    Heap, Losses, Object, Part, Selection, StringContent, StringUnits, Tally, TypeIndex, Walker,
};

/// Shards of what was found, by the first bits of hashes, so that threads seldom wait for each other, and each is sorted where
/// the caches have it.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;

/// Strings that are looked at together.
const BATCH: usize = 4096;

/// Batches that wait for a thread, for each thread there is: whoever walks and finds more looks at its own.
const WAITING: usize = 4;

/// A content that several strings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Strings that have it.
    pub count: u64,
    /// UTF-16 units of each.
    pub length: u32,
    /// Bytes that one string less each would take.
    pub wasted: u64,
    /// One of them: the lowest.
    pub example: Addr,
    /// Its beginning.
    pub value: String,
    /// Whether there is more of it.
    pub cut: bool,
}

/// What strings there are.
#[derive(Clone, Debug, Default)]
pub struct StringStat {
    /// All strings.
    pub total: Tally,
    /// Different contents.
    pub distinct: u64,
    /// Bytes that equal strings waste, all together.
    pub wasted: u64,
    /// Those that waste most, the worst first.
    pub duplicates: Vec<Duplicate>,
    /// Strings whose content is not in the core; they are in the total only.
    pub unreadable: u64,
}

/// A string: which content it has, and what that takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hashed {
    hash: u64,
    addr: u64,
    size: u64,
}

/// Strings by the first bits of their hashes.
struct Shards(Vec<Mutex<Vec<Hashed>>>);

impl Shards {
    /// With room for so many in all.
    fn new(count: u64) -> Shards {
        // Hashes spread evenly, but for a few.
        let each = count.div_ceil(SHARDS as u64);
        let each = usize::try_from(each.saturating_add(each / 16)).unwrap_or(0);
        Shards((0..SHARDS).map(|_| Mutex::new(Vec::with_capacity(each))).collect())
    }

    /// Add strings; they come out sorted.
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

/// Count the strings of `heap` by content. `count`: how many there are, at least.
pub fn strings(heap: &dyn Heap, selection: &Selection, count: u64, progress: &Progress) -> StringStat {
    let mut out = StringStat::default();
    let Some(kind) = heap.string_type() else { return out };
    let parts: Vec<&Part> = heap.parts().iter().filter(|p| selection.takes_part(p)).collect();
    let bytes = parts.iter().map(|p| p.range.len()).fold(0, u64::saturating_add);
    // Contents are divided by their hashes among so many passes that what each
    // one keeps has a bounded size, and the sums are exact.
    let passes = count.div_ceil(limits::MAX_STRINGS_A_PASS).max(1);
    progress.start(bytes.saturating_mul(passes));
    let hasher = RandomState::new();
    // What strings hold is found in no time then.
    let _ = heap.space();
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
                    found.push(Hashed { hash, addr: string.addr.get(), size: string.size });
                }
            }
            shards.add(&mut found);
            failed
        };
        let (total, unreadable) = each_batch(heap, kind, &parts, selection, progress, look);
        (out.total, out.unreadable) = (total, unreadable);
        keep_worst(heap, shards, &mut out);
    }
    tell_worst(heap, kind, &mut out);
    out
}

/// Look at all strings, some at a time; their sums, and how many of them `look` could make nothing of. A part is walked by one
/// thread, as each object tells where the next begins; what strings hold is looked at by all.
fn each_batch(
    heap: &dyn Heap,
    kind: TypeIndex,
    parts: &[&Part],
    selection: &Selection,
    progress: &Progress,
    look: impl Fn(&[Object]) -> u64 + Sync,
) -> (Tally, u64) {
    let (min, max) = (selection.min.unwrap_or(0), selection.max.unwrap_or(u64::MAX));
    let most = WAITING * rayon::current_num_threads();
    let (waiting, failed) = (&AtomicUsize::new(0), &AtomicU64::new(0));
    let look = &|batch: &[Object]| {
        failed.fetch_add(look(batch), Ordering::Relaxed);
    };
    let total = rayon::scope(|scope| {
        let send = |batch: &mut Vec<Object>| {
            if waiting.load(Ordering::Relaxed) >= most {
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
        let of_part = |(walker, batch): &mut (Box<dyn Walker + '_>, Vec<Object>), part: &&Part| {
            let mut total = Tally::default();
            walker.walk(part, &mut Losses::default(), &mut |object| {
                if object.kind != kind || object.size < min || object.size > max {
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
            progress.add(part.range.len());
            total
        };
        parts.par_iter().map_init(fresh, of_part).reduce(Tally::default, Tally::plus)
    });
    (total, failed.load(Ordering::Relaxed))
}

/// Bytes that strings of one content waste: all but one of so many, each of that size.
fn wasted(heap: &dyn Heap, count: u64, size: u64) -> u64 {
    let room = size.checked_next_multiple_of(heap.alignment()).unwrap_or(u64::MAX);
    count.saturating_sub(1).saturating_mul(room)
}

/// Add what was found to `out`; of the contents that several have, the worst, without what they are.
fn keep_worst(heap: &dyn Heap, shards: Shards, out: &mut StringStat) {
    let of_shard = |shard: Mutex<Vec<Hashed>>| {
        let mut shard = shard.into_inner().unwrap_or_else(PoisonError::into_inner);
        shard.sort_unstable();
        let mut stat = StringStat::default();
        for same in shard.chunk_by(|a, b| a.hash == b.hash) {
            stat.distinct += 1;
            let [first, _, ..] = same else { continue };
            let (count, example) = (same.len() as u64, Addr::new(first.addr));
            let wasted = wasted(heap, count, first.size);
            stat.wasted = stat.wasted.saturating_add(wasted);
            stat.duplicates.push(Duplicate { count, length: 0, wasted, example, value: String::new(), cut: false });
            if stat.duplicates.len() >= 2 * limits::MAX_DUPLICATES {
                only_worst(&mut stat.duplicates);
            }
        }
        stat
    };
    let found: Vec<StringStat> = shards.0.into_par_iter().map(of_shard).collect();
    for stat in found {
        out.distinct = out.distinct.saturating_add(stat.distinct);
        out.wasted = out.wasted.saturating_add(stat.wasted);
        out.duplicates.extend(stat.duplicates);
        only_worst(&mut out.duplicates);
    }
}

fn only_worst(duplicates: &mut Vec<Duplicate>) {
    duplicates.sort_unstable_by_key(|d| (std::cmp::Reverse(d.wasted), d.example));
    duplicates.truncate(limits::MAX_DUPLICATES);
}

/// What each of the worst is.
fn tell_worst(heap: &dyn Heap, kind: TypeIndex, out: &mut StringStat) {
    for duplicate in &mut out.duplicates {
        // Its size is not asked for to find what it holds.
        let Some(content) = heap.string_content(&Object { addr: duplicate.example, kind, size: 0 }) else { continue };
        duplicate.length = content.length;
        duplicate.value = content.beginning(limits::MAX_SHOWN_STRING);
        duplicate.cut = content.length as usize > limits::MAX_SHOWN_STRING;
    }
}

impl<'a> StringContent<'a> {
    /// What a string of .NET holds, whose length in units of UTF-16 and first unit stand at these places. `space`: the heap's words, which
    /// whoever asks for many has at hand.
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
        Some(StringContent { length, bytes, units: StringUnits::Utf16 })
    }

    /// Its first units as text, at most `most` of them.
    pub fn beginning(&self, most: usize) -> String {
        let units = (self.length as usize).min(most);
        match self.units {
            StringUnits::Utf16 => {
                let units = self.bytes.as_chunks::<2>().0.iter().take(units).map(|c| u16::from_le_bytes(*c));
                char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            StringUnits::Latin1 => self.bytes.iter().take(units).map(|&b| char::from(b)).collect(),
            StringUnits::Utf8 => String::from_utf8_lossy(self.bytes.get(..units).unwrap_or(self.bytes)).into_owned(),
        }
    }
}
