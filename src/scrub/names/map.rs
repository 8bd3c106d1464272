//! Maps tokens to others of the same form, by a key that is made for one core and never stored.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::parts::{NamePart, pieces};

/// Maximum number of characters of a token that is never replaced.
const MAX_KEPT_LEN: usize = 2;

/// Maximum number of digits of a number that is never replaced. Threads and versions have many such numbers, and
/// answers would be hard to read with others.
const MAX_KEPT_DIGITS: usize = 3;

/// Number of draws after which a replacement may equal another own token, after which it may equal a public one, and
/// in all. Most forms have many more tokens than are used.
const DRAWS: [u32; 3] = [1 << 8, 1 << 16, 1 << 18];

/// The tokens of a process.
#[derive(Default)]
pub(super) struct Tokens {
    /// Tokens that stay.
    pub(super) public: HashSet<String>,
    /// The program's own tokens.
    pub(super) own: HashSet<String>,
    /// Lengths in bytes of the ends of each token that are tokens too. A name may share its bytes with a longer name
    /// that has the same end.
    pub(super) tails: HashMap<String, BTreeSet<usize>>,
    /// Tokens that begin with type letters of a descriptor, with the number of bytes of those letters.
    pub(super) descriptors: HashMap<String, usize>,
}

impl Tokens {
    /// Adds a token that stays.
    pub(super) fn add_public(&mut self, token: &str) {
        for piece in pieces(token) {
            if let NamePart::Name(name) = piece
                && !self.public.contains(name)
            {
                self.public.insert(name.to_owned());
            }
        }
        self.public.insert(token.to_owned());
    }

    /// Adds a token of the program's own.
    pub(super) fn add_own(&mut self, token: &str) {
        if !self.own.contains(token) {
            self.own.insert(token.to_owned());
        }
    }
}

impl Tokens {
    /// Adds ends of ends. If a token's end is a token, that token's ends are ends of the longer token too.
    fn add_tails(&mut self) {
        let all: Vec<(String, Vec<usize>)> =
            self.tails.iter().map(|(token, lens)| (token.clone(), lens.iter().copied().collect())).collect();
        for (token, lens) in all {
            let last = match pieces(&token).last() {
                Some(NamePart::Name(name)) => name.len(),
                _ => 0,
            };
            for len in lens.iter().copied().chain([last]) {
                let Some((_, longer)) = token.split_at_checked(token.len().saturating_sub(len)) else { continue };
                let shorter: Vec<usize> = lens.iter().copied().filter(|other| *other < len).collect();
                if !shorter.is_empty() && longer != token {
                    self.tails.entry(longer.to_owned()).or_default().extend(shorter);
                }
            }
        }
    }
}

/// The replacement of each token.
#[derive(Default)]
pub(super) struct Map {
    replacements: HashMap<String, String>,
}

impl Map {
    /// Makes a map for all own tokens.
    pub(super) fn new(mut tokens: Tokens) -> Map {
        tokens.add_tails();
        let mut own: Vec<&String> = tokens.own.iter().collect();
        own.sort_unstable_by_key(|token| (token.len(), token.as_str()));
        let mut maker =
            Maker { tokens: &tokens, key: RandomState::new(), replacements: HashMap::new(), used: HashSet::new() };
        for token in own {
            maker.replacement(token, 0);
        }
        let mut replacements = maker.replacements;
        replacements.retain(|old, new| old != new);
        Map { replacements }
    }

    /// Returns the replacement of a token. `None` if it stays.
    pub(super) fn get(&self, token: &str) -> Option<&str> {
        self.replacements.get(token).map(String::as_str)
    }

    /// Returns all replaced tokens as pairs of new and old text, sorted.
    pub(super) fn rows(&self) -> Vec<(&str, &str)> {
        let mut out: Vec<(&str, &str)> =
            self.replacements.iter().map(|(old, new)| (new.as_str(), old.as_str())).collect();
        out.sort_unstable();
        out
    }
}

struct Maker<'t> {
    tokens: &'t Tokens,
    key: RandomState,
    replacements: HashMap<String, String>,
    used: HashSet<String>,
}

/// Maximum depth of tokens within tokens. Each is shorter than the one around it.
const MAX_DEPTH: usize = 64;

impl Maker<'_> {
    fn replacement(&mut self, token: &str, depth: usize) -> String {
        if let Some(known) = self.replacements.get(token) {
            return known.clone();
        }
        let made = self.make(token, depth);
        self.replacements.insert(token.to_owned(), made.clone());
        made
    }

    fn make(&mut self, token: &str, depth: usize) -> String {
        let is_short = token.chars().nth(MAX_KEPT_LEN).is_none()
            || token.len() <= MAX_KEPT_DIGITS && token.bytes().all(|b| b.is_ascii_digit());
        if is_short || depth > MAX_DEPTH || self.tokens.public.contains(token) || token.bytes().all(|b| b == b'_') {
            return token.to_owned();
        }
        if let Some(letters) = self.tokens.descriptors.get(token)
            && let Some((letters, class)) = token.split_at_checked(*letters)
        {
            return letters.to_owned() + &self.replacement(class, depth + 1);
        }
        let pieces = pieces(token);
        if pieces.as_slice() != [NamePart::Name(token)] {
            let each = pieces.into_iter().map(|piece| match piece {
                NamePart::Stays(text) => text.to_owned(),
                NamePart::Name(name) => self.replacement(name, depth + 1),
            });
            return each.collect();
        }
        let tails = self.tokens.tails.get(token).into_iter().flatten().rev();
        let tail = tails.filter(|len| **len < token.len()).find_map(|len| token.split_at_checked(token.len() - len));
        let (head, tail) = tail.unwrap_or((token, ""));
        let tail = if tail.is_empty() { String::new() } else { self.replacement(tail, depth + 1) };
        let [own, public, all] = DRAWS;
        let drawn = (0..all).map(|draw| self.draw(token, head, draw) + &tail);
        let found = drawn.enumerate().find(|(draw, new)| {
            let draw = *draw as u32;
            !self.used.contains(new)
                && (draw >= public || !self.tokens.public.contains(new))
                && (draw >= own || !self.tokens.own.contains(new))
        });
        let new = found.map_or_else(|| self.draw(token, head, all) + &tail, |(_, new)| new);
        self.used.insert(new.clone());
        new
    }

    /// Returns a text with the form of `head`, by the key and the number of the draw.
    fn draw(&self, token: &str, head: &str, draw: u32) -> String {
        // Rust's hash after a mangled name stays recognisable: `h` and 16 hexadecimal digits.
        let is_hash = head.len() == 17
            && head.strip_prefix('h').is_some_and(|rest| rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        let letters = if is_hash { 6 } else { 26 };
        let place = |i: usize, of: u32| (self.key.hash_one((token, draw, i)) % u64::from(of)) as u32;
        let from = |first: u8, i: usize, of: u32| char::from(first + place(i, of) as u8);
        let each = head.chars().enumerate().map(|(i, c)| match c {
            'h' if is_hash && i == 0 => 'h',
            'a'..='z' => from(b'a', i, letters),
            'A'..='Z' => from(b'A', i, 26),
            // Name lengths in C++ mangled names have no leading zero.
            '0'..='9' => from(b'0', i, 10),
            '\0'..='\x7f' => c,
            // A character of the same number of bytes in UTF-8.
            _ => char::from_u32(c as u32 & !0x3f | place(i, 64)).unwrap_or(c),
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(own: &[&str], public: &[&str]) -> Map {
        let mut tokens = Tokens::default();
        own.iter().for_each(|token| tokens.add_own(token));
        public.iter().for_each(|token| tokens.add_public(token));
        Map::new(tokens)
    }

    fn form(text: &str) -> Vec<(usize, u32)> {
        let kind = |c: char| match c {
            'a'..='z' => 0,
            'A'..='Z' => 1,
            '0'..='9' => 2,
            c if c.is_ascii() => c as u32,
            _ => 3,
        };
        text.chars().map(|c| (c.len_utf8(), kind(c))).collect()
    }

    #[test]
    fn form_and_length_stay() {
        let own = ["Acme", "Billing", "Invoice_2", "x1", "Счёт", "straße", "String", "___"];
        let map = map(&own, &["String"]);
        for token in own {
            let new = map.get(token).unwrap_or(token);
            assert_eq!(form(new), form(token), "{token}");
            assert_eq!(new == token, matches!(token, "x1" | "String" | "___"), "{token}");
        }
    }

    #[test]
    fn all_tokens_of_a_form_become_different_ones() {
        // Nearly all tokens of this form: 9000 of 10000, and 500 more are public.
        let own: Vec<String> = (0..9000).map(|n| format!("{n:04}")).collect();
        let public: Vec<String> = (9500..10000).map(|n| n.to_string()).collect();
        let all: Vec<&str> = own.iter().map(String::as_str).collect();
        let map = map(&all, &public.iter().map(String::as_str).collect::<Vec<_>>());
        let replacements: HashSet<String> =
            own.iter().map(|token| map.get(token).unwrap_or(token).to_owned()).collect();
        assert_eq!(replacements.len(), own.len());
        assert!(public.iter().all(|token| !replacements.contains(token)));
    }

    #[test]
    fn what_shares_an_end_still_does() {
        let mut tokens = Tokens::default();
        ["get_Invoice", "Invoice", "MyTask", "Lorem"].into_iter().for_each(|token| tokens.add_own(token));
        tokens.add_public("Task");
        tokens.tails.entry("get_Invoice".to_owned()).or_default().insert(7);
        tokens.tails.entry("MyTask".to_owned()).or_default().insert(4);
        let map = Map::new(tokens);
        let get = |token: &str| map.get(token).unwrap_or(token).to_owned();
        assert!(get("get_Invoice").ends_with(&get("Invoice")) && get("Invoice") != "Invoice");
        assert!(get("MyTask").ends_with("Task") && get("MyTask") != "MyTask");
        assert_eq!(map.rows().len(), 4);
    }

    #[test]
    fn pieces_become_what_they_are_alone() {
        let map = map(&["Acme", "_ZN4Acme7InvoiceEv", "g__Total"], &[]);
        let get = |token: &str| map.get(token).unwrap_or(token).to_owned();
        let acme = get("Acme");
        assert!(get("_ZN4Acme7InvoiceEv").starts_with(&format!("_ZN4{acme}7")));
        assert!(get("g__Total").starts_with("g__") && get("g__Total") != "g__Total");
    }
}
