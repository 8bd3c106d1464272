//! Strings of the same content: what they waste.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::dotnet::heap::walk::Losses;
use crate::dotnet::heap::{Heap, Object, Part, Selection, Tally, TypeIndex, Walker, stride};
use crate::limits;
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

/// The type of strings, and where in one its length and its content are.
#[derive(Clone, Copy)]
struct Form {
    kind: TypeIndex,
    length: u64,
    first_char: u64,
}

type Shard = Mutex<HashMap<u64, Same>>;

impl Heap<'_> {
    /// Count strings by content. `strings`: how many there are, at least.
    pub fn strings(&self, selection: &Selection, strings: u64, progress: &Progress) -> StringStat {
        let mut out = StringStat::default();
        let Some(form) = self.form() else { return out };
        let parts: Vec<&Part> = self.parts().iter().filter(|p| selection.takes_part(p)).collect();
        let bytes = parts.iter().map(|p| p.range.len()).fold(0, u64::saturating_add);
        // Contents are divided by their hashes among so many passes that each
        // one's table has a bounded size, and the sums are exact.
        let passes = strings.div_ceil(limits::MAX_STRINGS_A_PASS).max(1);
        progress.start(bytes.saturating_mul(passes));
        let hasher = RandomState::new();
        for pass in 0..passes {
            let shards: Vec<Shard> = (0..SHARDS).map(|_| Mutex::default()).collect();
            let visit = |string: &Object| {
                let Some((length, content)) = self.content(form, string) else { return false };
                let hash = hasher.hash_one((length, content));
                if hash % passes == pass {
                    add(&shards, hash, length, string);
                }
                true
            };
            let (total, unreadable) = self.each_string(form.kind, &parts, selection, progress, visit);
            (out.total, out.unreadable) = (total, unreadable);
            self.keep_worst(form, shards, &mut out);
        }
        out
    }

    fn form(&self) -> Option<Form> {
        let layout = &self.types.runtime.layout;
        Some(Form {
            kind: self.tables.string()?,
            length: layout.positive("String", "m_StringLength").ok()?,
            first_char: layout.positive("String", "m_FirstChar").ok()?,
        })
    }

    /// Visit all strings in parallel; their sums, and how many of them `visit`
    /// could make nothing of.
    fn each_string(
        &self,
        kind: TypeIndex,
        parts: &[&Part],
        selection: &Selection,
        progress: &Progress,
        visit: impl Fn(&Object) -> bool + Sync,
    ) -> (Tally, u64) {
        let (min, max) = (selection.min.unwrap_or(0), selection.max.unwrap_or(u64::MAX));
        let of_part = |walker: &mut Walker<'_, '_>, part: &&Part| {
            let (mut total, mut failed) = (Tally::default(), 0_u64);
            walker.walk(part, &mut Losses::default(), |object| {
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
        parts.par_iter().map_init(|| self.walker(), of_part).reduce(Default::default, sum)
    }

    /// Length and bytes of a string.
    fn content(&self, form: Form, string: &Object) -> Option<(u32, &[u8])> {
        let memory = self.types.memory;
        let length = memory.u32(string.addr.checked_add(form.length)?).ok()?;
        let len = usize::try_from(length).ok()?.checked_mul(2)?;
        Some((length, memory.borrow(string.addr.checked_add(form.first_char)?, len)?))
    }

    fn keep_worst(&self, form: Form, shards: Vec<Shard>, out: &mut StringStat) {
        let wasted = |same: &Same| same.count.saturating_sub(1).saturating_mul(stride(same.size));
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
            let (value, cut) = self.beginning(form, same);
            Duplicate {
                count: same.count,
                length: same.length,
                wasted: wasted(same),
                example: Addr::new(same.example),
                value,
                cut,
            }
        }));
        out.duplicates.sort_by_key(|d| (std::cmp::Reverse(d.wasted), d.example));
        out.duplicates.truncate(limits::MAX_DUPLICATES);
    }

    fn beginning(&self, form: Form, same: &Same) -> (String, bool) {
        let units = (same.length as usize).min(limits::MAX_SHOWN_STRING);
        let at = Addr::new(same.example).saturating_add(form.first_char);
        let bytes = self.types.memory.bytes(at, units.saturating_mul(2)).unwrap_or_default();
        let units = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c));
        let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        (text, same.length as usize > limits::MAX_SHOWN_STRING)
    }
}

fn add(shards: &[Shard], hash: u64, length: u32, string: &Object) {
    let Some(shard) = shards.get((hash >> 58) as usize) else { return };
    let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
    let same = shard.entry(hash).or_insert(Same { count: 0, example: string.addr.get(), length, size: string.size });
    same.count = same.count.saturating_add(1);
    same.example = same.example.min(string.addr.get());
}
