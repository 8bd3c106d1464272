//! Timers, as runtimes return them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;

/// An active timer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimerRow {
    /// The timer's object.
    pub address: Addr,
    /// Milliseconds from its start, or from the last call, to the next call. `null` if it could not be read.
    pub due_ms: Option<u64>,
    /// Milliseconds between calls. `null` if it is called once.
    pub period_ms: Option<u64>,
    /// Method that it calls. `null` if its name is not known.
    pub callback: Option<String>,
    /// Object that the method gets. `null` if it gets none.
    pub state: Option<Addr>,
    /// Type of that object. `null` if there is none.
    pub state_type: Option<String>,
    /// Async method of the program that waits for that object. `null` if none is found.
    pub awaited_by: Option<String>,
    /// Static variable that refers to that object. `null` if none does.
    pub held_by: Option<String>,
}
