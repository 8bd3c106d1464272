//! Sources of pointers.

use std::cmp::Ordering;

use crate::map::Kind;
use crate::words::worded;

/// Source of a pointer: what contains the word, or else the kind of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointerSource {
    /// A thread's register.
    Register,
    /// A thread's stack.
    Stack,
    /// Old data below a thread's stack pointer.
    StackLeftOver,
    /// A GC handle.
    Handle,
    /// A managed object.
    Object,
    /// Space between managed objects.
    FreeObjectSpace,
    /// A free malloc block.
    FreeBlock,
    /// A region of this kind; nothing more is known.
    Region(Kind),
}

impl PointerSource {
    const PLACES: [PointerSource; 7] = [
        PointerSource::Register,
        PointerSource::Stack,
        PointerSource::StackLeftOver,
        PointerSource::Handle,
        PointerSource::Object,
        PointerSource::FreeObjectSpace,
        PointerSource::FreeBlock,
    ];

    /// All values.
    pub fn all() -> impl Iterator<Item = PointerSource> {
        PointerSource::PLACES.into_iter().chain(Kind::ALL.iter().map(|kind| PointerSource::Region(*kind)))
    }

    /// The word in JSON, CSV and tables.
    pub const fn name(self) -> &'static str {
        match self {
            PointerSource::Register => "register",
            PointerSource::Stack => "stack",
            PointerSource::StackLeftOver => "stack (left over)",
            PointerSource::Handle => "handle",
            PointerSource::Object => "object",
            PointerSource::FreeObjectSpace => "free object space",
            PointerSource::FreeBlock => "free block",
            PointerSource::Region(kind) => kind.name(),
        }
    }

    /// Whether the memory is no longer in use.
    pub fn is_dead(self) -> bool {
        use PointerSource as P;
        match self {
            P::Region(kind) => kind == Kind::GCHeapToBeFreed,
            other => matches!(other, P::FreeObjectSpace | P::FreeBlock | P::StackLeftOver),
        }
    }
}

/// Unknown memory.
impl Default for PointerSource {
    fn default() -> PointerSource {
        PointerSource::Region(Kind::default())
    }
}

/// Ordered by name, as in tables.
impl Ord for PointerSource {
    fn cmp(&self, other: &PointerSource) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for PointerSource {
    fn partial_cmp(&self, other: &PointerSource) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

worded!(PointerSource, "Source of a pointer.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_word_of_its_own() -> Result<(), serde_json::Error> {
        let mut words: Vec<&str> = PointerSource::all().map(PointerSource::name).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Kind::ALL.len() + PointerSource::PLACES.len());
        assert_eq!(serde_json::to_string(&PointerSource::Region(Kind::Image))?, "\"Image\"");
        Ok(())
    }
}
