//! Retained sizes, as a runtime's findings need them.

use crate::addr::Addr;
use crate::runtimes::api::TypeIndex;

/// Retained sizes of a heap's live objects, from its dominator tree.
///
/// `retained` uses the same tree, so that no two answers give different sizes for one object.
pub trait RetainedSizes {
    /// Size in bytes of all live objects.
    fn total(&self) -> u64;

    /// Whether all roots and references were read. Otherwise more objects may be alive than were reached.
    fn is_complete(&self) -> bool;

    /// Bytes that each of `objects` retains. `None` if it is not live.
    fn of(&self, objects: &[Addr]) -> Vec<Option<u64>>;

    /// Returns the bytes that `objects` retain in total. Bytes that several of them retain count once.
    fn sum_of(&self, objects: &[Addr]) -> u64;

    /// The `limit` objects that retain most, of those that `pick` accepts, with the bytes that each retains.
    fn top(&self, limit: usize, pick: &dyn Fn(Addr, TypeIndex) -> bool) -> Vec<(Addr, u64)>;
}
