//! Regions of the map.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::Name;

/// A region.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RegionRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Length in bytes.
    pub size: u64,
    /// Kind.
    pub kind: Kind,
    /// Thread, arena, file and section, …
    pub detail: Name,
    /// Permissions, as in /proc/PID/maps; `?` if the core does not show them.
    pub perms: String,
    /// Mapped file.
    pub file: Option<Name>,
    /// Bytes of it in the core.
    pub in_core: u64,
    /// Resident bytes. `null` if unknown.
    pub rss: Option<u64>,
    /// Part of `rss` that may belong to another region of the same mapping.
    pub rss_estimated: Option<u64>,
    /// Confidence in the kind.
    pub confidence: Confidence,
    /// Content in words, with `regions --contents`, if it has no known owner.
    pub content: Option<String>,
    /// Bytes of `in_core` in 4 KiB pages that are all zero. `null` if not scanned (`regions --zero-fill`).
    pub zero: Option<u64>,
    /// `in_core` − `zero`: bytes that were written, or dumped from a file.
    pub written: Option<u64>,
}
