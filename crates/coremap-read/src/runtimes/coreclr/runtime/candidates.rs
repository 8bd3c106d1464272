//! Candidate tables of structures for a runtime, by machine and version.

use std::cmp::Reverse;

use crate::layout::{DOTNET_ARM64, DOTNET_X64, Layout, Table};
use crate::targets::Arch;

/// A bundled table that may fit the runtime.
pub(super) struct Candidate {
    /// Major version of the table.
    pub(super) major: u32,
    pub(super) table: &'static Table,
    /// Nothing but its structures supports this table, so GcDacVars must match it.
    pub(super) by_shape: bool,
}

/// Bundled tables of a machine, by major version.
pub(super) fn tables(arch: Arch) -> &'static [(u32, Table)] {
    match arch {
        Arch::X86_64 => &DOTNET_X64,
        Arch::Aarch64 => &DOTNET_ARM64,
    }
}

/// Returns the tables to try, in order.
///
/// - A version with a proven table of its own uses only that.
/// - If the version is unknown, or newer than any table (private builds have version 42), the structures decide. A
///   newer version may then still use the newest table, as far as that can be checked.
/// - A version between two proven tables uses the derived table that its structures fit, nearest version first. A
///   version older than all tables has none.
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
