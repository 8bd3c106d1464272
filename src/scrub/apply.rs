//! A run of memory, overwritten.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::native::unwind::code::follows_call;
use crate::scrub::fill;
use crate::scrub::left::LeftTexts;
use crate::scrub::names::Pass;
use crate::scrub::plan::Use;
use crate::scrub::{Plan, Rule};

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
    /// Bytes of names of the program's own, overwritten by others where this was asked for.
    pub names: u64,
    /// Overwritten.
    pub overwritten: u64,
}

impl Counts {
    /// Count these too.
    pub fn add(&mut self, more: &Counts) {
        let Counts { zero, pointers, structures, strings, names, overwritten } = more;
        self.zero += zero;
        self.pointers += pointers;
        self.structures += structures;
        self.strings += strings;
        self.names += names;
        self.overwritten += overwritten;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        [self.zero, self.pointers, self.structures, self.strings, self.names, self.overwritten].iter().sum()
    }
}

/// `size_t`.
const WORD: u64 = 8;

/// Addresses below this can be read as a text of a few letters.
const LOW: u64 = 1 << 40;

/// Characters in a row, in a word that was read as a structure, that make it a text: fewer come by chance.
const LETTERS: usize = 6;

/// The same for characters of two bytes.
const WIDE_LETTERS: usize = 3;

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Whether a word is the end of a text: some letters, and zeros.
fn is_readable(word: [u8; 8]) -> bool {
    let letters = word.iter().take_while(|b| is_printable(**b)).count();
    let narrow = letters > 1 && word.iter().skip(letters).all(|&b| b == 0);
    let wide = word.as_chunks::<2>().0.iter().take_while(|unit| is_printable(unit[0]) && unit[1] == 0).count();
    narrow || wide > 1 && word.iter().skip(2 * wide).all(|&b| b == 0)
}

/// What a word is in a text, as far as the word alone tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// It is text.
    Text,
    /// It begins like one: the end of the text before it, if there is one.
    End,
    /// Something else.
    Other,
}

/// What the word before was.
#[derive(Clone, Copy, Default)]
struct Before {
    /// A text among what was read as a structure, that nobody named.
    unnamed: bool,
    /// Text, on a stack.
    after_text: bool,
}

/// How a word reads of which the bytes of `mask` are asked for.
fn reads(word: [u8; 8], mask: u8) -> Reads {
    let asked = |i: usize| mask >> i & 1 != 0;
    let letter = |i: usize| asked(i) && word.get(i).copied().is_some_and(is_printable);
    let (mut row, mut most) = (0, 0);
    for i in 0..8 {
        row = if letter(i) { row + 1 } else { 0 };
        most = most.max(row);
    }
    let wide = |i: &usize| letter(2 * i) && word.get(2 * i + 1) == Some(&0);
    if most >= LETTERS || (0..4).filter(wide).count() >= WIDE_LETTERS {
        Reads::Text
    } else if letter(0) {
        Reads::End
    } else {
        Reads::Other
    }
}

impl Plan<'_> {
    /// Overwrite `bytes`, which are those from `start` on (a multiple of 8), and count what becomes of them.
    ///
    /// `left`: where texts go that are left, if they are asked for.
    pub fn apply(&self, start: Addr, bytes: &mut [u8], counts: &mut Counts, left: Option<&mut LeftTexts>) {
        let range = AddrRange::sized(start, bytes.len() as u64);
        let before = self.names.as_ref().map(|_| bytes.to_vec());
        let texts = self.texts(range, bytes);
        let kept = if left.is_some() { vec![0; texts.len()] } else { Vec::new() };
        let mut run = Run { plan: self, start, texts, kept };
        let mut at = start;
        let first = self.uses.partition_point(|(used, _)| used.end <= start);
        for &(of, used) in self.uses.iter().skip(first).take_while(|(of, _)| of.start < range.end) {
            let Some(part) = of.intersect(&range) else { continue };
            run.overwrite(bytes, AddrRange::new(at, part.start), Use::Data, counts);
            run.overwrite(bytes, part, used, counts);
            at = part.end;
        }
        run.overwrite(bytes, AddrRange::new(at, range.end), Use::Data, counts);
        if let Some((names, before)) = self.names.as_ref().zip(before) {
            let memory = &self.process.memory;
            let mut pass = Pass { memory, start, before: &before, bytes, texts: &run.texts, done: 0 };
            names.apply(&mut pass);
            let done = pass.done.min(counts.structures);
            counts.names += done;
            counts.structures -= done;
        }
        if let Some(left) = left {
            left.look(start, bytes, &run.kept);
        }
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
            if self.has(Rule::Texts) {
                self.fill.text(&mut whole, usize::from(width));
            }
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

    /// Whether a word that may be text leads to where only text leads: into a program file, or data without a form. Programs that
    /// are loaded below 2^40 (those that are not position-independent, and what maps itself low) have addresses of two to four
    /// letters.
    ///
    /// On a stack most are return addresses. `after_text`: whether the word before was text, of which this is the end.
    fn is_text_for_all_we_know(&self, word: [u8; 8], used: Use, after_text: bool) -> bool {
        if !self.has(Rule::Readable) {
            return false;
        }
        let value = u64::from_le_bytes(word);
        // A text that ends within an address of former times: its last letters and a NUL, and what it left of the address.
        let letters = word.iter().take_while(|b| is_printable(**b)).count();
        let ends = (1..=3).contains(&letters) && word.get(letters) == Some(&0);
        if ends && value >= LOW && matches!(used, Use::Blocks | Use::Data | Use::Stack) {
            // One return address in some hundreds reads so, and n8-mixed has one that no answer reads by itself.
            let is_code = || used == Use::Stack && self.is_return_address(Addr::new(value));
            return !Addr::new(value).is_aligned(WORD) && !is_code();
        }
        if value >= LOW || !is_readable(word) {
            return false;
        }
        let place = Addr::new(value);
        let after = self.uses.partition_point(|(range, _)| range.start <= place);
        let target = after.checked_sub(1).and_then(|i| self.uses.get(i)).map(|(_, used)| *used);
        match target {
            Some(Use::Blocks | Use::Objects) => !place.is_aligned(WORD),
            Some(Use::Image) if used == Use::Stack && !after_text => !self.is_return_address(place),
            _ => true,
        }
    }

    /// Whether the instruction before this one is a call, as far as the code can be read.
    fn is_return_address(&self, at: Addr) -> bool {
        follows_call(&self.process.memory, self.process.arch(), at) != Some(false)
    }

    /// Whether a word of memory of this use is taken for an address.
    pub(super) fn is_address(&self, used: Use, value: u64) -> bool {
        self.leads_somewhere(value) && !(self.has(Rule::Numbers) && self.objects.is_number(used, value))
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
    /// Which bytes stayed, where that is asked for; else empty.
    kept: Vec<u8>,
}

impl Run<'_, '_> {
    fn overwrite(&mut self, bytes: &mut [u8], part: AddrRange, used: Use, counts: &mut Counts) {
        let from = part.start.since(self.start) as usize;
        let Some(bytes) = bytes.get_mut(from..from + part.len() as usize) else { return };
        let (words, rest) = bytes.as_chunks_mut::<8>();
        let mut at = part.start;
        let mut before = Before::default();
        for (i, word) in words.iter_mut().enumerate() {
            let texts = self.texts.get(from / 8 + i).copied().unwrap_or_default();
            let stayed = self.word(word, (at, used, texts), &mut before, counts);
            if let Some(kept) = self.kept.get_mut(from / 8 + i) {
                *kept = stayed;
            }
            at = at.saturating_add(WORD);
        }
        // A core cut within a word.
        counts.overwritten += rest.len() as u64;
        rest.fill(0);
    }

    /// Overwrite a word; which bytes of it stay.
    fn word(
        &self,
        word: &mut [u8; 8],
        (at, used, texts): (Addr, Use, u8),
        before: &mut Before,
        counts: &mut Counts,
    ) -> u8 {
        let value = u64::from_le_bytes(*word);
        if value == 0 {
            *before = Before::default();
            counts.zero += WORD;
            return 0;
        }
        let plan = self.plan;
        let guard = plan.has(Rule::Guards) && (plan.guard_values.binary_search(&value).is_ok() || plan.is_guard(at));
        let mut keep = if guard { 0 } else { plan.keeps(used, at) & !texts };
        let is_value = plan.values(at) != 0;
        let untold = !guard && !is_value && texts == 0 && keep != u8::MAX;
        if !matches!(used, Use::Image | Use::Dead)
            && untold
            && plan.has(Rule::Alike)
            && let Some(other) = plan.objects.alike.get(&value)
        {
            *word = other.to_le_bytes();
            counts.pointers += WORD;
            return u8::MAX;
        }
        let pointer = !guard && !is_value && texts == 0 && used != Use::Dead && plan.is_address(used, value);
        // What was read as a structure and reads as text was no structure, but for the names.
        let unnamed = keep & !(plan.read.kept.word(at) | plan.blocks.word(at) | plan.objects.own.word(at));
        let is_watched = plan.has(Rule::UnnamedTexts)
            && matches!(used, Use::Blocks | Use::Stack | Use::Data)
            && unnamed != 0
            && !pointer;
        before.unnamed = is_watched
            && match reads(*word, unnamed) {
                Reads::Text => true,
                Reads::End => before.unnamed,
                Reads::Other => false,
            };
        if before.unnamed {
            keep &= !unnamed;
        }
        let after_text = before.after_text;
        before.after_text = used == Use::Stack && reads(*word, u8::MAX) == Reads::Text;
        if pointer && keep != u8::MAX && !plan.is_text_for_all_we_know(*word, used, after_text) {
            counts.pointers += WORD;
            return u8::MAX;
        }
        counts.strings += u64::from(texts.count_ones());
        counts.structures += u64::from(keep.count_ones());
        let rest = u64::from((!(keep | texts)).count_ones());
        match fill::word(word, keep | texts) {
            true => counts.overwritten += rest,
            false => counts.zero += rest,
        }
        keep
    }
}
