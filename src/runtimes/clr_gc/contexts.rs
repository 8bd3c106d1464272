//! What allocators own of the heap and have not used.

use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, StructView};
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::clr_gc::{ALIGN, MIN_OBJECT};

/// A piece of the heap that one allocator owns: free from `pointer` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllocContext {
    /// Where the next object goes.
    pub pointer: Addr,
    /// End of the piece, less the room of the smallest object.
    pub limit: Addr,
}

impl AllocContext {
    /// The gc_alloc_context at `at`; none where it is empty or makes no sense.
    pub(crate) fn read(memory: &dyn Memory, layout: &Layout, at: Addr) -> Option<AllocContext> {
        let view = StructView::new(memory, layout, "GCAllocContext", at);
        AllocContext::new(view.ptr("Pointer").ok()?, view.ptr("Limit").ok()?)
    }

    /// One with these bounds; none where it is empty or makes no sense.
    pub(crate) fn new(pointer: Addr, limit: Addr) -> Option<AllocContext> {
        (!pointer.is_null() && pointer <= limit).then_some(AllocContext { pointer, limit })
    }
}

/// Of contexts in order, those that may matter in `range`.
pub(super) fn contexts_in(contexts: &[AllocContext], range: AddrRange) -> &[AllocContext] {
    let from = contexts.partition_point(|c| c.pointer < range.start);
    let to = contexts.partition_point(|c| c.pointer < range.end);
    contexts.get(from..to).unwrap_or_default()
}

/// Where objects go on behind what an allocator owns. It keeps the room of the smallest object past its limit, to fill the
/// rest with. One that is used up leaves that room, unless it was given back since.
pub(super) fn end_of_context(window: &Window<'_>, context: &AllocContext) -> Option<u64> {
    let used_up = context.pointer == context.limit;
    let given_back = used_up && window.word(context.pointer.get()).is_some_and(|word| word != 0);
    (!given_back).then(|| context.limit.saturating_add(MIN_OBJECT).align_up(ALIGN).get())
}
