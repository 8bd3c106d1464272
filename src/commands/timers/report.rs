use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::TimerRow;

/// `timers`: active timers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TimersReport {
    /// Timers that call the same for the same reason, most first.
    pub groups: Vec<TimerGroupRow>,
    /// All timers, in the order of the runtime's lists.
    pub timers: Vec<TimerRow>,
    /// Runtimes of the process whose timers are not read. Theirs are missing from the lists.
    pub unread: Vec<String>,
}

/// Timers that differ in their addresses only.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TimerGroupRow {
    /// Number of timers.
    pub count: u64,
    /// Milliseconds from start to the next call. `null` if it could not be read.
    pub due_ms: Option<u64>,
    /// Milliseconds between calls. `null` if it is called once.
    pub period_ms: Option<u64>,
    /// Method that is called. `null` if its name is not known.
    pub callback: Option<String>,
    /// Type of the object that the method gets. `null` if it gets none.
    pub state_type: Option<String>,
    /// Async method of the program that waits for it. `null` if none is found.
    pub awaited_by: Option<String>,
    /// Static variable that refers to the object that the method gets. `null` if none does.
    pub held_by: Option<String>,
    /// One of the timers.
    pub example: Addr,
}
