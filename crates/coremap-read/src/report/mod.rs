//! Plain data of the answers: the JSON contract. This room has the header of every answer, rows that readers fill in,
//! and rows that several commands share. Rows of one command are in its folder in `coremap::commands`.
//!
//! Addresses are strings like `"0x7f42d256e000"`, sizes are integers in bytes, and an unknown value is `null`, never 0.
//! Fields may be added. Existing fields keep their name and meaning.

mod blocks;
mod conditions;
mod finding_ids;
mod kind_or_total;
mod listed;
mod lost;
mod native_holders;
mod pointer_source;
mod region;
mod resident;
mod roots;
mod sums;

pub use crate::facts::{
    CallRow, CollectionDetail, DelegateDetail, DimensionRow, ElementRow, EntryRow, ExceptionDetail, ExecutorRow,
    FieldRow, Finding, FrameRow, HeldRow, InlinedRow, InvolvedBlockRow, LastWordsRow, Name, ObjectReport, OperandRow,
    QueuedRow, RuntimeRow, Severity, SyscallRow, ThreadRow, ThreadValueRow, ThrownRow, TimerRow, TraceRow,
    WaitOwnerRow, WaitRow,
};
#[doc(hidden)]
pub use crate::facts::{FrameNames, Shown};
pub use crate::words::{
    AllocatorName, AsyncEnd, AsyncPart, AsyncState, BlockBorders, BlockContent, BlockRole, BufferMemory, ChunkPlace,
    ChunkState, ClusterContent, CodeKind, CodePart, Compression, Execution, ExportFormat, ExportSubject, FaultCause,
    FieldStorage, FinalizerState, FrameRowKind, GcMode, Generation, HandleKind, HitEncoding, HolderState, ImageFormat,
    Kept, LastWordsKind, LockKind, Measure, NativeRootKind, OsSubject, OwnerState, Part, RecordingEnd, SecretKind,
    SecretSeverity, SeriesClock, SeriesOf, StackState, TargetKind, TaskStatus, TextFormat, Trust, Verdict, WaitKind,
};
pub use blocks::{ChunkRow, ChunkSum, ClusterRow, SizeClassRow};
pub use conditions::ConditionRow;
pub use finding_ids::{FINDING_IDS, finding_id};
pub use kind_or_total::KindOrTotal;
pub use listed::ListedObject;
pub use lost::{AddrRangeRow, LossRow, LostRow};
pub use native_holders::{BlockOwnerRow, NativeHeldRow, NativeRootRow, NativeTypeRow};
pub use pointer_source::PointerSource;
pub use region::RegionRow;
pub use resident::Resident;
pub use roots::{ChainRow, RootFrameRow, RootPathRow, StackRootsRow, StretchRow};
pub use sums::{GenerationRow, ObjectsRow, TypeRow};

use schemars::JsonSchema;
use serde::Serialize;

use crate::diag::Warning;
use crate::targets::{Arch, Producer, Truncation};

/// Version of the JSON format.
pub const SCHEMA_VERSION: u32 = 1;

/// Fields common to all answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub struct Envelope<T> {
    /// Version of the JSON format: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of coremap.
    pub coremap: &'static str,
    /// Name of the command.
    pub command: &'static str,
    /// The core or process.
    pub core: CoreRow,
    /// What could not be read or understood.
    pub warnings: Vec<Warning>,
    /// Fields of the command.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Envelope<T> {
    /// Creates the answer of a command, with the version of this program.
    pub fn new(command: &'static str, core: CoreRow, warnings: Vec<Warning>, body: T) -> Envelope<T> {
        Envelope { schema_version: SCHEMA_VERSION, coremap: env!("CARGO_PKG_VERSION"), command, core, warnings, body }
    }
}

/// A managed runtime that was found and could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreadRow {
    /// Name of the runtime.
    pub name: String,
    /// Name of its library. A folder with the same build of it, given by `--symbols`, may be what is missing. `null` if it
    /// has none.
    pub file: Option<String>,
    /// Why it could not be read: the text of the warning.
    pub why: String,
}

/// The core or process that an answer is about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreRow {
    /// Path as given.
    pub path: String,
    /// Size of the (uncompressed) file in bytes.
    pub size: u64,
    /// Compression format.
    pub packed: Option<Compression>,
    /// Program that wrote it.
    pub producer: Producer,
    /// Architecture.
    pub arch: Arch,
    /// Process id.
    pub pid: Option<u32>,
    /// Whether the file is truncated.
    pub truncated: bool,
    /// Number of missing bytes, if truncated.
    pub truncation: Option<Truncation>,
    /// Number of threads.
    pub threads: usize,
    /// Managed runtimes found in it.
    pub runtimes: Vec<RuntimeRow>,
    /// Managed runtimes found in it that could not be read.
    pub unread: Vec<UnreadRow>,
    /// For a running process: how long it was stopped for this answer, in milliseconds; 0 with `--no-stop`. `null` for
    /// a core.
    pub stopped_ms: Option<f64>,
}
