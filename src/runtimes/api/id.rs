//! The id of a runtime within a session.

use std::fmt;

/// Identifies a runtime of a session, as frames, roots and graphs name it. Only a session makes ids.
///
/// Ids are ordered as the session lists its runtimes. No other meaning is in them: to get the runtime, ask the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeId {
    /// Place of its finder.
    finder: u32,
    /// Place among those that were found.
    place: u32,
}

impl RuntimeId {
    /// Ids for the runtimes of one finder, in their order.
    pub(crate) fn of(finder: u32) -> impl Iterator<Item = RuntimeId> {
        (0..).map(move |place| RuntimeId { finder, place })
    }
}

impl fmt::Debug for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime {}.{}", self.finder, self.place)
    }
}
