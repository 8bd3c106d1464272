//! Numbers with a check digit: payment cards (ISO/IEC 7812) and bank accounts (ISO 13616).

use crate::search::secrets::matches::{SecretMatch, byte_before};
use crate::sums::SaturatingSum;
use crate::words::SecretKind;

/// Maximum length of a number with the separators of its groups, rounded up.
const BACK: usize = 64;

/// Step of the search. Both kinds of numbers are longer, and of any two adjacent characters that are no letters, one
/// is a digit.
const STRIDE: usize = 8;

/// Lengths of account numbers by country, from the SWIFT IBAN registry.
const COUNTRIES: &[(usize, &str)] = &[
    (15, "NO"),
    (16, "BE"),
    (18, "DK FI FO GL NL SD FK"),
    (19, "MK SI"),
    (20, "AT BA EE KZ LT LU XK MN"),
    (21, "CH HR LI LV"),
    (22, "BG BH CR DE GB GE IE ME RS VA"),
    (23, "AE GI IL IQ OM TL SO"),
    (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "BI DJ FR GR IT MC MR SM"),
    (28, "AL AZ BY CY DO GT HU LB NI PL SV"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU YE"),
    (31, "MT SC"),
    (32, "LC"),
    (33, "RU"),
];

/// Card prefixes (number of digits, from, to), with the valid lengths.
const CARDS: &[(u32, u32, u32, std::ops::RangeInclusive<usize>)] = &[
    (1, 4, 4, 13..=13),
    (1, 4, 4, 16..=16),
    (1, 4, 4, 19..=19),
    (2, 51, 55, 16..=16),
    (4, 2221, 2720, 16..=16),
    (2, 34, 34, 15..=15),
    (2, 37, 37, 15..=15),
    (4, 6011, 6011, 16..=19),
    (3, 644, 649, 16..=19),
    (2, 65, 65, 16..=19),
    (4, 3528, 3589, 16..=19),
    (3, 300, 305, 14..=14),
    (2, 36, 36, 14..=14),
    (2, 38, 39, 14..=14),
    (2, 62, 62, 16..=19),
    (4, 5018, 5018, 13..=19),
    (4, 5020, 5020, 13..=19),
    (4, 5038, 5038, 13..=19),
    (4, 6304, 6304, 13..=19),
    (4, 6759, 6763, 13..=19),
];

/// Group sizes in which card numbers are written.
const GROUPS: &[&[usize]] = &[&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 4, 3]];

/// Collects the card and account numbers in `text`.
pub(super) fn numbers(text: &[u8], out: &mut Vec<SecretMatch>) {
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let within = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase() || matches!(b, b' ' | b'-');
    let (mut at, mut done) = (0, 0);
    while at < text.len() {
        if !digit(at) && !digit(at + 1) {
            at += STRIDE;
            continue;
        }
        let start = at - super::matches::suffix_len(text, at, BACK, within);
        let end = at + super::matches::prefix_len(&text[at..], BACK, within);
        let mut i = start.max(done);
        while i < end {
            let found =
                if byte_before(text, i).is_some_and(|b| b.is_ascii_alphanumeric()) { None } else { number(text, i) };
            i = found.as_ref().map_or(i + 1, |f| f.at.end);
            out.extend(found);
        }
        done = i.max(done);
        at = end.max(at + 2);
    }
}

fn number(text: &[u8], at: usize) -> Option<SecretMatch> {
    match text.get(at)? {
        b'0'..=b'9' => card(text, at),
        b'A'..=b'Z' => iban(text, at),
        _ => None,
    }
}

/// Returns the card number whose first digit is at `at`.
fn card(text: &[u8], at: usize) -> Option<SecretMatch> {
    let rest = &text[at..];
    let run = super::matches::prefix_len(rest, 20, |b| b.is_ascii_digit());
    let (digits, len) = if run >= 13 { (rest[..run].to_vec(), run) } else { grouped(text, at)? };
    let grouped = len > run;
    let fits = (13..=19).contains(&digits.len()) && is_card(&digits);
    (fits && stands_alone(text, at, at + len, grouped))
        .then(|| SecretMatch::form(SecretKind::CardNumber, at..at + len).checked(true))
}

/// Returns digits written in groups with the same separator between them, and the total length.
fn grouped(text: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let rest = &text[at..];
    let between = rest.get(4).copied().filter(|b| matches!(b, b' ' | b'-'))?;
    GROUPS.iter().rev().find_map(|groups| {
        let (mut digits, mut len) = (Vec::new(), 0);
        for (i, size) in groups.iter().enumerate() {
            if i > 0 {
                rest.get(len).filter(|b| **b == between)?;
                len += 1;
            }
            let group = rest.get(len..len + size)?;
            group.iter().all(u8::is_ascii_digit).then(|| digits.extend_from_slice(group))?;
            len += size;
        }
        let goes_on = rest.get(len).is_some_and(u8::is_ascii_digit);
        (!goes_on && !in_table(text, at, at + len)).then_some((digits, len))
    })
}

/// Whether groups of four precede or follow, as in a table of numbers such as the code points of a character set.
fn in_table(text: &[u8], start: usize, end: usize) -> bool {
    let group = |at: Option<usize>| {
        let four = at.and_then(|at| text.get(at..at + 4));
        four.is_some_and(|four| four.iter().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F')))
    };
    let apart =
        |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|b| b.is_ascii_whitespace() || *b == b'-');
    (apart(start.checked_sub(1)) && group(start.checked_sub(5))) || (apart(Some(end)) && group(Some(end + 1)))
}

/// Whether the digits are not part of a longer number, a fraction, a name or hexadecimal digits.
fn stands_alone(text: &[u8], start: usize, end: usize, grouped: bool) -> bool {
    let digit = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_digit);
    let first = match byte_before(text, start) {
        None => true,
        Some(b) if b.is_ascii_alphanumeric() => false,
        Some(b'_' | b'.' | b'+' | b'\\' | b'@' | b'%') => false,
        Some(b'-') => text.get(start.wrapping_sub(2)).is_none_or(|b| !b.is_ascii_alphanumeric()),
        Some(b' ') => !(grouped && digit(start.checked_sub(2))),
        Some(b',') => !digit(start.checked_sub(2)),
        Some(_) => true,
    };
    let last = match text.get(end) {
        None => true,
        Some(b) if b.is_ascii_alphanumeric() => false,
        Some(b'_' | b'@' | b'%') => false,
        Some(b'.' | b',' | b'-') => !text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric),
        Some(_) => true,
    };
    first && last
}

/// Whether a card may have this number.
fn is_card(digits: &[u8]) -> bool {
    let number = |n: usize| digits.iter().take(n).fold(0u32, |sum, d| sum * 10 + u32::from(d - b'0'));
    let known = CARDS
        .iter()
        .any(|(n, from, to, lengths)| (*from..=*to).contains(&number(*n as usize)) && lengths.contains(&digits.len()));
    // Excludes numbers near powers of ten.
    let zeros = digits.split(|d| *d != b'0').map(<[u8]>::len).max().unwrap_or(0);
    known && zeros < 9 && has_check_digit(digits)
}

/// Checks the check digit of ISO/IEC 7812-1, annex B (Luhn).
fn has_check_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            let value = u32::from(d - b'0') << (i % 2);
            value / 10 + value % 10
        })
        .saturating_sum();
    sum.is_multiple_of(10)
}

/// Returns the account number whose country code is at `at`.
fn iban(text: &[u8], at: usize) -> Option<SecretMatch> {
    let head: &[u8; 4] = text.get(at..)?.first_chunk()?;
    if !(head[1].is_ascii_uppercase() && head[2..].iter().all(u8::is_ascii_digit)) {
        return None;
    }
    let country = std::str::from_utf8(&head[..2]).ok()?;
    let (length, _) = COUNTRIES.iter().find(|(_, all)| all.split(' ').any(|c| c == country))?;
    let mut number = Vec::new();
    let mut end = at;
    while number.len() < *length {
        match text.get(end)? {
            b if b.is_ascii_digit() || b.is_ascii_uppercase() => number.push(*b),
            // A separator between groups of four.
            b' ' if number.len().is_multiple_of(4) && text.get(end.wrapping_sub(1)) != Some(&b' ') => {}
            _ => return None,
        }
        end += 1;
    }
    let alone = !text.get(end).is_some_and(|b| b.is_ascii_alphanumeric());
    let digits = number.iter().filter(|b| b.is_ascii_digit()).count();
    (alone && digits * 2 > number.len() && is_account(&number))
        .then(|| SecretMatch::form(SecretKind::Iban, at..end).checked(true))
}

/// Checks ISO/IEC 7064, MOD 97-10. Letters count as 10 to 35, and the first four characters are moved to the end.
fn is_account(number: &[u8]) -> bool {
    let (head, tail) = number.split_at(number.len().min(4));
    let rest = tail.iter().chain(head).fold(0u32, |rest, b| match b {
        b'0'..=b'9' => (rest * 10 + u32::from(b - b'0')) % 97,
        _ => (rest * 100 + u32::from(b - b'A') + 10) % 97,
    });
    rest == 1
}
