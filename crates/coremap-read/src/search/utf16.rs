//! Turns a regular expression over characters into one over UTF-16LE bytes.
//!
//! Every character becomes its two or four bytes. The structure around them (repetition,
//! alternatives, order) is preserved. Look-around can't be translated, because the engine
//! would test single bytes instead of characters.

use std::collections::BTreeMap;

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, Hir, HirKind};

use crate::limits;

/// The reason why an expression can't be translated to UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untranslatable {
    /// `^`, `$`, `\b` and the like.
    LookAround,
    /// `(?-u:\xff)`: a byte, not a character.
    RawByte,
    /// The result would exceed the budget of byte ranges.
    TooBig,
}

impl Untranslatable {
    /// Returns the reason in words.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Untranslatable::LookAround => "look-around (^ $ \\b and the like) is not supported in UTF-16",
            Untranslatable::RawByte => "single non-ASCII bytes, such as (?-u:\\xff), are not UTF-16 characters",
            Untranslatable::TooBig => "the expression is too big in UTF-16",
        }
    }
}

/// Inclusive ranges of bytes, sorted.
type Bytes = Vec<(u8, u8)>;

/// Inclusive ranges of UTF-16 code units, sorted.
type Units = Vec<(u16, u16)>;

/// Translates `hir`, over characters, into one over UTF-16LE bytes.
pub(super) fn translate(hir: &Hir) -> Result<Hir, Untranslatable> {
    Translator { budget: limits::MAX_UTF16_RANGES }.hir(hir)
}

struct Translator {
    /// Number of byte ranges that may still be made.
    budget: usize,
}

impl Translator {
    // The parser's nest limit bounds the depth.
    fn hir(&mut self, hir: &Hir) -> Result<Hir, Untranslatable> {
        Ok(match hir.kind() {
            HirKind::Empty => Hir::empty(),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| Untranslatable::RawByte)?;
                self.spend(text.len())?;
                Hir::literal(encode(text))
            }
            HirKind::Class(Class::Unicode(class)) => self.class(class)?,
            HirKind::Class(Class::Bytes(class)) => {
                let class = class.to_unicode_class().ok_or(Untranslatable::RawByte)?;
                self.class(&class)?
            }
            HirKind::Look(_) => return Err(Untranslatable::LookAround),
            HirKind::Repetition(repetition) => Hir::repetition(repetition.with(self.hir(&repetition.sub)?)),
            // Captured groups are never used.
            HirKind::Capture(capture) => self.hir(&capture.sub)?,
            HirKind::Concat(subs) => Hir::concat(self.all(subs)?),
            HirKind::Alternation(subs) => Hir::alternation(self.all(subs)?),
        })
    }

    fn all(&mut self, subs: &[Hir]) -> Result<Vec<Hir>, Untranslatable> {
        subs.iter().map(|sub| self.hir(sub)).collect()
    }

    fn spend(&mut self, ranges: usize) -> Result<(), Untranslatable> {
        self.budget = self.budget.checked_sub(ranges).ok_or(Untranslatable::TooBig)?;
        Ok(())
    }

    fn class(&mut self, class: &ClassUnicode) -> Result<Hir, Untranslatable> {
        let mut units = Units::new();
        let mut lows_of: BTreeMap<u16, Units> = BTreeMap::new();
        for range in class.ranges() {
            let (start, end) = (u32::from(range.start()), u32::from(range.end()));
            if start <= 0xffff {
                // Surrogates are no characters, so no class may match them.
                for (from, to) in [(start.min(0xd800), end.min(0xd7ff)), (start.max(0xe000), end.min(0xffff))] {
                    if start.max(from) <= to && from <= to {
                        units.push((from as u16, to as u16));
                    }
                }
            }
            if end > 0xffff {
                let (from, to) = (pair(start.max(0x10000)), pair(end));
                for high in from.0..=to.0 {
                    let low = if high == from.0 { from.1 } else { 0xdc00 };
                    let last = if high == to.0 { to.1 } else { 0xdfff };
                    lows_of.entry(high).or_default().push((low, last));
                }
            }
        }
        // High surrogates with equal sets of low ones form one alternative.
        let mut highs_of: BTreeMap<Units, Units> = BTreeMap::new();
        for (high, lows) in lows_of {
            append(highs_of.entry(lows).or_default(), high);
        }
        let mut alternatives = self.units(&units)?;
        for (lows, highs) in highs_of {
            let high = Hir::alternation(self.units(&highs)?);
            let low = Hir::alternation(self.units(&lows)?);
            alternatives.push(Hir::concat(vec![high, low]));
        }
        Ok(Hir::alternation(alternatives))
    }

    /// Returns two bytes for each unit, low byte first. High bytes with equal sets of low
    /// bytes form one alternative.
    fn units(&mut self, units: &Units) -> Result<Vec<Hir>, Untranslatable> {
        let mut rows: BTreeMap<u8, Bytes> = BTreeMap::new();
        for &(start, end) in units {
            let ([low, high], [last_low, last_high]) = (start.to_le_bytes(), end.to_le_bytes());
            for row in high..=last_high {
                let from = if row == high { low } else { 0 };
                let to = if row == last_high { last_low } else { 0xff };
                rows.entry(row).or_default().push((from, to));
            }
        }
        let mut groups: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        for (row, lows) in rows {
            groups.entry(lows).or_default().push((row, row));
        }
        let mut out = Vec::with_capacity(groups.len());
        for (lows, highs) in groups {
            self.spend(lows.len() + highs.len())?;
            out.push(Hir::concat(vec![bytes(&lows), bytes(&highs)]));
        }
        Ok(out)
    }
}

/// Encodes `text` as UTF-16LE.
pub(super) fn encode(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn bytes(ranges: &[(u8, u8)]) -> Hir {
    Hir::class(Class::Bytes(ClassBytes::new(ranges.iter().map(|&(a, b)| ClassBytesRange::new(a, b)))))
}

/// Returns the surrogates of a character beyond 0xffff.
fn pair(c: u32) -> (u16, u16) {
    let c = c - 0x10000;
    (0xd800 + (c >> 10) as u16, 0xdc00 + (c & 0x3ff) as u16)
}

/// Adds a unit that is above all others.
fn append(units: &mut Units, unit: u16) {
    match units.last_mut() {
        Some(last) if last.1 + 1 == unit => last.1 = unit,
        _ => units.push((unit, unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::bytes::{Regex, RegexBuilder};

    fn compile(pattern: &str) -> Result<Regex, Box<dyn std::error::Error>> {
        let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern)?;
        let hir = translate(&hir).map_err(|e| e.reason())?;
        let mut printed = String::new();
        regex_syntax::hir::print::Printer::new().print(&hir, &mut printed)?;
        Ok(RegexBuilder::new(&format!("^(?:{printed})$")).unicode(false).build()?)
    }

    #[test]
    fn a_class_matches_just_its_own_characters() -> Result<(), Box<dyn std::error::Error>> {
        let classes = [
            r"\w",
            r"\W",
            r"\pL",
            r"\p{Greek}",
            ".",
            r"(?s:.)",
            "[é-\u{1f600}]",
            "[\u{ff}-\u{101}]",
            "[^a]",
            "[\u{fffe}-\u{10401}]",
            "[\u{103ff}-\u{10c01}\u{10ffff}]",
            "[\u{d7ff}-\u{e000}]",
            "(?i:k|ß)",
            "[aéЖ€😀]",
            r"(?-u:\w)",
        ];
        for class in classes {
            let (wide, narrow) = (compile(class)?, Regex::new(&format!("^(?:{class})$"))?);
            // Beyond the first planes, only characters near the ends of each high
            // surrogate's range.
            let edges = ('\u{11000}'..=char::MAX).filter(|&c| (u32::from(c) + 2) & 0x3ff < 4);
            for c in ('\0'..'\u{11000}').chain(edges) {
                let text = c.to_string();
                assert_eq!(wide.is_match(&encode(&text)), narrow.is_match(text.as_bytes()), "{class} {c:?}");
            }
            for unit in 0xd800u16..=0xdfff {
                assert!(!wide.is_match(&unit.to_le_bytes()), "{class} {unit:x}");
            }
        }
        Ok(())
    }

    #[test]
    fn structure_stays() -> Result<(), Box<dyn std::error::Error>> {
        let patterns = ["a(b|cd)*?e{2,3}", "(x+|😀y)?z", "(?i)straße|É+", "[a-c]{2}[^d]"];
        let texts =
            ["abcdee", "aeee", "aee", "ae", "😀yz", "xxz", "z", "STRASSE", "STRAẞE", "éÉ", "abd", "ab😀", "abc"];
        for pattern in patterns {
            let (wide, narrow) = (compile(pattern)?, Regex::new(&format!("^(?:{pattern})$"))?);
            for text in texts {
                assert_eq!(wide.is_match(&encode(text)), narrow.is_match(text.as_bytes()), "{pattern} {text}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_has_no_form_says_so() -> Result<(), Box<regex_syntax::Error>> {
        let fault = |pattern: &str| -> Result<_, Box<regex_syntax::Error>> {
            Ok(translate(&regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern)?).err())
        };
        assert_eq!(fault(r"a\b")?, Some(Untranslatable::LookAround));
        assert_eq!(fault(r"(?m)^a")?, Some(Untranslatable::LookAround));
        assert_eq!(fault(r"(?-u:\xff)")?, Some(Untranslatable::RawByte));
        assert_eq!(fault(r"a(?-u:[a-\xff])")?, Some(Untranslatable::RawByte));
        assert_eq!(fault(&r"\w".repeat(4000))?, Some(Untranslatable::TooBig));
        assert_eq!(fault("ab")?, None);
        Ok(())
    }
}
