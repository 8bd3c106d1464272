//! Which bundled tables may be a runtime's, by its machine and its version.

use std::cmp::Reverse;

use crate::layout::{DOTNET_ARM64, DOTNET_X64, Layout, Table};
use crate::targets::Arch;

/// A bundled table that may be the runtime's.
pub(super) struct Candidate {
    /// Of the table.
    pub(super) major: u32,
    pub(super) table: &'static Table,
    /// Nothing but the structures speaks for it: what GcDacVars says of itself must
    /// be what the table has.
    pub(super) by_shape: bool,
}

/// The tables of a machine, by major version.
pub(super) fn tables(arch: Arch) -> &'static [(u32, Table)] {
    match arch {
        Arch::X86_64 => &DOTNET_X64,
        Arch::Aarch64 => &DOTNET_ARM64,
    }
}

/// The tables to try, in order. A version that has a proven one of its own takes that. Where no
/// version is known, or one newer than any table (builds of one's own call themselves 42),
/// the structures decide; then a newer version may still fit the newest table, as far as
/// that is checked. A version between two proven tables takes the derived one that its structures
/// fit, of those the nearest; one before all belongs to none.
pub(super) fn candidates(tables: &'static [(u32, Table)], version: Option<u32>) -> Vec<Candidate> {
    let of = |(major, table): &'static (u32, Table), by_shape| Candidate { major: *major, table, by_shape };
    let made_from_headers = |t: &&'static (u32, Table)| t.1.layout().is_ok_and(is_derived);
    if let Some(own) = tables.iter().find(|t| Some(t.0) == version).filter(|t| !made_from_headers(t)) {
        return vec![of(own, false)];
    }
    let (derived, proven): (Vec<_>, Vec<_>) = tables.iter().partition(made_from_headers);
    let Some(newest) = proven.iter().max_by_key(|t| t.0) else { return Vec::new() };
    if let Some(major) = version.filter(|&major| major < newest.0) {
        let mut out: Vec<Candidate> = derived.into_iter().map(|t| of(t, true)).collect();
        if out.iter().all(|c| major < c.major) {
            return Vec::new();
        }
        out.sort_by_key(|c| (c.major.abs_diff(major), Reverse(c.major)));
        return out;
    }
    let mut out: Vec<Candidate> = proven.iter().map(|t| of(t, true)).collect();
    out.sort_by_key(|c| Reverse(c.major));
    match version {
        Some(_) => out.push(of(newest, false)),
        None => out.extend(derived.into_iter().rev().map(|t| of(t, true))),
    }
    out
}

/// Whether a bundled table was made from headers alone.
pub(super) fn is_derived(layout: &Layout) -> bool {
    layout.value("TableIsDerived").is_some()
}
