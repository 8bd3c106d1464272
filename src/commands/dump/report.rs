//! The report of `dump`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::Compression;

/// `dump`: the core that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DumpReport {
    /// Path.
    pub file: String,
    /// Length of the file in bytes, after compression if requested.
    pub size: u64,
    /// Bytes on disk: zeros are stored as holes. `null` if the file system does not report it.
    pub on_disk: Option<u64>,
    /// Compression format.
    pub packed: Option<Compression>,
    /// Length of the uncompressed core in bytes.
    pub unpacked: u64,
    /// Commands whose pages it contains, such as `info,threads`. `null` for a full core.
    pub kept_for: Option<String>,
    /// Bytes of memory that it contains.
    pub kept: u64,
    /// Bytes of memory that a core written by the kernel would contain.
    pub in_core: u64,
    /// Number of memory segments.
    pub segments: usize,
}
