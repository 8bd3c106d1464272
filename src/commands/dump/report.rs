//! The core that was written of a process that runs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::Compression;

/// `dump`: the core that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DumpReport {
    /// Its path.
    pub file: String,
    /// Its length in bytes, as it is: compressed where it was asked for.
    pub size: u64,
    /// Bytes that it takes on the disk: zeros are holes. `null`: the file system does not tell.
    pub on_disk: Option<u64>,
    /// What it is compressed with.
    pub packed: Option<Compression>,
    /// Length in bytes of the core that comes out of it.
    pub unpacked: u64,
    /// Commands whose pages it keeps, as `info,threads`; `null`: it is a full core.
    pub kept_for: Option<String>,
    /// Bytes of memory that it holds.
    pub kept: u64,
    /// Bytes of memory that a core of the kernel would hold.
    pub in_core: u64,
    /// Its segments of memory.
    pub segments: usize,
}
