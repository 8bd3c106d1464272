//! Rows of tables by kind, and their total.

use crate::map::Kind;
use crate::words::worded;

/// Subject of a row by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KindOrTotal {
    /// Regions of one kind.
    Kind(Kind),
    /// All regions.
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
