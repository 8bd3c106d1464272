//! What the commands answer, as plain data: the JSON contract.
//!
//! Addresses are strings `"0x7f42d256e000"`, sizes integers in bytes, unknown
//! is `null`, never 0. Fields may be added; those there keep name and meaning.

mod anon;
mod async_chains;
mod conditions;
mod diff;
mod graph;
mod heap;
mod heapstat;
mod holders;
mod info;
mod ip2method;
mod kind_or_total;
mod leaks;
mod malloc;
mod name;
mod object;
mod objects;
mod perfmap;
mod pointer_source;
mod refs;
mod regions;
mod retained;
mod shrink;
mod stacks;
mod summary;
mod symbolicate;
mod threads;
mod whatis;

pub use crate::commands::schema;
pub use crate::words::{
    AllocatorName, AsyncEnd, AsyncPart, BlockBorders, BlockContent, ChunkPlace, ChunkState, ClusterContent, CodeKind,
    CodePart, Compression, FieldStorage, FinalizerState, FrameRowKind, GcMode, Generation, HandleKind, HitEncoding,
    ImageFormat, OsSubject, StackState, TargetKind, TaskStatus, TextFormat, Trust, WaitKind,
};
pub use anon::{AnonReport, BlockClusterRow, OwnerRow};
pub use async_chains::{AsyncChainRow, AsyncFrameRow, AsyncReport};
pub use conditions::ConditionRow;
pub use diff::{CountDelta, DiffReport, DiffRow, DiffSide, SizeDelta, TypeDelta};
pub use graph::{
    ChainRow, GcRootReport, GcRootTypesReport, HandleKindRow, HandleRow, HandlesReport, RootFrameRow, RootGroupRow,
    RootPathRow, StackRootsRow, StepRow, StretchRow,
};
pub use heap::{GcRow, HeapReport, LoaderBlockRow, LoaderHeapRow, SegmentRow};
pub use heapstat::{
    AddrRangeRow, DuplicateRow, FreeBlockRow, GenerationRow, HeapStatReport, LossRow, LostRow, ObjectsRow, StringsRow,
    TypeRow,
};
pub use holders::{HeldTotal, HolderRow, HoldersReport};
pub use info::{Completeness, InfoReport, ModuleRow, OsFact, ProcessRow, SignalRow};
pub use ip2method::{Ip2MethodReport, IpRow, VersionRow};
pub use kind_or_total::KindOrTotal;
pub use leaks::{LeakedRow, LeaksReport};
pub use malloc::{
    AllocatorRow, ArenaRow, ChunkRow, ChunkSum, ClusterRow, FreeRow, MallocParamsRow, MallocReport, MallocTotal,
    MmappedRow, SizeClassRow, TcacheRow,
};
pub use name::Name;
pub(crate) use name::Shown;
pub use object::{
    CallRow, CollectionDetail, DelegateDetail, DimensionRow, ElementRow, EntryRow, ExceptionDetail, FieldRow,
    ObjectReport, ThreadValueRow, TraceRow,
};
pub use objects::{
    ExceptionRow, ExceptionsReport, FinalizerRow, FinalizerTypeRow, FinalizersReport, ListedObject, LockThreadRow,
    ObjectsReport, SyncBlockRow, SyncBlocksReport,
};
pub use perfmap::{PerfMapReport, PerfMapRow};
pub use pointer_source::PointerSource;
pub use refs::{RefCountRow, RefRow, RefsReport, TargetRow};
pub use regions::{RegionRow, RegionsReport};
pub use retained::{RetainedReport, RetainedRow, RetainedTypeRow, RootSumRow};
pub use shrink::ShrinkReport;
pub use stacks::{StackGroup, StackRow, StacksReport, StacksTotal};
pub use summary::{BaseRow, Finding, KindRow, MallocSplit, Severity, SummaryReport, TotalRow};
pub use symbolicate::{SymbolicateReport, TextFrameRow};
pub(crate) use threads::FrameNames;
pub use threads::{FrameRow, GroupRow, ThreadRow, ThreadsReport, ThrownRow, WaitRow};
pub use whatis::{BlockRow, ClaimRow, WhatisReport};

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::diag::Warning;
use crate::map::Kind;
use crate::map::audit::{Conflict, Invariant};
use crate::targets::{Arch, Producer, Truncation};

/// Version of the JSON form.
pub const SCHEMA_VERSION: u32 = 1;

/// What every answer begins with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub struct Envelope<T> {
    /// Version of the JSON form: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of coremap.
    pub coremap: &'static str,
    /// Name of the command.
    pub command: &'static str,
    /// The core it is about.
    pub core: CoreRow,
    /// What could not be read or understood.
    pub warnings: Vec<Warning>,
    /// The command's own fields.
    #[serde(flatten)]
    pub body: T,
}

/// The core a report is about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreRow {
    /// Path as given.
    pub path: String,
    /// Size of the (unpacked) file in bytes.
    pub size: u64,
    /// What it was packed with.
    pub packed: Option<Compression>,
    /// The program that wrote it.
    pub producer: Producer,
    /// The machine.
    pub arch: Arch,
    /// Process id.
    pub pid: Option<u32>,
    /// Whether the file is cut off.
    pub truncated: bool,
    /// How much is missing where it is.
    pub truncation: Option<Truncation>,
    /// Number of threads.
    pub threads: usize,
    /// Managed runtimes found in it.
    pub runtimes: Vec<RuntimeRow>,
}

/// A managed runtime in the process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuntimeRow {
    /// Its name, e.g. `.NET`.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// File it is loaded from.
    pub module: String,
    /// Where it is loaded.
    pub base: Addr,
    /// Its collector, in the runtime's own words (.NET: workstation or server); `null` where its GC can't be read.
    pub gc: Option<&'static str>,
    /// What its structs are read by.
    pub layout_source: String,
}

/// `search`
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchReport {
    /// What was looked for, as given.
    pub pattern: String,
    /// Matches, by address.
    pub hits: Vec<HitRow>,
    /// Matches in all, also those beyond the limit.
    pub total: u64,
    /// Bytes of memory looked at.
    pub scanned: u64,
}

/// One match.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HitRow {
    /// Where it begins.
    pub address: Addr,
    /// In which form it was found.
    pub encoding: HitEncoding,
    /// Kind of the region it lies in.
    pub kind: Option<Kind>,
    /// Which one, and where in it.
    pub detail: String,
    /// Its length in bytes.
    pub length: u64,
    /// The text around it, where that was asked for.
    pub context: Option<String>,
}

/// `check`
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// What must hold.
    pub invariants: Vec<Invariant>,
    /// Sure claims that contradict each other.
    pub conflicts: Vec<Conflict>,
}
