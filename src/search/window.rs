//! A window of memory that is searched in one go, and how much around a match it must show.

use std::ops::Range;

use crate::addr::Addr;

/// Bytes to be searched in one go.
pub(super) struct Window<'b> {
    /// The bytes, with context around those where a match may start.
    pub(super) bytes: &'b [u8],
    /// Address of the first of them.
    pub(super) base: Addr,
    /// Indices where a match may start.
    pub(super) starts: Range<usize>,
    /// Whether they are known to be zero without a look.
    pub(super) zeros: bool,
}

/// How far around a place the bytes must be known to judge it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Bytes before a match's first one.
    pub(super) before: usize,
    /// Bytes after a match's first one.
    pub(super) after: usize,
    /// Where all of a match's bytes but the last are zero, it starts at most
    /// this far before that one.
    pub(super) back: usize,
}
