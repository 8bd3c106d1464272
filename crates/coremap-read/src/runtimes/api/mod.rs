//! Interface to managed runtimes: heaps of typed objects, references, roots, threads, frames and code.
//!
//! Each runtime (`coreclr`, `nativeaot`, `hotspot`, `cpython`) implements the traits of this room. What follows from
//! them is computed once for all: sums by type and equal strings here, paths from roots and dominators in `graph`. This
//! room reads no runtime's structures and names no runtime in its code.

mod across;
pub mod anatomy;
mod clr_gc;
mod code;
mod collector;
mod events;
pub mod fields;
mod frames;
mod heap;
mod holders;
mod id;
mod isolates;
mod last_words;
pub(crate) mod linear;
mod locks;
mod names;
mod native_memory;
mod pending;
mod retained_sizes;
mod roots;
mod runtime;
mod small_blocks;
pub(crate) mod space;
mod stat;
mod strings;
mod tasks;
pub(crate) mod type_table;
mod waits;

pub use crate::registers::Regs;
pub use crate::words::TaskEndKind;
pub use across::OTHER_RUNTIME;
pub(crate) use across::find_fields;
pub use clr_gc::{ClrGc, ClrHeaps, FinalizeQueue, Handle, Segment};
pub use code::{
    CodeAt, CodeEntry, CodeEntryKind, CodeFile, CodeStub, CodeVersion, Inlined, ManagedCode, Method, MethodDetail,
    MethodRole, Source, UnwindError,
};
pub use collector::{AllocationCounts, AllocationProfile, AllocationSite};
pub use events::EventSession;
pub use frames::{
    Activation, Caller, Execution, FrameAt, FrameKind, LightFrame, ListedMethods, ManagedFrame, ManagedRun, Mark,
    Position, ProtectedRef, StackFrame, StackWalk,
};
pub use heap::{
    BlockHeap, Elements, FREE, FREE_NAME, Generation, Heap, HeapRange, Link, Node, Object, ObjectBatch, ObjectReader,
    StringContent, StringUnits, TypeIndex, TypeInfo, TypeOrigin, UnwalkedRange, UnwalkedRanges, Walker, locate,
};
pub(crate) use heap::{RefBatch, all_types};
pub use holders::{NamedStatics, StaticRoot, TypeRole};
pub use id::RuntimeId;
pub use isolates::{IsolateSizes, IsolateSpace};
pub use last_words::{FailedAllocation, KeptFailure, LastWords, OutOfMemory, OwnEnd};
pub use locks::{ExceptionList, ListedException, ListedLock, LockList, LockParty};
pub use names::FieldKey;
#[doc(hidden)]
pub use names::ObjectNames;
pub use native_memory::{
    AllocationTrace, AllocationTraces, BlockLabel, BlockLabels, OwnedBuffer, Survivors, buffer_at,
};
pub use pending::{PendingMethod, PendingSemaphore, PendingTasks, TaskEnd};
pub use retained_sizes::RetainedSizes;
pub use roots::FINALIZER_QUEUE;
pub use roots::{FrameSlotLocation, RefFrame, RefLocation, Root, RootKind, Roots, StackCoverage};
pub use runtime::{
    KindBytes, LightThread, Locks, ManagedRuntime, ManagedThread, ManagedThreads, RuntimeFindings, Structure,
};
pub use small_blocks::{SmallArena, SmallBlock, SmallBlockSums, SmallBlocks, SmallClass};
pub use space::Space;
pub use stat::{FreeBlock, HeapStat, Selection, Tally, TypeStat, stat};
pub use strings::{Duplicate, StringStat, strings};
pub use tasks::{AsyncFrame, AsyncFunctions, AsyncTask, AsyncTasks};
pub use waits::{
    Activity, CARRIERS, Executor, PartyId, RequestSet, TaskDetail, TaskFact, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
