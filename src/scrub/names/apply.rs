//! Replaces names in a run of memory: those at recorded addresses, and their tokens wherever else bytes were
//! preserved.

use super::collect::whole;
use super::{Names, script};
use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::scrub::{Counts, Kept};
use crate::targets::reads::Script;

/// Minimum length of a token that is replaced outside of recorded names. Shorter ones occur by chance in numbers and
/// addresses.
const MIN_TOKEN: usize = 6;

/// Bytes on each side of a run that are searched for tokens that cross its ends.
const CONTEXT: u64 = 512;

/// A run of memory: its old bytes, and those to be written.
pub(in crate::scrub) struct Pass<'a> {
    pub(in crate::scrub) memory: &'a dyn Memory,
    pub(in crate::scrub) start: Addr,
    pub(in crate::scrub) before: &'a [u8],
    pub(in crate::scrub) bytes: &'a mut [u8],
    /// Mask of strings' characters: one byte per word, the lowest bit for the first byte.
    pub(in crate::scrub) texts: &'a [u8],
    /// Reason why each word was preserved.
    pub(in crate::scrub) why: &'a [Kept],
    /// Bytes by rule. Bytes of names are subtracted from the preserved ones.
    pub(in crate::scrub) counts: &'a mut Counts,
}

impl Pass<'_> {
    /// Writes `new` at `at`, as far as it is in the run and the old bytes were preserved.
    fn put(&mut self, at: Addr, new: &[u8]) {
        let skip = self.start.since(at.min(self.start)) as usize;
        let from = at.max(self.start).since(self.start) as usize;
        for (i, &new) in new.iter().skip(skip).enumerate().map(|(i, new)| (from + i, new)) {
            let is_text = self.texts.get(i / 8).is_some_and(|bits| bits >> (i % 8) & 1 != 0);
            let (Some(to), Some(&before)) = (self.bytes.get_mut(i), self.before.get(i)) else { break };
            if !is_text && *to == before {
                *to = new;
                if new != before
                    && let Some(why) = self.why.get(i / 8)
                {
                    self.counts.renamed(*why, 1);
                }
            }
        }
    }
}

impl Names {
    /// Replaces the names in a run.
    pub(in crate::scrub) fn apply(&self, pass: &mut Pass<'_>) {
        self.replace_recorded(pass);
        self.replace_elsewhere(pass);
    }

    fn replace_recorded(&self, pass: &mut Pass<'_>) {
        let end = pass.start.saturating_add(pass.bytes.len() as u64);
        let first = pass.start.saturating_sub(self.longest);
        let first = self.places.partition_point(|name| name.at < first);
        for name in self.places.iter().skip(first).take_while(|name| name.at < end) {
            if name.at.saturating_add(name.len) <= pass.start {
                continue;
            }
            let Some((from, bytes)) = whole(pass.memory, name) else { continue };
            for span in script::tokens(&bytes, name.script) {
                let Some(new) = self.map.get(&span.token) else { continue };
                let Some(new) = script::encode(new, bytes.get(span.from..).unwrap_or_default(), name.script) else {
                    continue;
                };
                pass.put(from.saturating_add(span.from as u64), &new);
            }
        }
    }

    fn replace_elsewhere(&self, pass: &mut Pass<'_>) {
        let memory = pass.memory;
        let left = pass.start.saturating_sub(CONTEXT);
        let parts = memory.readable_parts(AddrRange::new(left, pass.start), CONTEXT);
        let left = parts.last().filter(|part| part.end == pass.start);
        let left = left.and_then(|part| memory.look(part.start, part.len() as usize).ok()).unwrap_or_default();
        let end = pass.start.saturating_add(pass.bytes.len() as u64);
        let right = memory.look(end, memory.readable(end, CONTEXT) as usize).unwrap_or_default();
        let from = pass.start.saturating_sub(left.len() as u64);
        let all = [&left, pass.before, &right].concat();
        each_run(&all, &mut |at, token, script| {
            if let Some(new) = self.map.get(token)
                && let Some(new) = script::encode(new, all.get(at..).unwrap_or_default(), script)
            {
                pass.put(from.saturating_add(at as u64), &new);
            }
        });
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Visits runs of letters that may be tokens, with one byte or two a letter.
fn each_run(bytes: &[u8], visit: &mut dyn FnMut(usize, &str, Script)) {
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        // Most of memory is zero.
        if rest.first_chunk::<8>() == Some(&[0; 8]) {
            at += 8;
            continue;
        }
        let len = rest.iter().take_while(|&&b| is_letter(b)).count();
        if len >= MIN_TOKEN
            && let Some(token) = rest.get(..len).and_then(|run| std::str::from_utf8(run).ok())
        {
            visit(at, token, Script::Utf8);
        }
        // A letter and a zero may start a text with two bytes a letter.
        let back = |by: usize| at.checked_sub(by).and_then(|i| bytes.get(i)).copied().unwrap_or(0);
        let is_wide_before = is_letter(back(2)) && back(1) == 0 && !is_letter(back(3));
        if len == 1 && !is_wide_before {
            wide(rest, at, visit);
        }
        // The last letter of a one-byte run is the first of a two-byte run if a zero follows.
        at += len.max(1);
    }
}

fn wide(rest: &[u8], at: usize, visit: &mut dyn FnMut(usize, &str, Script)) {
    let units = rest.as_chunks::<2>().0.iter();
    let token: String =
        units.take_while(|unit| is_letter(unit[0]) && unit[1] == 0).map(|unit| char::from(unit[0])).collect();
    if token.len() >= MIN_TOKEN {
        visit(at, &token, Script::Units(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_letters_are_found_in_both_scripts() {
        let wide: Vec<u8> = "Invoice".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let bytes = [b"\0\0Billing-\x01short\0", &wide[..], &[0; 16], b"Acme_Total"].concat();
        let mut found = Vec::new();
        each_run(&bytes, &mut |at, token, script| found.push((at, token.to_owned(), script)));
        let wanted =
            [(2, "Billing", Script::Utf8), (17, "Invoice", Script::Units(2)), (47, "Acme_Total", Script::Utf8)];
        assert_eq!(found, wanted.map(|(at, token, script)| (at, token.to_owned(), script)));
    }
}
