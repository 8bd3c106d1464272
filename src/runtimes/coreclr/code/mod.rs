//! Code: the execution manager's ranges, JIT code heaps with nibble maps and code headers, ReadyToRun images, stubs.
//!
//! Resolves an address to a MethodDesc, without names. Sources: docs/design/datacontracts/ExecutionManager.md;
//! src/coreclr/vm: codeman.h, rangesection in codeman.h, nibblemapmacros.h, readytoruninfo.h.

pub(super) mod gc_info;
pub(super) mod heaps;
mod instances;
mod jitted;
mod native_format;
mod nibble;
mod ranges;
mod ready_to_run;
mod stubs;
mod unwind;

pub(super) use jitted::{CodeBlock, CodeHeap};
pub(crate) use ranges::{CodeRange, CodeRangeKind};
pub(super) use ready_to_run::{ReadyToRun, ReadyToRunMethod};
pub(crate) use stubs::Stub;
pub(super) use unwind::{UnwindEntry, UnwindError, dwarf, gc_info_address, unwind, unwind_from_sp};

pub(super) use ranges::read as read_ranges;
pub(super) use stubs::decode as decode_stub;
