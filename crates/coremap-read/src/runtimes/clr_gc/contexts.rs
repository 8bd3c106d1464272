//! Allocation contexts: memory that allocators took from the heap and have not used.

use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, StructView};
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::clr_gc::{ALIGN, MIN_OBJECT};

/// A range of the heap that one allocator owns. It is free from `pointer` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllocContext {
    /// Address of the next object.
    pub pointer: Addr,
    /// End of the range, minus the size of the smallest object.
    pub limit: Addr,
}

impl AllocContext {
    /// Reads the gc_alloc_context at `at`. `None` if it is empty or implausible.
    pub(crate) fn read(memory: &dyn Memory, layout: &Layout, at: Addr) -> Option<AllocContext> {
        let view = StructView::new(memory, layout, "GCAllocContext", at);
        AllocContext::new(view.ptr("Pointer").ok()?, view.ptr("Limit").ok()?)
    }

    /// Makes a context from its bounds. `None` if it is empty or implausible.
    pub(crate) fn new(pointer: Addr, limit: Addr) -> Option<AllocContext> {
        (!pointer.is_null() && pointer <= limit).then_some(AllocContext { pointer, limit })
    }
}

/// Returns the contexts in `range`. `contexts` are sorted by address.
pub(super) fn contexts_in(contexts: &[AllocContext], range: AddrRange) -> &[AllocContext] {
    let from = contexts.partition_point(|c| c.pointer < range.start);
    let to = contexts.partition_point(|c| c.pointer < range.end);
    contexts.get(from..to).unwrap_or_default()
}

/// Returns where objects continue after the memory of an allocator. An allocator reserves room for the smallest object
/// past its limit, so that it can fill the rest. A used-up context has that room too, unless it was given back.
pub(super) fn end_of_context(window: &Window<'_>, context: &AllocContext) -> Option<u64> {
    let used_up = context.pointer == context.limit;
    let given_back = used_up && window.word(context.pointer.get()).is_some_and(|word| word != 0);
    (!given_back).then(|| context.limit.saturating_add(MIN_OBJECT).align_up(ALIGN).get())
}
