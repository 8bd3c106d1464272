//! Overwrites a run of memory.

use std::sync::PoisonError;

use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::memory::Memory;
use crate::scrub::left::{LeftTexts, Overwritten};
use crate::scrub::names::Pass;
use crate::scrub::plan::Use;
use crate::scrub::words::Run;
use crate::scrub::{Counts, Plan, Rule};

/// Texts of at least this many bytes are overwritten in parts. Their replacement depends on a seed of the whole text,
/// which is computed once.
const MIN_LARGE_TEXT: u64 = 1 << 20;

impl Plan<'_> {
    /// Overwrites `bytes`, which start at `start` (a multiple of 8), and counts them by rule. Remaining texts are
    /// added to `left`.
    pub fn apply(&self, start: Addr, bytes: &mut [u8], counts: &mut Counts, left: &mut LeftTexts) {
        let range = AddrRange::sized(start, bytes.len() as u64);
        let before = self.names.as_ref().map(|_| bytes.to_vec());
        let masks = self.objects.masks(start, bytes.len().div_ceil(8));
        let texts = self.texts(range, &masks.texts, bytes);
        let mut run = Run::new(self, start, masks, texts);
        let mut at = start;
        let first = self.parts.partition_point(|part| part.range.end <= start);
        for of in self.parts.iter().skip(first).take_while(|part| part.range.start < range.end) {
            let Some(part) = of.range.intersect(&range) else { continue };
            run.overwrite(bytes, AddrRange::new(at, part.start), Use::Data, counts);
            run.overwrite(bytes, part, of.used, counts);
            at = part.end;
        }
        run.overwrite(bytes, AddrRange::new(at, range.end), Use::Data, counts);
        if let Some((names, before)) = self.names.as_ref().zip(before) {
            let memory = &self.process.memory;
            let mut pass = Pass { memory, start, before: &before, bytes, texts: &run.texts, why: &run.why, counts };
            names.apply(&mut pass);
        }
        left.collect(&Overwritten { start, bytes, kept: &run.kept, why: &run.why }, |at| self.kind(at));
    }

    /// Overwrites the characters of strings in `range`. Returns a mask of those bytes: one byte per word, the lowest
    /// bit for the first byte.
    fn texts(&self, range: AddrRange, texts: &[(AddrRange, u8)], bytes: &mut [u8]) -> Vec<u8> {
        let mut mask = vec![0u8; bytes.len().div_ceil(8)];
        for &(text, width) in texts {
            let (Some(part), width) = (text.intersect(&range), usize::from(width)) else { continue };
            let from = part.start.since(range.start) as usize;
            let Some(to) = bytes.get_mut(from..from + part.len() as usize) else { continue };
            if self.has(Rule::Texts) && !self.overwrite_text(text, width, part, to) {
                continue;
            }
            for i in from..from + to.len() {
                if let Some(bits) = mask.get_mut(i / 8) {
                    *bits |= 1 << (i % 8);
                }
            }
        }
        mask
    }

    /// Overwrites `to`, which is `part` of a text. Returns false if the whole text can't be read, since the whole
    /// decides the replacement of each character.
    fn overwrite_text(&self, text: AddrRange, width: usize, part: AddrRange, to: &mut [u8]) -> bool {
        let memory = &self.process.memory;
        let skip = part.start.since(text.start) as usize;
        if text.len() <= MIN_LARGE_TEXT {
            let Ok(mut whole) = memory.look(text.start, text.len() as usize) else { return false };
            self.fill.text(&mut whole, width);
            to.iter_mut().zip(whole.iter().skip(skip)).for_each(|(to, new)| *to = *new);
            return true;
        }
        let seed = {
            let mut seeds = self.seeds.lock().unwrap_or_else(PoisonError::into_inner);
            let seed = seeds.entry(text.start).or_insert_with(|| self.fill.seed(memory, text, width));
            let Some(seed) = *seed else { return false };
            seed
        };
        // Start at the beginning of a character.
        let before = skip % width.max(1);
        let Ok(mut some) = memory.look(part.start.saturating_sub(before as u64), to.len() + before) else {
            return false;
        };
        self.fill.part(seed, (skip - before) / width.max(1), &mut some, width);
        to.iter_mut().zip(some.iter().skip(before)).for_each(|(to, new)| *to = *new);
        true
    }

    fn kind(&self, at: Addr) -> Kind {
        self.part(at).map_or(Kind::NoAccess, |part| part.kind)
    }
}
