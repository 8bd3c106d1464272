//! Named parts of a module, common to ELF and PE.

use crate::addr::AddrRange;

/// A named part of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Addresses.
    pub range: AddrRange,
    /// Name, from the section table or the type of a program header.
    pub name: String,
}
