//! Checks and compiles a search pattern.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use regex_syntax::{ParserBuilder, escape};

use crate::addr::Addr;
use crate::limits;
use crate::search::error::PatternError;
use crate::search::hex::{self, Masked};
use crate::search::needle::{HitEncoding, Needle};
use crate::search::prefilter::Prefilter;
use crate::search::utf16;
use crate::search::window::Reach;

/// Bytes before and after a match that look-around such as `\b` may read: one UTF-8 character.
const CONTEXT: usize = 4;

/// Encodings in which text is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 and UTF-16LE.
    #[default]
    Both,
    /// UTF-8 only.
    Utf8,
    /// UTF-16LE only, the encoding of strings in .NET and Java.
    Utf16,
}

/// Interpretation of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternOptions {
    /// Ignore case (Unicode simple case folding).
    pub ignore_case: bool,
    /// The pattern is a regular expression in the regex crate's syntax. `^` and `$` match at line
    /// ends. There is no start or end of a text.
    pub regex: bool,
    /// The pattern is bytes in hexadecimal, with `?` for any nibble.
    pub hex: bool,
    /// Encodings of text.
    pub encoding: Encoding,
}

/// A compiled pattern, shared by all threads.
pub struct Pattern {
    /// One needle for each encoding; at most two.
    pub(super) needles: Vec<Needle>,
    note: Option<String>,
}

impl Pattern {
    /// Compiles `text` according to `options`.
    ///
    /// # Errors
    /// Returns a [`PatternError`], in words for the person who typed the pattern.
    pub fn new(text: &str, options: PatternOptions) -> Result<Pattern, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > limits::MAX_PATTERN {
            return Err(PatternError::TooLong(text.len()));
        }
        if options.hex {
            return Pattern::hex(text, options);
        }
        let (narrow, wide) = match options.encoding {
            Encoding::Both => (true, true),
            Encoding::Utf8 => (true, false),
            Encoding::Utf16 => (false, true),
        };
        let mut pattern = Pattern { needles: Vec::new(), note: None };
        if !options.regex && !options.ignore_case {
            if narrow {
                let bytes = Masked::exact(text.as_bytes().to_vec());
                pattern.needles.push(Needle::bytes(HitEncoding::Utf8, bytes));
            }
            if wide {
                let bytes = Masked::exact(utf16::encode(text));
                pattern.needles.push(Needle::bytes(HitEncoding::Utf16, bytes));
            }
            return Ok(pattern);
        }
        let source = if options.regex { text.to_owned() } else { escape(text) };
        let hir = parse(&source, options.ignore_case)?;
        // Compiled even if only UTF-16 is searched: this refuses hostile sizes before the larger
        // form is made.
        let regex = compile(RegexBuilder::new(&source).case_insensitive(options.ignore_case).multi_line(true))?;
        if narrow {
            pattern.needles.push(needle(HitEncoding::Utf8, regex, &hir, options.regex));
        }
        if wide {
            match utf16::translate(&hir) {
                Ok(hir) => {
                    let mut printed = String::new();
                    regex_syntax::hir::print::Printer::new()
                        .print(&hir, &mut printed)
                        .map_err(|_| PatternError::TooBig)?;
                    let regex = compile(RegexBuilder::new(&printed).unicode(false))?;
                    pattern.needles.push(needle(HitEncoding::Utf16, regex, &hir, options.regex));
                }
                Err(fault) if narrow => {
                    pattern.note = Some(format!("searched as UTF-8 only: {}", fault.reason()));
                }
                Err(fault) => return Err(PatternError::NotInUtf16(fault.reason())),
            }
        }
        Ok(pattern)
    }

    fn hex(text: &str, options: PatternOptions) -> Result<Pattern, PatternError> {
        if options.regex {
            return Err(PatternError::Conflict("--hex and --regex can't be combined"));
        }
        if options.ignore_case {
            return Err(PatternError::Conflict("-i applies to letters; it can't be combined with --hex"));
        }
        if options.encoding != Encoding::Both {
            return Err(PatternError::Conflict("--encoding applies to text; it can't be combined with --hex"));
        }
        let needles = vec![Needle::bytes(HitEncoding::Hex, hex::parse(text)?)];
        Ok(Pattern { needles, note: None })
    }

    /// Creates a pattern for words with the value `address`: its eight bytes, lowest first, at
    /// multiples of eight.
    pub fn pointer(address: Addr) -> Pattern {
        let bytes = Masked::exact(address.get().to_le_bytes().to_vec());
        let mut needle = Needle::bytes(HitEncoding::Pointer, bytes);
        needle.align = 8;
        Pattern { needles: vec![needle], note: None }
    }

    /// Returns what the user should know about the search: that UTF-16 was left out, and why.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns a prefilter for blocks, if the pattern allows one.
    pub(super) fn prefilter(&self) -> Option<Prefilter<'_>> {
        let masked: Option<Vec<&Masked>> = self.needles.iter().map(Needle::masked).collect();
        Prefilter::of(&masked?)
    }

    /// Whether bytes that are all zero can match.
    pub(super) fn matches_zeros(&self) -> bool {
        self.needles.iter().any(|n| n.matches_zeros)
    }

    /// Returns the context that a match needs.
    pub(super) fn reach(&self) -> Reach {
        let back = self.needles.iter().map(|n| n.longest.saturating_sub(1)).max().unwrap_or(0);
        let context = if self.needles.iter().any(|n| n.looks_around) { CONTEXT } else { 0 };
        Reach { before: context, after: back + context, back }
    }
}

fn parse(source: &str, ignore_case: bool) -> Result<Hir, PatternError> {
    let hir = ParserBuilder::new()
        .utf8(false)
        .case_insensitive(ignore_case)
        .multi_line(true)
        .build()
        .parse(source)
        .map_err(|e| PatternError::Syntax(e.to_string()))?;
    let properties = hir.properties();
    let looks = properties.look_set();
    if looks.contains(Look::Start) || looks.contains(Look::End) {
        return Err(PatternError::TextEnd);
    }
    match properties.minimum_len() {
        None => Err(PatternError::MatchesNothing),
        Some(0) => Err(PatternError::MatchesEmpty),
        Some(_) => Ok(hir),
    }
}

fn compile(builder: &mut RegexBuilder) -> Result<Regex, PatternError> {
    let built = builder.size_limit(limits::MAX_REGEX).dfa_size_limit(limits::MAX_REGEX).build();
    built.map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => PatternError::TooBig,
        other => PatternError::Syntax(other.to_string()),
    })
}

fn needle(encoding: HitEncoding, regex: Regex, hir: &Hir, is_regex: bool) -> Needle {
    let longest = hir.properties().maximum_len().unwrap_or(usize::MAX);
    let mut needle = Needle::regex(encoding, regex);
    // The length of the pattern limits text that ignores case.
    needle.longest = if is_regex { longest.min(limits::MAX_MATCH) } else { longest };
    needle.overlaps = !is_regex;
    needle.looks_around = !hir.properties().look_set().is_empty();
    needle.matches_zeros = matches_zeros(hir);
    needle
}

/// Whether a match of `hir` may consist of zero bytes only.
fn matches_zeros(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => literal.0.iter().all(|&b| b == 0),
        HirKind::Class(Class::Unicode(class)) => class.ranges().first().is_some_and(|r| r.start() == '\0'),
        HirKind::Class(Class::Bytes(class)) => class.ranges().first().is_some_and(|r| r.start() == 0),
        HirKind::Repetition(repetition) => repetition.min == 0 || matches_zeros(&repetition.sub),
        HirKind::Capture(capture) => matches_zeros(&capture.sub),
        HirKind::Concat(subs) => subs.iter().all(matches_zeros),
        HirKind::Alternation(subs) => subs.iter().any(matches_zeros),
    }
}
