use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Finding;

/// `stacks`: what threads reserve, and what they used of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StacksReport {
    /// Stacks of live threads in the core's order, then those without one.
    pub stacks: Vec<StackRow>,
    /// Stacks of threads that do the same, those of most first.
    pub groups: Vec<StackGroup>,
    /// Their sums.
    pub total: StacksTotal,
    /// What a reader should notice.
    pub findings: Vec<Finding>,
}

/// One stack. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackRow {
    /// Thread; `null` for a stack kept after its thread ended.
    pub tid: Option<u32>,
    /// Thread's name, where the core has it.
    pub name: Option<String>,
    /// Managed thread id, where a runtime knows it.
    pub managed_id: Option<u32>,
    /// What the thread does: the function it is in, and whose code called for it;
    /// `null` where neither is known.
    pub does: Option<String>,
    /// main, thread, cached, or unknown where no stack was found.
    pub state: &'static str,
    /// Lowest usable address.
    pub low: Option<Addr>,
    /// First address above the stack.
    pub high: Option<Addr>,
    /// `high` − `low`.
    pub reserved: Option<u64>,
    /// Guard below the stack; 0 where it has none, `null` where unknown.
    pub guard: Option<u64>,
    /// Stack pointer.
    pub sp: Option<Addr>,
    /// From the stack pointer up to `high`; `null` where SP is elsewhere.
    pub in_use: Option<u64>,
    /// From the lowest page that is not zero up to `high`: the high-water
    /// mark; `null` without `--zero-fill`.
    pub touched: Option<u64>,
    /// Held by the core.
    pub in_core: u64,
    /// In whole pages that are zero; `null` without `--zero-fill`.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// exact, derived or heuristic.
    pub confidence: Option<&'static str>,
    /// How it is known.
    pub source: String,
}

/// Sums over all stacks. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StacksTotal {
    /// Stacks.
    pub count: u64,
    /// Of those, kept after their thread ended.
    pub cached: u64,
    /// Address space without guards.
    pub reserved: u64,
    /// Guards.
    pub guard: u64,
    /// From stack pointers up.
    pub in_use: u64,
    /// High-water marks.
    pub touched: Option<u64>,
    /// Held by the core.
    pub in_core: u64,
    /// In zero pages.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
}

/// Threads that do the same, and their stacks. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackGroup {
    /// What they do; `null`: not known.
    pub does: Option<String>,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub tids: Vec<u32>,
    /// Address space without guards.
    pub reserved: u64,
    /// From stack pointers up.
    pub in_use: u64,
    /// High-water marks; `null` without `--zero-fill`.
    pub touched: Option<u64>,
    /// In pages that are not zero; `null` without `--zero-fill`.
    pub written: Option<u64>,
}
