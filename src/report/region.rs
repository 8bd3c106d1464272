//! Regions of the map.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::Name;

/// One region.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RegionRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Length in bytes.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    /// Which one: thread, arena, file and section.
    pub detail: Name,
    /// As in /proc/PID/maps; `?` where the core can't tell.
    pub perms: String,
    /// File mapped here.
    pub file: Option<Name>,
    /// Bytes of it that the core holds.
    pub in_core: u64,
    /// Bytes of it that were in RAM; `null` where that is not known.
    pub rss: Option<u64>,
    /// Of `rss`, what may be another region's of the same mapping.
    pub rss_estimated: Option<u64>,
    /// How sure its kind is.
    pub confidence: Confidence,
    /// What fills it, in words, where that was asked for (`regions --contents`) and nobody claims it.
    pub content: Option<String>,
    /// Of `in_core`, bytes in whole 4 KiB pages that are all zero; `null` if not scanned (`regions --zero-fill`).
    pub zero: Option<u64>,
    /// `in_core` − `zero`: what was written, or dumped of a file.
    pub written: Option<u64>,
}
