//! The id of a runtime within a session.

use std::fmt;

/// Identifies a runtime of a session, as frames, roots and graphs name it. Only a session makes ids.
///
/// Ids are ordered as the session lists its runtimes. No other meaning is in them: to get the runtime, ask the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeId(u32);

impl RuntimeId {
    /// Ids for the runtimes of a session, in their order.
    pub(crate) fn all() -> impl Iterator<Item = RuntimeId> {
        (0..).map(RuntimeId)
    }
}

impl fmt::Debug for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime {}", self.0)
    }
}
