use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::{Finding, Resident, StackState};

/// `stacks`: what threads reserve, and what they used of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StacksReport {
    /// Stacks of live threads in the core's order, each followed by the others that the
    /// thread is on; then cached ones, then threads without one.
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
    /// The thread whose own stack it is: one row a thread. `null` for a stack kept after
    /// its thread ended, and for one that a thread uses besides its own.
    pub tid: Option<u32>,
    /// The thread that uses it besides its own; `null` for its own.
    pub used_by: Option<u32>,
    /// Thread's name, where the core has it.
    pub name: Option<String>,
    /// Managed thread id, where a runtime knows it.
    pub managed_id: Option<u32>,
    /// Whether its thread brought the dump about.
    pub crashed: bool,
    /// What the thread does: the function it is in, and whose code called for it;
    /// `null` where neither is known.
    pub does: Option<String>,
    /// What it is used for; unknown, too, where no stack was found.
    pub state: StackState,
    /// What the map calls this memory: Stack, or Malloc where the program runs on a
    /// block of malloc. Only Stack counts in the total.
    pub kind: Option<Kind>,
    /// Lowest usable address.
    pub low: Option<Addr>,
    /// First address above the stack.
    pub high: Option<Addr>,
    /// `high` − `low`.
    pub reserved: Option<u64>,
    /// Guard below the stack, and what a runtime keeps without access at its low end; 0
    /// where it has none, `null` where unknown.
    pub guard: Option<u64>,
    /// Down to where it is in use: the stack pointer, or where a signal interrupted what
    /// runs on it; `null` where that is not known.
    pub sp: Option<Addr>,
    /// Whether the thread's own stack pointer is in it now.
    pub current: bool,
    /// From `sp` up to `high`; `null` where that is not known.
    pub in_use: Option<u64>,
    /// From the lowest page that is not zero up to `high`: the high-water
    /// mark; `null` without `--zero-fill`, and where what it held is lost.
    pub touched: Option<u64>,
    /// Held by the core.
    pub in_core: u64,
    /// Whether the core has it as zeros though its thread runs on it: what it held is lost, and nothing can be said of
    /// what was ever written. gdb up to 13 does so where glibc (2.42 and newer) keeps a stack's guard within its mapping.
    pub lost: bool,
    /// In whole pages that are zero; `null` as `touched`.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
    /// How sure that is; `null` where no stack was found.
    pub confidence: Option<Confidence>,
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
    /// Guards, and guard zones within stacks.
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
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
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
    /// In RAM; `null` where that is not known.
    pub rss: Option<u64>,
    /// Of `rss`, what may be of other memory in the same mapping.
    pub rss_estimated: Option<u64>,
}
