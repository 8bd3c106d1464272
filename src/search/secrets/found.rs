//! One secret in a text, and which of several that overlap is told.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::words::SecretKind;

/// One secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What it is.
    pub(super) kind: SecretKind,
    /// Where it stands, from what it is known by to its end.
    pub(super) at: Range<usize>,
    /// The secret itself, within that.
    pub(super) value: Range<usize>,
    /// Whether more than its form was looked at: a check digit, a checksum, what it decodes to.
    pub(super) checked: bool,
}

impl Found {
    /// By its form alone, which is all of it the secret.
    pub(super) fn form(kind: SecretKind, at: Range<usize>) -> Found {
        Found { kind, value: at.clone(), at, checked: false }
    }

    /// The same after a check that it passed, or not.
    pub(super) fn checked(self, checked: bool) -> Found {
        Found { checked, ..self }
    }

    /// What two equal secrets have in common, whatever way they are written in `text`.
    pub(super) fn normal(&self, text: &[u8]) -> Vec<u8> {
        let value = text.get(self.value.clone()).unwrap_or_default();
        let kept = |keep: fn(&u8) -> bool| value.iter().copied().filter(keep);
        match self.kind {
            SecretKind::PrivateKey => kept(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).collect(),
            SecretKind::CardNumber => kept(u8::is_ascii_digit).collect(),
            SecretKind::Iban => kept(u8::is_ascii_alphanumeric).collect(),
            SecretKind::EmailAddress => value.to_ascii_lowercase(),
            _ => value.to_vec(),
        }
    }
}

/// Of those that overlap the one of the first kind stays.
pub(super) fn without_overlaps(mut all: Vec<Found>) -> Vec<Found> {
    if all.len() < 2 {
        return all;
    }
    all.sort_by_key(|f| (f.kind, f.at.start));
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    all.retain(|f| {
        let before = taken.range(..f.at.end).next_back();
        let free = before.is_none_or(|(_, end)| *end <= f.at.start);
        if free {
            taken.insert(f.at.start, f.at.end);
        }
        free
    });
    all.sort_by_key(|f| f.at.start);
    all
}

/// How many of the first bytes of `text` are such as `of` says, at most `most`.
pub(super) fn count(text: &[u8], most: usize, of: impl Fn(u8) -> bool) -> usize {
    text.iter().take(most).take_while(|&&b| of(b)).count()
}

/// The same backwards from `at`.
pub(super) fn count_back(text: &[u8], at: usize, most: usize, of: impl Fn(u8) -> bool) -> usize {
    text.get(..at).unwrap_or_default().iter().rev().take(most).take_while(|&&b| of(b)).count()
}

/// The byte before `at`.
pub(super) fn before(text: &[u8], at: usize) -> Option<u8> {
    text.get(at.checked_sub(1)?).copied()
}

/// A character of base64url, which are those of names too.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A character of base64 without its padding.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}
