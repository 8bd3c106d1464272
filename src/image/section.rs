//! The parts of a module that have a name: what ELF and PE have in common.

use crate::addr::AddrRange;

/// A named part of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Addresses.
    pub range: AddrRange,
    /// Name, from the section table or by what a program header stands for.
    pub name: String,
}
