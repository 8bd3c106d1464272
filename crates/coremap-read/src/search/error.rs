//! Errors of a search pattern, in words for the person who typed it.

use crate::limits;

/// The reason why a pattern can't be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern has no characters.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern is longer than `limits::MAX_PATTERN`.
    #[error("the pattern has {0} bytes; the maximum is {max}", max = limits::MAX_PATTERN)]
    TooLong(usize),
    /// Two options contradict each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// A character is not a hexadecimal digit.
    #[error("column {column}: {found:?} is not a hexadecimal digit (0-9, a-f, or ? for any digit)")]
    HexDigit {
        /// Column in characters, counted from 1.
        column: usize,
        /// Character at that column.
        found: char,
    },
    /// A byte has one digit instead of two.
    #[error("column {column}: {found:?} is half a byte; write two digits for each byte (?? for any byte)")]
    HalfByte {
        /// Column in characters, counted from 1.
        column: usize,
        /// Character at that column.
        found: char,
    },
    /// Digits after `0x` may be a number, or bytes in the order written.
    #[error(
        "0x{0} may be a number or bytes: for an address or number use --pointer 0x{0} (eight bytes, lowest first); for \
         these bytes in this order write {1}"
    )]
    NumberOrBytes(String, String),
    /// The pattern has wildcards only, such as `?? ??`, so it would match everywhere.
    #[error("the pattern has only wildcards")]
    OnlyWildcards,
    /// The regular expression is malformed. The text points at the position.
    #[error("{0}")]
    Syntax(String),
    /// The compiled expression is too large.
    #[error("the expression is too big (its automaton has more than {max} bytes)", max = limits::MAX_REGEX)]
    TooBig,
    /// The expression would match between any two bytes.
    #[error("the expression matches the empty string, so it matches everywhere; require at least one character")]
    MatchesEmpty,
    /// The expression can't match anything.
    #[error("the expression can't match anything")]
    MatchesNothing,
    /// The expression has `\A` or `\z`.
    #[error("\\A and \\z match the start and end of a text, which memory does not have; use ^ and $ for line ends")]
    TextEnd,
    /// The expression can't be expressed over UTF-16.
    #[error("{0}; try --encoding utf8")]
    NotInUtf16(&'static str),
}
