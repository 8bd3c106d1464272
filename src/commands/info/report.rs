use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ImageFormat, OsSubject};

/// `info`: the process and what the dump holds of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InfoReport {
    /// The process.
    pub process: ProcessRow,
    /// Program files in memory.
    pub modules: Vec<ModuleRow>,
    /// What this dump holds and lacks.
    pub completeness: Completeness,
}

/// The process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Process id.
    pub pid: Option<u32>,
    /// Parent's id.
    pub parent: Option<u32>,
    /// User id.
    pub uid: Option<u32>,
    /// Main thread's name.
    pub name: Option<String>,
    /// The program's own name in its arguments: the file name of `argv[0]`.
    pub program: Option<String>,
    /// How many arguments follow it.
    pub arguments: Option<u64>,
    /// argv, with `--show-data`; from the stack, or the first 79 bytes from NT_PRPSINFO.
    pub command_line: Option<Vec<String>>,
    /// Whether the command line is known, and not shown without `--show-data`.
    pub command_line_withheld: bool,
    /// Program file.
    pub executable: Option<String>,
    /// Environment at the start: names, or the entries as they are with `--show-data`.
    pub environment: Option<Vec<String>>,
    /// Entries of the environment of which no more than the name is shown; of those without
    /// a name, nothing is.
    pub environment_withheld: u64,
    /// Signal it was dumped by.
    pub signal: Option<SignalRow>,
    /// Thread that crashed, where the producer tells.
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
    /// Name, e.g. SIGSEGV.
    pub name: String,
    /// `si_code`, where NT_SIGINFO is there.
    pub code: Option<i32>,
    /// Faulting address, for signals that have one.
    pub address: Option<Addr>,
}

/// Something known of the operating system.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OsFact {
    /// What it is about.
    pub what: OsSubject,
    /// What is known.
    pub value: String,
    /// What proves it.
    pub evidence: String,
}

/// A program file in memory.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ModuleRow {
    /// Path.
    pub path: String,
    /// Lowest address.
    pub base: Addr,
    /// From the lowest to the highest address, in bytes.
    pub size: u64,
    /// GNU build id.
    pub build_id: Option<String>,
    /// Its form; `null` where its headers are not in the core.
    pub kind: Option<ImageFormat>,
    /// Bytes of it that the core holds.
    pub in_core: u64,
}

/// What this dump holds and lacks, in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Completeness {
    /// Address space known.
    pub mapped: u64,
    /// Held by the core.
    pub in_core: u64,
    /// Of writable memory, left out.
    pub writable_missing: u64,
    /// Of file mappings, left out.
    pub file_missing: u64,
    /// Cut off at the end of the file.
    pub truncated: u64,
    /// What is missing and what that costs, in words.
    pub notes: Vec<String>,
}
