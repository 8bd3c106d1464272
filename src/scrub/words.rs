//! Overwrites words.

use crate::addr::{Addr, AddrRange, WORD};
use crate::memory::Memory;
use crate::scrub::heaps::RunMasks;
use crate::scrub::letters::{Reads, reads};
use crate::scrub::page::{Page, WordMasks};
use crate::scrub::plan::Use;
use crate::scrub::{By, Counts, Kept, Plan, Rule, fill, stacks};

/// Bytes before a run in which a text that continues into it may have begun.
pub(super) const LOOK_BACK: u64 = 64 * WORD;

/// State of the previous word.
#[derive(Clone, Copy, Default)]
struct PrevWord {
    /// Whether it is text within a structure that no reader declared a name.
    unnamed: bool,
    /// Whether it is text on a stack.
    after_text: bool,
}

impl Plan<'_> {
    /// Returns the replacement for the word at `at` if a guard is stored there, whatever its value.
    fn guard_at(&self, at: Addr) -> Option<u64> {
        let first = self.guards.partition_point(|guard| guard.end <= at);
        let guard = self.guards.get(first).filter(|guard| guard.contains(at))?;
        stacks::REPLACEMENTS.get((at.since(guard.start) / WORD) as usize).copied()
    }
}

/// A run of memory that is overwritten.
pub(super) struct Run<'a, 'p> {
    plan: &'a Plan<'p>,
    start: Addr,
    /// Masks of the objects in it.
    masks: RunMasks,
    /// Mask of strings' characters: one byte per word, the lowest bit for the first byte.
    pub(super) texts: Vec<u8>,
    /// Mask of the preserved bytes.
    pub(super) kept: Vec<u8>,
    /// Reason for each word.
    pub(super) why: Vec<Kept>,
    page: Page,
}

/// Location of a word.
#[derive(Clone, Copy)]
struct WordContext {
    at: Addr,
    used: Use,
    /// Its bytes that are characters of strings.
    texts: u8,
}

impl<'a, 'p> Run<'a, 'p> {
    /// Creates a run that starts at `start`, with the masks of its objects and characters.
    pub(super) fn new(plan: &'a Plan<'p>, start: Addr, masks: RunMasks, texts: Vec<u8>) -> Run<'a, 'p> {
        let words = texts.len();
        Run { plan, start, masks, texts, kept: vec![0; words], why: vec![Kept::Zero; words], page: Page::none() }
    }

    /// Overwrites a part of the run in which all words have the same use.
    pub(super) fn overwrite(&mut self, bytes: &mut [u8], part: AddrRange, used: Use, counts: &mut Counts) {
        let from = part.start.since(self.start) as usize;
        let Some(bytes) = bytes.get_mut(from..from + part.len() as usize) else { return };
        let (words, rest) = bytes.as_chunks_mut::<8>();
        let mut before = self.prev_word(part.start, used);
        for (i, word) in words.iter_mut().enumerate() {
            if *word == [0; 8] {
                before = PrevWord::default();
                counts.count(By::Kept(Kept::Zero), WORD);
                continue;
            }
            let at = part.start.saturating_add(WORD * i as u64);
            let texts = self.texts.get(from / 8 + i).copied().unwrap_or_default();
            let (kept, why) = self.word(word, WordContext { at, used, texts }, &mut before, counts);
            if let (Some(to), Some(because)) = (self.kept.get_mut(from / 8 + i), self.why.get_mut(from / 8 + i)) {
                (*to, *because) = (kept, why);
            }
        }
        // The core is cut within a word.
        counts.count(By::Rule(Rule::of(used)), rest.len() as u64);
        rest.fill(0);
    }

    /// Returns the state of the word before `at`. A text may have begun before the run, which can start anywhere.
    fn prev_word(&mut self, at: Addr, used: Use) -> PrevWord {
        let mut before = PrevWord::default();
        if !matches!(used, Use::Blocks | Use::Stack | Use::Data) {
            return before;
        }
        let memory = &self.plan.process.memory;
        let start = self.plan.part(at).map_or(at, |part| part.range.start);
        let start = start.max(at.saturating_sub(LOOK_BACK)).min(at);
        let Ok(bytes) = memory.look(start, at.since(start) as usize) else { return before };
        let mut counts = Counts::default();
        for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let at = start.saturating_add(WORD * i as u64);
            self.word(&mut word.clone(), WordContext { at, used, texts: 0 }, &mut before, &mut counts);
        }
        before
    }

    /// Returns the masks of a word.
    fn masks(&mut self, WordContext { at, used, .. }: WordContext) -> WordMasks {
        if !self.page.is_of(at, used) {
            self.page = Page::of(self.plan, at, used, &self.masks);
        }
        self.page.word(at)
    }

    /// Overwrites a word. Returns the mask of the bytes that stay, and the reason.
    fn word(
        &mut self,
        word: &mut [u8; 8],
        context: WordContext,
        before: &mut PrevWord,
        counts: &mut Counts,
    ) -> (u8, Kept) {
        let value = u64::from_le_bytes(*word);
        if value == 0 {
            *before = PrevWord::default();
            counts.count(By::Kept(Kept::Zero), WORD);
            return (0, Kept::Zero);
        }
        let WordContext { at, used, texts } = context;
        let masks = self.masks(context);
        let plan = self.plan;
        let guard = plan.guard_at(at).or_else(|| plan.guard_values.get(&value).copied());
        if let Some(other) = guard.filter(|_| plan.has(Rule::Guards)) {
            *before = PrevWord::default();
            *word = other.to_le_bytes();
            counts.count(By::Rule(Rule::Guards), WORD);
            return (0, Kept::Zero);
        }
        let mut keep = masks.keep & !texts;
        let why = if keep & masks.found != 0 { Kept::Found } else { Kept::of(used) };
        let is_value = masks.values != 0;
        let is_pointer_like = !is_value && texts == 0 && used != Use::Dead && plan.is_mapped(value);
        if is_pointer_like
            && used != Use::Image
            && keep != u8::MAX
            && plan.has(Rule::Alike)
            && let Some(other) = plan.objects.substitute(value)
        {
            *word = other.to_le_bytes();
            let by = if other == value { By::Kept(Kept::Pointers) } else { By::Rule(Rule::Alike) };
            counts.count(by, WORD);
            return (u8::MAX, Kept::Pointers);
        }
        let no_address = if is_pointer_like { plan.is_no_address(*word, used, before.after_text) } else { None };
        let pointer = is_pointer_like && no_address != Some(Rule::Numbers);
        // If a word was read as a structure but looks like text, it was no structure, unless it was declared a name.
        let unnamed = keep & !masks.sure;
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
        before.after_text = used == Use::Stack && reads(*word, u8::MAX) == Reads::Text;
        if is_pointer_like && keep != u8::MAX && no_address.is_none() {
            counts.count(By::Kept(Kept::Pointers), WORD);
            return (u8::MAX, Kept::Pointers);
        }
        counts.count(By::Rule(Rule::Texts), u64::from(texts.count_ones()));
        counts.count(By::Kept(why), u64::from(keep.count_ones()));
        let rest = u64::from((!(keep | texts)).count_ones());
        let because = [(is_value, Rule::Values), (is_unnamed, Rule::UnnamedTexts)];
        let because = because.into_iter().find(|(is_so, _)| *is_so).map(|(_, rule)| rule);
        let rule = because.or(no_address).unwrap_or(Rule::of(used));
        let by = if fill::word(word, keep | texts) { By::Rule(rule) } else { By::Kept(Kept::Zero) };
        counts.count(by, rest);
        (keep, why)
    }
}
