//! A window of memory that is searched at once, and the context that a match needs.

use std::ops::Range;

use crate::addr::Addr;

/// Bytes searched at once.
pub(super) struct Window<'b> {
    /// Bytes, with context around the match starts.
    pub(super) bytes: &'b [u8],
    /// Address of the first byte.
    pub(super) base: Addr,
    /// Indices at which a match may start.
    pub(super) starts: Range<usize>,
    /// Whether all bytes are known to be zero without reading them.
    pub(super) zeros: bool,
}

/// Context around a match that must be in the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Bytes before a match's first byte.
    pub(super) before: usize,
    /// Bytes after a match's first byte.
    pub(super) after: usize,
    /// Maximum distance in bytes from a match's start to its last byte, if all other bytes
    /// are zero.
    pub(super) back: usize,
}
