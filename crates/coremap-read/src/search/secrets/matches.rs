//! A secret in a text, and the choice between overlapping ones.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::words::SecretKind;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretMatch {
    pub(super) kind: SecretKind,
    /// Range of the secret with its keyword.
    pub(super) at: Range<usize>,
    /// Range of the secret itself, within `at`.
    pub(super) value: Range<usize>,
    /// Whether more than its form was checked: a check digit, a checksum, or its decoded
    /// contents.
    pub(super) checked: bool,
}

impl SecretMatch {
    /// Creates a secret that was recognised by its form. All of it is secret.
    pub(super) fn form(kind: SecretKind, at: Range<usize>) -> SecretMatch {
        SecretMatch { kind, value: at.clone(), at, checked: false }
    }

    /// Sets whether it passed a check.
    pub(super) fn checked(self, checked: bool) -> SecretMatch {
        SecretMatch { checked, ..self }
    }

    /// Returns the normal form of the secret, which is equal for equal secrets written in
    /// different ways.
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

/// Removes overlaps: of overlapping secrets, the one of the first kind stays.
pub(super) fn without_overlaps(mut all: Vec<SecretMatch>) -> Vec<SecretMatch> {
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

/// Length of the prefix of `text` that satisfies `pred`, at most `limit`.
pub(super) fn prefix_len(text: &[u8], limit: usize, pred: impl Fn(u8) -> bool) -> usize {
    text.iter().take(limit).take_while(|&&b| pred(b)).count()
}

/// Length of the run before `at` that satisfies `pred`, at most `limit`.
pub(super) fn suffix_len(text: &[u8], at: usize, limit: usize, pred: impl Fn(u8) -> bool) -> usize {
    text.get(..at).unwrap_or_default().iter().rev().take(limit).take_while(|&&b| pred(b)).count()
}

pub(super) fn byte_before(text: &[u8], at: usize) -> Option<u8> {
    text.get(at.checked_sub(1)?).copied()
}

/// Whether it is a base64url character. Names have the same characters.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether it is a base64 character, without padding.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}
