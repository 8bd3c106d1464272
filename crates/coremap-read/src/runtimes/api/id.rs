//! Identity of a runtime within a session.

use std::fmt;

/// Identifies a runtime in frames, roots and graphs of one session. Only a session creates IDs.
///
/// The order of IDs is the order in which the session lists its runtimes. They have no other meaning; the session
/// returns the runtime for an ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeId {
    /// Index of the finder in [`RUNTIMES`](crate::runtimes::RUNTIMES). `RUNTIMES.len()` for runtimes added by the user.
    finder: u32,
    /// Index among the runtimes that this finder found.
    index: u32,
}

impl RuntimeId {
    /// Returns the IDs for one finder's runtimes, in order.
    pub(crate) fn of(finder: u32) -> impl Iterator<Item = RuntimeId> {
        (0..).map(move |place| RuntimeId { finder, index: place })
    }
}

impl fmt::Debug for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime {}.{}", self.finder, self.index)
    }
}
