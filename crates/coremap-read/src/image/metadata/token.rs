//! Metadata tokens (ECMA-335 III.1.9).

use std::fmt;

use super::table::Table;

/// A row of a metadata table: the table's number in the top byte, the 1-based row below
/// it. Row 0 is nil.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u32);

/// Mask of the bits that contain the row.
pub(super) const RID: u32 = 0x00ff_ffff;

impl Token {
    /// Returns the token of row `rid` in `table`.
    pub fn new(table: Table, rid: u32) -> Token {
        Token((table as u32) << 24 | (rid & RID))
    }

    /// Returns its table. `None` if the number is unknown.
    pub fn table(self) -> Option<Table> {
        Table::from_number((self.0 >> 24) as u8)
    }

    /// Returns its 1-based row. 0 is nil.
    pub fn rid(self) -> u32 {
        self.0 & RID
    }

    /// Whether it is nil.
    pub fn is_nil(self) -> bool {
        self.rid() == 0
    }

    /// Returns its row, if it is a row of `table` and not nil.
    pub fn rid_in(self, table: Table) -> Option<u32> {
        (self.table() == Some(table) && !self.is_nil()).then(|| self.rid())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
