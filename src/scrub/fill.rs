//! Replacement values.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::addr::AddrRange;
use crate::memory::{Memory, OVERWRITTEN};

/// Replacement of a word.
const FILL: [u8; 8] = OVERWRITTEN.to_le_bytes();

/// Minimum number of characters of a text that is replaced by a stream instead of permuted. A keyed hash of the whole
/// text seeds the stream. Two texts become equal with probability 1 in 2^64, and a stream takes a hundredth of the
/// time.
const MIN_STREAMED: usize = 16;

/// Bytes of a long text that are read at once.
const CHUNK: u64 = 1 << 20;

/// Rounds of the permutation of a character. Four make it indistinguishable from a random one (Luby and Rackoff).
const ROUNDS: u8 = 4;

/// Method of overwriting the characters of strings. With either, zeros stay zeros and nothing else becomes zero.
#[derive(Clone, Debug)]
pub enum Fill {
    /// By a key that is made for this core and never stored. Equal texts stay equal, and different ones different.
    Keyed(Box<RandomState>),
    /// By length alone. For tests, which compare the results of two inputs.
    ByLength,
}

impl Default for Fill {
    fn default() -> Fill {
        Fill::Keyed(Box::default())
    }
}

impl Fill {
    /// Overwrites `text`, which consists of units of `width` bytes.
    ///
    /// Each unit goes through a permutation chosen by the key and all units before it. The same is done from the end
    /// backwards. So the whole is a permutation of all texts of that length: no two become equal, and a change of any
    /// unit changes all.
    pub(super) fn text(&self, text: &mut [u8], width: usize) {
        let Fill::Keyed(key) = self else {
            text.chunks_exact_mut(width).filter(|unit| unit.iter().any(|&b| b != 0)).for_each(|unit| unit.fill(b'x'));
            return;
        };
        let units = text.len() / width.max(1);
        if units >= MIN_STREAMED {
            let mut whole = key.build_hasher();
            whole.write_usize(width);
            whole.write(text);
            return stream(whole.finish(), 0, text, width);
        }
        let mut before = 0;
        for i in 0..units {
            before = unit(key, before, (0, units, i), text, width, i);
        }
        before = 0;
        for i in (0..units).rev() {
            before = unit(key, before, (1, units, i), text, width, i);
        }
    }

    /// Returns the seed that, with the length, determines the replacement of a long text. `None` if the text can't be
    /// read.
    pub(super) fn seed(&self, memory: &dyn Memory, text: AddrRange, width: usize) -> Option<u64> {
        let Fill::Keyed(key) = self else { return Some(0) };
        let mut whole = key.build_hasher();
        whole.write_usize(width);
        let mut at = text.start;
        while at < text.end {
            let bytes = memory.look(at, CHUNK.min(text.end.since(at)) as usize).ok()?;
            whole.write(&bytes);
            at = at.saturating_add(bytes.len() as u64);
        }
        Some(whole.finish())
    }

    /// Overwrites a part of a long text, from unit `first` on. `seed` is the result of [`Fill::seed`] for the whole.
    pub(super) fn part(&self, seed: u64, first: usize, part: &mut [u8], width: usize) {
        match self {
            Fill::Keyed(_) => stream(seed, first, part, width),
            Fill::ByLength => self.text(part, width),
        }
    }
}

/// Increment of SplitMix64 (Steele, Lea and Flood, 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output of SplitMix64 for a state.
fn mix(state: u64) -> u64 {
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Overwrites all units by a stream of numbers. Each number depends only on the seed and the unit's position; `first`
/// is the first unit's.
fn stream(seed: u64, first: usize, text: &mut [u8], width: usize) {
    let most = (1u64 << (8 * width.min(2))) - 1;
    for (i, unit) in text.chunks_exact_mut(width).enumerate().filter(|(_, unit)| unit.iter().any(|&b| b != 0)) {
        let mixed = mix(seed.wrapping_add(STEP.wrapping_mul((first + i) as u64 + 1)));
        unit.iter_mut().zip((1 + mixed % most).to_le_bytes()).for_each(|(to, from)| *to = from);
    }
}

/// Overwrites the unit at `i`. Returns the number that chooses the next unit's permutation.
fn unit(key: &RandomState, before: u64, place: (u8, usize, usize), text: &mut [u8], width: usize, i: usize) -> u64 {
    let Some(unit) = text.get_mut(i * width..(i + 1) * width) else { return before };
    let value = |unit: &[u8]| unit.iter().rev().fold(0u16, |value, &b| value << 8 | u16::from(b));
    let old = value(unit);
    // Texts here have few units, so length and position fit in a byte each.
    let tweak = key.hash_one((before, (u64::from(place.0) << 8 | place.1 as u64) << 8 | place.2 as u64));
    if old != 0 {
        let mut new = permuted(tweak, old, width);
        // Zeros are never moved. A result of zero is permuted again until it is not zero.
        while new == 0 {
            new = permuted(tweak, new, width);
        }
        unit.iter_mut().zip(new.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    // The first pass depends on old values, the second on new ones. So both can be undone with the key.
    tweak.wrapping_add(STEP.wrapping_mul(1 + u64::from(if place.0 == 0 { old } else { value(unit) })))
}

/// Permutes a unit of `width` bytes by a Feistel network of two halves. `tweak`, a secret keyed hash, chooses its
/// round functions.
fn permuted(tweak: u64, unit: u16, width: usize) -> u16 {
    let bits = 4 * width as u32;
    let mask = (1u16 << bits) - 1;
    let (mut left, mut right) = (unit >> bits, unit & mask);
    for round in 0..ROUNDS {
        let number = (u64::from(round) << 16 | u64::from(right)) + 1;
        let mixed = mix(tweak.wrapping_add(STEP.wrapping_mul(number))) as u16 & mask;
        (left, right) = (right, left ^ mixed);
    }
    left << bits | right
}

/// Overwrites a word except the bytes in `keep` (the lowest bit is the first byte). Returns false if all other bytes
/// are zero, and changes nothing.
pub(super) fn word(word: &mut [u8; 8], keep: u8) -> bool {
    let kept = |i: usize| keep >> i & 1 != 0;
    if word.iter().enumerate().all(|(i, &b)| b == 0 || kept(i)) {
        return false;
    }
    for (i, (byte, fill)) in word.iter_mut().zip(FILL).enumerate().filter(|(i, _)| !kept(*i)) {
        debug_assert!(i < 8);
        *byte = fill;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn filled(fill: &Fill, text: &str) -> Vec<u8> {
        let mut out: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        fill.text(&mut out, 2);
        out
    }

    #[test]
    fn equal_texts_stay_equal_and_others_different() {
        let fill = Fill::default();
        assert_eq!(filled(&fill, "password"), filled(&fill, "password"));
        let mut all = HashSet::new();
        for a in 1..=255u16 {
            for b in [1, 2, 0x61, 0x7a, 0xff, 0x20ac] {
                let mut text: Vec<u8> = [a, b].into_iter().flat_map(u16::to_le_bytes).collect();
                fill.text(&mut text, 2);
                assert!(text.as_chunks::<2>().0.iter().all(|unit| *unit != [0, 0]));
                assert!(all.insert(text));
            }
        }
        // One unit of one byte: a permutation of the 255 non-zero values.
        let ones: HashSet<u8> = (1..=255u8)
            .map(|b| {
                let mut text = [b];
                fill.text(&mut text, 1);
                text[0]
            })
            .collect();
        assert!(ones.len() == 255 && !ones.contains(&0));
    }

    #[test]
    fn nothing_of_a_text_is_left_and_no_beginning_is_told() {
        let fill = Fill::default();
        let (a, b) = (filled(&fill, "connection to A"), filled(&fill, "connection to B"));
        assert!(a.as_chunks::<2>().0.iter().zip(b.as_chunks::<2>().0).filter(|(a, b)| a == b).count() < 3);
        assert_ne!(filled(&fill, "x"), filled(&Fill::default(), "x").repeat(2));
        assert_eq!(filled(&Fill::ByLength, "abc"), filled(&Fill::ByLength, "xyz"));
        let mut zeros = [0u8, 0, 0x41, 0, 0, 0];
        fill.text(&mut zeros, 2);
        assert!(zeros[..2] == [0, 0] && zeros[4..] == [0, 0] && zeros[2..4] != [0, 0]);
    }

    #[test]
    fn words_keep_what_they_are_to_keep() {
        let mut some = *b"ABCDEFGH";
        assert!(word(&mut some, 0b0000_1111));
        assert_eq!(some, [b'A', b'B', b'C', b'D', 0xed, 0xac, 0xef, 0x0d]);
        let mut zero = [7, 0, 0, 0, 0, 0, 0, 0];
        assert!(!word(&mut zero, 1) && zero[0] == 7);
        assert!(word(&mut zero, 0) && zero == FILL);
    }
}
