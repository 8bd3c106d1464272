use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ImageFormat, LastWordsRow, OsSubject};

/// `info`: the process, and what the dump contains.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InfoReport {
    /// The process.
    pub process: ProcessRow,
    /// How the process ended. `null` if the core does not show that it did, or for a running process.
    pub last_words: Option<LastWordsRow>,
    /// Program files in memory.
    pub modules: Vec<ModuleRow>,
    /// What the dump contains and lacks.
    pub completeness: Completeness,
}

/// The process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Process id.
    pub pid: Option<u32>,
    /// Process id of the parent.
    pub parent: Option<u32>,
    /// User id.
    pub uid: Option<u32>,
    /// Name of the main thread.
    pub name: Option<String>,
    /// Name of the program: the file name in `argv[0]`.
    pub program: Option<String>,
    /// Number of arguments after it.
    pub arguments: Option<u64>,
    /// argv, with `--show-data`. From the stack, or the first 79 bytes from NT_PRPSINFO.
    pub command_line: Option<Vec<String>>,
    /// Whether the command line is known but hidden without `--show-data`.
    pub command_line_withheld: bool,
    /// Program file.
    pub executable: Option<String>,
    /// Environment at process start: names only, or full entries with `--show-data`.
    pub environment: Option<Vec<String>>,
    /// Number of environment entries whose value is hidden. Entries without a name are hidden completely.
    pub environment_withheld: u64,
    /// Signal that caused the dump.
    pub signal: Option<SignalRow>,
    /// Thread that crashed, if the producer records it.
    pub crash_thread: Option<u32>,
    /// Facts about the operating system, each with its evidence.
    pub os: Vec<OsFact>,
    /// Page size in bytes.
    pub page_size: u64,
}

/// Signal that ended the process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SignalRow {
    /// Number.
    pub number: i32,
    /// Name, such as SIGSEGV.
    pub name: String,
    /// `si_code`, if the core has NT_SIGINFO.
    pub code: Option<i32>,
    /// Fault address, for signals that have one.
    pub address: Option<Addr>,
}

/// A fact about the operating system.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OsFact {
    /// Subject of the fact.
    pub what: OsSubject,
    /// Value.
    pub value: String,
    /// The evidence for it.
    pub evidence: String,
}

/// A program file in memory.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ModuleRow {
    /// Path.
    pub path: String,
    /// Lowest address.
    pub base: Addr,
    /// Bytes from the lowest to the highest address.
    pub size: u64,
    /// GNU build id.
    pub build_id: Option<String>,
    /// File format. `null` if its headers are not in the core.
    pub kind: Option<ImageFormat>,
    /// Bytes of it in the core.
    pub in_core: u64,
}

/// What the dump contains and lacks, in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Completeness {
    /// Mapped address space.
    pub mapped: u64,
    /// Bytes in the core.
    pub in_core: u64,
    /// Writable memory that is not in the core.
    pub writable_missing: u64,
    /// Mappings of files that are not in the core.
    pub file_missing: u64,
    /// Shared memory, sockets' buffers and devices that are not in the core.
    pub shared_missing: u64,
    /// Bytes missing at the end of a truncated file.
    pub truncated: u64,
    /// What is missing, and the consequences, in words.
    pub notes: Vec<String>,
}
