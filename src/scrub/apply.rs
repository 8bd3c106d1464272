//! A run of memory, overwritten.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::scrub::Plan;
use crate::scrub::fill;
use crate::scrub::plan::Use;

/// Bytes of memory by what became of them; together all that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Zero before and after.
    pub zero: u64,
    /// Words that lead into mapped memory, kept.
    pub pointers: u64,
    /// Kept as structures: what answers read of program files, runtimes, malloc and objects' heads.
    pub structures: u64,
    /// Characters of strings, overwritten so that equal ones stay equal.
    pub strings: u64,
    /// Overwritten.
    pub overwritten: u64,
}

impl Counts {
    /// Count these too.
    pub fn add(&mut self, more: &Counts) {
        let Counts { zero, pointers, structures, strings, overwritten } = more;
        self.zero += zero;
        self.pointers += pointers;
        self.structures += structures;
        self.strings += strings;
        self.overwritten += overwritten;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        [self.zero, self.pointers, self.structures, self.strings, self.overwritten].iter().sum()
    }
}

/// `size_t`.
const WORD: u64 = 8;

impl Plan<'_> {
    /// Overwrite `bytes`, which are those from `start` on (a multiple of 8), and count what becomes of them.
    pub fn apply(&self, start: Addr, bytes: &mut [u8], counts: &mut Counts) {
        let range = AddrRange::sized(start, bytes.len() as u64);
        let texts = self.texts(range, bytes);
        let run = Run { plan: self, start, texts };
        let mut at = start;
        let first = self.uses.partition_point(|(used, _)| used.end <= start);
        for &(of, used) in self.uses.iter().skip(first).take_while(|(of, _)| of.start < range.end) {
            let Some(part) = of.intersect(&range) else { continue };
            run.overwrite(bytes, AddrRange::new(at, part.start), Use::Data, counts);
            run.overwrite(bytes, part, used, counts);
            at = part.end;
        }
        run.overwrite(bytes, AddrRange::new(at, range.end), Use::Data, counts);
    }

    /// Overwrite the characters of strings in `range`; which bytes these are: for each word one byte, the lowest bit the first.
    fn texts(&self, range: AddrRange, bytes: &mut [u8]) -> Vec<u8> {
        let mut mask = vec![0u8; bytes.len().div_ceil(8)];
        let first = self.objects.texts.partition_point(|(text, _)| text.end <= range.start);
        let texts = self.objects.texts.iter().skip(first).take_while(|(text, _)| text.start < range.end);
        for &(text, width) in texts {
            let Some(part) = text.intersect(&range) else { continue };
            // All of it, as the whole decides what each unit becomes; what can't be read is no text.
            let Ok(mut whole) = self.process.memory.bytes(text.start, text.len() as usize) else { continue };
            self.fill.text(&mut whole, usize::from(width));
            let from = part.start.since(range.start) as usize;
            let skip = part.start.since(text.start) as usize;
            let to = bytes.get_mut(from..).unwrap_or_default().iter_mut();
            for (i, (to, new)) in to.zip(whole.iter().skip(skip)).take(part.len() as usize).enumerate() {
                *to = *new;
                if let Some(bits) = mask.get_mut((from + i) / 8) {
                    *bits |= 1 << ((from + i) % 8);
                }
            }
        }
        mask
    }

    /// Whether the word at `at` is one of those that protect stacks and pointers.
    fn is_guard(&self, at: Addr) -> bool {
        let first = self.guards.partition_point(|guard| guard.end <= at);
        self.guards.get(first).is_some_and(|guard| guard.contains(at))
    }

    /// Whether a word is an address of mapped memory.
    pub(super) fn leads_somewhere(&self, value: u64) -> bool {
        let after = self.mapped.partition_point(|&(start, _)| start <= value);
        after.checked_sub(1).and_then(|i| self.mapped.get(i)).is_some_and(|&(_, end)| value < end)
    }
}

/// A run of memory that is overwritten.
struct Run<'a, 'p> {
    plan: &'a Plan<'p>,
    start: Addr,
    /// Which bytes are characters of strings.
    texts: Vec<u8>,
}

impl Run<'_, '_> {
    fn overwrite(&self, bytes: &mut [u8], part: AddrRange, used: Use, counts: &mut Counts) {
        let from = part.start.since(self.start) as usize;
        let Some(bytes) = bytes.get_mut(from..from + part.len() as usize) else { return };
        let (words, rest) = bytes.as_chunks_mut::<8>();
        let mut at = part.start;
        for (word, texts) in words.iter_mut().zip(self.texts.iter().skip(from / 8)) {
            self.word(word, (at, used, *texts), counts);
            at = at.saturating_add(WORD);
        }
        // A core cut within a word.
        counts.overwritten += rest.len() as u64;
        rest.fill(0);
    }

    fn word(&self, word: &mut [u8; 8], (at, used, texts): (Addr, Use, u8), counts: &mut Counts) {
        let value = u64::from_le_bytes(*word);
        if value == 0 {
            counts.zero += WORD;
            return;
        }
        let guard = self.plan.is_guard(at);
        let is_value = self.plan.objects.values.word(at) & !self.plan.objects.own.word(at) != 0;
        let keep = if guard { 0 } else { self.plan.keeps(used, at) & !texts };
        if !matches!(used, Use::Image | Use::Dead)
            && !guard
            && !is_value
            && texts == 0
            && keep != u8::MAX
            && let Some(other) = self.plan.objects.alike.get(&value)
        {
            *word = other.to_le_bytes();
            counts.pointers += WORD;
            return;
        }
        if !guard && !is_value && texts == 0 && keep != u8::MAX && used != Use::Dead && self.plan.leads_somewhere(value)
        {
            counts.pointers += WORD;
            return;
        }
        counts.strings += u64::from(texts.count_ones());
        counts.structures += u64::from(keep.count_ones());
        let rest = u64::from((!(keep | texts)).count_ones());
        match fill::word(word, keep | texts) {
            true => counts.overwritten += rest,
            false => counts.zero += rest,
        }
    }
}
