//! How objects of the GC's heap follow one another: as CoreCLR's do.

use std::sync::atomic::AtomicU64;

use crate::addr::AddrRange;
use crate::dotnet::AllocContext;
use crate::dotnet::heap::{Sizes, contexts_in, end_of_context, no_object};
use crate::managed::TypeIndex;
use crate::managed::linear::Linear;
use crate::memory::window::Window;
use crate::nativeaot::heap::{ALIGN, COUNT_AT, Heap, stride};
use crate::targets::Target;

/// Marks that a collection puts into an object's first word.
pub(super) const MARKS: u64 = 7;

impl Linear for Heap<'_> {
    type Form = Sizes;
    type Gap = AllocContext;

    const PART: &'static str = "segment";
    const NO_SIZE: &'static str = "an array whose length is not in the core";

    fn target(&self) -> &dyn Target {
        self.runtime.process.target()
    }

    fn alignment(&self) -> u64 {
        ALIGN
    }

    fn searched(&self) -> &AtomicU64 {
        &self.searched
    }

    #[inline(always)]
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64> {
        window.word(at).map(|word| word & !MARKS)
    }

    fn lookup(&self, key: u64) -> Option<(TypeIndex, Sizes)> {
        self.tables.lookup(key).map(|(kind, info)| (kind, Sizes::new(info.base_size, info.component_size)))
    }

    /// With what fills it up to where the next may begin: no tool of its own counts otherwise.
    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, form: Sizes) -> Option<u64> {
        form.of(self.runtime.memory, window, at, COUNT_AT).map(stride)
    }

    #[inline(always)]
    fn stride(&self, size: u64) -> u64 {
        stride(size)
    }

    fn gaps(&self, range: AddrRange) -> &[AllocContext] {
        contexts_in(&self.contexts, range)
    }

    fn gap_start(context: &AllocContext) -> u64 {
        context.pointer.get()
    }

    fn gap_end(&self, window: &Window<'_>, context: &AllocContext) -> Option<u64> {
        end_of_context(window, context)
    }

    fn no_object(&self, window: &Window<'_>, at: u64, key: u64) -> String {
        no_object(window, at, key)
    }
}
