//! Where a layout's numbers come from.

use std::fmt;
use std::sync::Arc;

/// Where a number of a layout comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A table that is bundled with the program, by its id.
    Table(Arc<str>),
    /// What the runtime's contract descriptor says (.NET 9 and later).
    Descriptor,
    /// Tables that a runtime keeps in its memory, by the name of the first (HotSpot's
    /// `gHotSpotVMStructs`).
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
