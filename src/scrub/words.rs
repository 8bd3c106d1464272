//! Words: what becomes of each.

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::native::unwind::code::follows_call;
use crate::scrub::letters::{Reads, is_printable, is_readable, reads};
use crate::scrub::page::{Page, Word};
use crate::scrub::plan::Use;
use crate::scrub::{By, Counts, Kept, Plan, Rule, fill};

/// `size_t`.
const WORD: u64 = 8;

/// Addresses below this can be read as a text of a few letters.
const LOW: u64 = 1 << 40;

/// Bytes before a run in which a text may have begun that goes on in it.
const LOOK_BACK: u64 = 64 * WORD;

/// What the word before was.
#[derive(Clone, Copy, Default)]
struct Before {
    /// A text among what was read as a structure, that nobody named.
    unnamed: bool,
    /// Text, on a stack.
    after_text: bool,
}

impl Plan<'_> {
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
        let after = self.parts.partition_point(|part| part.range.start <= place);
        let target = after.checked_sub(1).and_then(|i| self.parts.get(i)).map(|part| part.used);
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

    /// Whether a word is an address of mapped memory.
    pub(super) fn leads_somewhere(&self, value: u64) -> bool {
        let after = self.mapped.partition_point(|&(start, _)| start <= value);
        after.checked_sub(1).and_then(|i| self.mapped.get(i)).is_some_and(|&(_, end)| value < end)
    }
}

/// A run of memory that is overwritten.
pub(super) struct Run<'a, 'p> {
    plan: &'a Plan<'p>,
    start: Addr,
    /// Which bytes are characters of strings: for each word one byte, the lowest bit the first.
    pub(super) texts: Vec<u8>,
    /// Which bytes stayed.
    pub(super) kept: Vec<u8>,
    /// Why, for each word.
    pub(super) why: Vec<Kept>,
    page: Page,
}

/// Where a word is.
#[derive(Clone, Copy)]
struct Place {
    at: Addr,
    used: Use,
    /// Its bytes that are characters of strings.
    texts: u8,
}

impl<'a, 'p> Run<'a, 'p> {
    /// A run of memory from `start` on, with what of it are characters.
    pub(super) fn new(plan: &'a Plan<'p>, start: Addr, texts: Vec<u8>) -> Run<'a, 'p> {
        let words = texts.len();
        Run { plan, start, texts, kept: vec![0; words], why: vec![Kept::Zero; words], page: Page::none() }
    }

    /// Overwrite a part of it, whose words are all of one use.
    pub(super) fn overwrite(&mut self, bytes: &mut [u8], part: AddrRange, used: Use, counts: &mut Counts) {
        let from = part.start.since(self.start) as usize;
        let Some(bytes) = bytes.get_mut(from..from + part.len() as usize) else { return };
        let (words, rest) = bytes.as_chunks_mut::<8>();
        let mut before = self.before(part.start, used);
        for (i, word) in words.iter_mut().enumerate() {
            if *word == [0; 8] {
                before = Before::default();
                counts.count(By::Kept(Kept::Zero), WORD);
                continue;
            }
            let at = part.start.saturating_add(WORD * i as u64);
            let texts = self.texts.get(from / 8 + i).copied().unwrap_or_default();
            let (kept, why) = self.word(word, Place { at, used, texts }, &mut before, counts);
            if let (Some(to), Some(because)) = (self.kept.get_mut(from / 8 + i), self.why.get_mut(from / 8 + i)) {
                (*to, *because) = (kept, why);
            }
        }
        // A core cut within a word.
        counts.count(By::Rule(used.rule()), rest.len() as u64);
        rest.fill(0);
    }

    /// What the words before `at` were, where a text may have begun that goes on: a run begins anywhere.
    fn before(&mut self, at: Addr, used: Use) -> Before {
        let mut before = Before::default();
        if !matches!(used, Use::Blocks | Use::Stack | Use::Data) {
            return before;
        }
        let memory = &self.plan.process.memory;
        let first = self.plan.parts.partition_point(|part| part.range.end <= at);
        let start = self.plan.parts.get(first).map_or(at, |part| part.range.start);
        let start = start.max(at.saturating_sub(LOOK_BACK)).min(at);
        let Ok(bytes) = memory.look(start, at.since(start) as usize) else { return before };
        let mut counts = Counts::default();
        for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let at = start.saturating_add(WORD * i as u64);
            self.word(&mut word.clone(), Place { at, used, texts: 0 }, &mut before, &mut counts);
        }
        before
    }

    /// What is known of a word.
    fn known(&mut self, Place { at, used, .. }: Place) -> Word {
        if !self.page.is_of(at, used) {
            self.page = Page::of(self.plan, at, used);
        }
        self.page.word(at)
    }

    /// Overwrite a word; which bytes of it stay, and why.
    fn word(&mut self, word: &mut [u8; 8], place: Place, before: &mut Before, counts: &mut Counts) -> (u8, Kept) {
        let value = u64::from_le_bytes(*word);
        if value == 0 {
            *before = Before::default();
            counts.count(By::Kept(Kept::Zero), WORD);
            return (0, Kept::Zero);
        }
        let Place { at, used, texts } = place;
        let known = self.known(place);
        let plan = self.plan;
        let guard = plan.has(Rule::Guards) && (plan.guard_values.binary_search(&value).is_ok() || plan.is_guard(at));
        let mut keep = if guard { 0 } else { known.keep & !texts };
        let why = if keep & known.found != 0 { Kept::Found } else { used.kept() };
        let is_value = known.values != 0;
        let leads = !guard && !is_value && texts == 0 && used != Use::Dead && plan.leads_somewhere(value);
        if leads
            && used != Use::Image
            && keep != u8::MAX
            && plan.has(Rule::Alike)
            && let Some(other) = plan.objects.alike.get(&value)
        {
            *word = other.to_le_bytes();
            let by = if *other == value { By::Kept(Kept::Pointers) } else { By::Rule(Rule::Alike) };
            counts.count(by, WORD);
            return (u8::MAX, Kept::Pointers);
        }
        let is_number = leads && plan.has(Rule::Numbers) && plan.objects.is_number(used, value);
        let pointer = leads && !is_number;
        // What was read as a structure and reads as text was no structure, but for the names.
        let unnamed = keep & !known.sure;
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
        let is_unnamed = before.unnamed;
        if is_unnamed {
            keep &= !unnamed;
        }
        let after_text = before.after_text;
        before.after_text = used == Use::Stack && reads(*word, u8::MAX) == Reads::Text;
        let is_readable = pointer && keep != u8::MAX && plan.is_text_for_all_we_know(*word, used, after_text);
        if pointer && keep != u8::MAX && !is_readable {
            counts.count(By::Kept(Kept::Pointers), WORD);
            return (u8::MAX, Kept::Pointers);
        }
        counts.count(By::Rule(Rule::Texts), u64::from(texts.count_ones()));
        counts.count(By::Kept(why), u64::from(keep.count_ones()));
        let rest = u64::from((!(keep | texts)).count_ones());
        let rule = [
            (guard, Rule::Guards),
            (is_value, Rule::Values),
            (is_number, Rule::Numbers),
            (is_readable, Rule::Readable),
            (is_unnamed, Rule::UnnamedTexts),
        ];
        let rule = rule.into_iter().find(|(is_so, _)| *is_so).map_or(used.rule(), |(_, rule)| rule);
        let by = if fill::word(word, keep | texts) { By::Rule(rule) } else { By::Kept(Kept::Zero) };
        counts.count(by, rest);
        (keep, why)
    }
}
