//! Sources of a layout's numbers.

use std::fmt;
use std::sync::Arc;

/// Source of a number in a layout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The bundled table with this ID.
    Table(Arc<str>),
    /// The runtime's contract descriptor (.NET 9 and later).
    Descriptor,
    /// Tables in the runtime's memory, by the name of the first (HotSpot's `gHotSpotVMStructs`).
    Runtime(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Table(id) => write!(f, "table {id}"),
            Origin::Descriptor => f.write_str("the runtime's own descriptor"),
            Origin::Runtime(name) => write!(f, "{name} in the runtime's memory"),
        }
    }
}
