//! Strings of the same content: what they waste.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::managed::{Heap, Losses, Object, Part, Selection, StringContent, StringUnits, Tally, TypeIndex, Walker};
use crate::progress::Progress;

/// Shards of the counts, so that threads seldom wait for each other.
const SHARDS: usize = 64;

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

/// Strings of one content.
#[derive(Clone, Copy)]
struct Same {
    count: u64,
    example: u64,
    length: u32,
    /// Of one.
    size: u64,
}

type Shard = Mutex<HashMap<u64, Same>>;

/// Count the strings of `heap` by content. `count`: how many there are, at least.
pub fn strings(heap: &dyn Heap, selection: &Selection, count: u64, progress: &Progress) -> StringStat {
    let mut out = StringStat::default();
    let Some(kind) = heap.string_type() else { return out };
    let parts: Vec<&Part> = heap.parts().iter().filter(|p| selection.takes_part(p)).collect();
    let bytes = parts.iter().map(|p| p.range.len()).fold(0, u64::saturating_add);
    // Contents are divided by their hashes among so many passes that each
    // one's table has a bounded size, and the sums are exact.
    let passes = count.div_ceil(limits::MAX_STRINGS_A_PASS).max(1);
    progress.start(bytes.saturating_mul(passes));
    let hasher = RandomState::new();
    for pass in 0..passes {
        let shards: Vec<Shard> = (0..SHARDS).map(|_| Mutex::default()).collect();
        let visit = |string: &Object| {
            let Some(content) = heap.string_content(string) else { return false };
            let hash = hasher.hash_one((content.length, content.bytes));
            if hash % passes == pass {
                add(&shards, hash, content.length, string);
            }
            true
        };
        let (total, unreadable) = each_string(heap, kind, &parts, selection, progress, visit);
        (out.total, out.unreadable) = (total, unreadable);
        keep_worst(heap, kind, shards, &mut out);
    }
    out
}

/// Visit all strings in parallel; their sums, and how many of them `visit`
/// could make nothing of.
fn each_string(
    heap: &dyn Heap,
    kind: TypeIndex,
    parts: &[&Part],
    selection: &Selection,
    progress: &Progress,
    visit: impl Fn(&Object) -> bool + Sync,
) -> (Tally, u64) {
    let (min, max) = (selection.min.unwrap_or(0), selection.max.unwrap_or(u64::MAX));
    let of_part = |walker: &mut Box<dyn Walker + '_>, part: &&Part| {
        let (mut total, mut failed) = (Tally::default(), 0_u64);
        walker.walk(part, &mut Losses::default(), &mut |object| {
            if object.kind != kind || object.size < min || object.size > max {
                return;
            }
            total = total.plus(Tally { count: 1, size: object.size });
            if !visit(object) {
                failed = failed.saturating_add(1);
            }
        });
        progress.add(part.range.len());
        (total, failed)
    };
    let sum = |a: (Tally, u64), b: (Tally, u64)| (a.0.plus(b.0), a.1.saturating_add(b.1));
    parts.par_iter().map_init(|| heap.walker(), of_part).reduce(Default::default, sum)
}

fn keep_worst(heap: &dyn Heap, kind: TypeIndex, shards: Vec<Shard>, out: &mut StringStat) {
    let room = |size: u64| size.checked_next_multiple_of(heap.alignment()).unwrap_or(u64::MAX);
    let wasted = |same: &Same| same.count.saturating_sub(1).saturating_mul(room(same.size));
    let mut worst: Vec<Same> = Vec::new();
    for shard in shards {
        let shard = shard.into_inner().unwrap_or_else(PoisonError::into_inner);
        out.distinct = out.distinct.saturating_add(shard.len() as u64);
        for same in shard.into_values().filter(|s| s.count > 1) {
            out.wasted = out.wasted.saturating_add(wasted(&same));
            worst.push(same);
        }
        worst.sort_by_key(|s| (std::cmp::Reverse(wasted(s)), s.example));
        worst.truncate(limits::MAX_DUPLICATES);
    }
    out.duplicates.extend(worst.iter().map(|same| {
        let example = Addr::new(same.example);
        let content = heap.string_content(&Object { addr: example, kind, size: same.size });
        Duplicate {
            count: same.count,
            length: same.length,
            wasted: wasted(same),
            example,
            value: content.map(|content| content.beginning(limits::MAX_SHOWN_STRING)).unwrap_or_default(),
            cut: same.length as usize > limits::MAX_SHOWN_STRING,
        }
    }));
    out.duplicates.sort_by_key(|d| (std::cmp::Reverse(d.wasted), d.example));
    out.duplicates.truncate(limits::MAX_DUPLICATES);
}

impl StringContent<'_> {
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

fn add(shards: &[Shard], hash: u64, length: u32, string: &Object) {
    let Some(shard) = shards.get((hash >> 58) as usize) else { return };
    let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
    let same = shard.entry(hash).or_insert(Same { count: 0, example: string.addr.get(), length, size: string.size });
    same.count = same.count.saturating_add(1);
    same.example = same.example.min(string.addr.get());
}
