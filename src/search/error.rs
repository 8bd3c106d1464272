//! Why a pattern can't be searched for, in words for who typed it.

use crate::limits;

/// Why a pattern can't be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Nothing to look for.
    #[error("the pattern is empty")]
    Empty,
    /// Longer than `limits::MAX_PATTERN`.
    #[error("the pattern has {0} bytes; the maximum is {max}", max = limits::MAX_PATTERN)]
    TooLong(usize),
    /// Options that contradict each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// Not a hexadecimal digit.
    #[error("column {column}: {found:?} is not a hexadecimal digit (0-9, a-f, or ? for any digit)")]
    HexDigit {
        /// Counted in characters, from 1.
        column: usize,
        /// What stands there.
        found: char,
    },
    /// A digit without its second one.
    #[error("column {column}: {found:?} is half a byte; write two digits for each byte (?? for any byte)")]
    HalfByte {
        /// Counted in characters, from 1.
        column: usize,
        /// What stands there.
        found: char,
    },
    /// Digits behind `0x` are a number to most people, and bytes in their order are another.
    #[error(
        "0x{0} may be a number or bytes: for an address or number use --pointer 0x{0} (eight bytes, lowest first); for \
         these bytes in this order write {1}"
    )]
    NumberOrBytes(String, String),
    /// `?? ??` is everywhere.
    #[error("the pattern has only wildcards")]
    OnlyWildcards,
    /// Not a regular expression; the text points at the place.
    #[error("{0}")]
    Syntax(String),
    /// The expression compiles to more than is sane.
    #[error("the expression is too big (its automaton has more than {max} bytes)", max = limits::MAX_REGEX)]
    TooBig,
    /// It would match between any two bytes.
    #[error("the expression matches the empty string, so it matches everywhere; require at least one character")]
    MatchesEmpty,
    /// It can't match.
    #[error("the expression can't match anything")]
    MatchesNothing,
    /// `\A` or `\z`.
    #[error("\\A and \\z match the start and end of a text, which memory does not have; use ^ and $ for line ends")]
    TextEnd,
    /// The expression has no form in UTF-16.
    #[error("{0}; try --encoding utf8")]
    NotInUtf16(&'static str),
}
