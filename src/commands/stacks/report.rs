use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::{Finding, Resident, StackState};

/// `stacks`: what thread stacks reserve and use.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StacksReport {
    /// Stacks of live threads in the order of the core, each followed by other stacks that the thread uses. Then stacks
    /// of no live thread, then threads without a stack.
    pub stacks: Vec<StackRow>,
    /// Stacks grouped by activity, largest groups first.
    pub groups: Vec<StackGroup>,
    /// Sums over all stacks.
    pub total: StacksTotal,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// One stack. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackRow {
    /// The thread that owns the stack; one row per thread. `null` for a stack cached after its thread ended, and for a
    /// stack that a thread uses besides its own.
    pub tid: Option<u32>,
    /// The thread that uses it besides its own stack. `null` for a thread's own stack.
    pub used_by: Option<u32>,
    /// Name of the thread, if the core has it.
    pub name: Option<String>,
    /// Managed thread id, if a runtime has one.
    pub managed_id: Option<u32>,
    /// Whether its thread caused the dump.
    pub crashed: bool,
    /// Activity of the thread: its innermost function, and the code that called it. `null` if neither is known.
    pub does: Option<String>,
    /// What the stack is used for. Unknown if no stack was found.
    pub state: StackState,
    /// Kind of this memory in the map: Stack, or Malloc if the program runs on a malloc block. Only Stack counts in the
    /// total.
    pub kind: Option<Kind>,
    /// Lowest usable address.
    pub low: Option<Addr>,
    /// First address above the stack.
    pub high: Option<Addr>,
    /// `high` − `low`.
    pub reserved: Option<u64>,
    /// Bytes of guard pages below the stack and at its low end. 0 if there are none, `null` if unknown.
    pub guard: Option<u64>,
    /// Lowest address in use: the stack pointer, or the one saved when a signal interrupted the thread. `null` if
    /// unknown.
    pub sp: Option<Addr>,
    /// Whether the thread's own stack pointer is in it now.
    pub current: bool,
    /// Bytes from `sp` to `high`. `null` if unknown.
    pub in_use: Option<u64>,
    /// High-water mark: bytes from the lowest non-zero page to `high`. `null` without `--zero-fill`, if the contents
    /// are lost, and if the core lacks a lower page of the stack, as mini dumps do.
    pub touched: Option<u64>,
    /// Bytes that the core contains.
    pub in_core: u64,
    /// Whether the stack pointer, or the one that a signal interrupted, is below the stack: it overflowed.
    pub overflowed: bool,
    /// Whether the core has only zeros for it although its thread runs on it. Its contents are lost, and how much was
    /// written is unknown. gdb up to 13 writes such cores with glibc 2.42 and newer, which has the guard inside the
    /// mapping.
    pub lost: bool,
    /// Bytes in pages that are all zero. `null` if `touched` is.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
    /// Confidence in the stack. `null` if no stack was found.
    pub confidence: Option<Confidence>,
    /// The evidence for it.
    pub source: String,
}

/// Sums over all stacks. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StacksTotal {
    /// Number of stacks.
    pub count: u64,
    /// Number of them cached after their threads ended.
    pub cached: u64,
    /// Reserved bytes without guards.
    pub reserved: u64,
    /// Bytes of guards, including guard zones within stacks.
    pub guard: u64,
    /// Bytes from the stack pointers up.
    pub in_use: u64,
    /// Sum of the high-water marks. `null` if one is unknown.
    pub touched: Option<u64>,
    /// Bytes that the core contains.
    pub in_core: u64,
    /// Bytes in zero pages.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
}

/// Threads with the same activity, and their stacks. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackGroup {
    /// Their activity. `null` if unknown.
    pub does: Option<String>,
    /// Number of threads.
    pub count: u64,
    /// Ids of the first threads.
    pub tids: Vec<u32>,
    /// Reserved bytes without guards.
    pub reserved: u64,
    /// Bytes from the stack pointers up.
    pub in_use: u64,
    /// Sum of the high-water marks. `null` without `--zero-fill`, and if one is unknown.
    pub touched: Option<u64>,
    /// Bytes in non-zero pages. `null` without `--zero-fill`.
    pub written: Option<u64>,
    /// Resident bytes. `null` if unknown.
    pub rss: Option<u64>,
    /// Part of `rss` that may belong to other memory in the same mapping.
    pub rss_estimated: Option<u64>,
}
