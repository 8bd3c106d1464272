//! Rows of a table by kind, and the one that sums them up.

use crate::map::Kind;
use crate::words::worded;

/// What a row by kind is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KindOrTotal {
    /// Regions of one kind.
    Kind(Kind),
    /// All of them.
    #[default]
    Total,
}

impl KindOrTotal {
    /// All values.
    pub fn all() -> impl Iterator<Item = KindOrTotal> {
        Kind::ALL.iter().map(|kind| KindOrTotal::Kind(*kind)).chain([KindOrTotal::Total])
    }

    /// The kind's name, or `total`.
    pub const fn name(self) -> &'static str {
        match self {
            KindOrTotal::Kind(kind) => kind.name(),
            KindOrTotal::Total => "total",
        }
    }
}

worded!(KindOrTotal, "A kind of region, or `total`.");
