//! How objects of the GC's heap follow one another: as CoreCLR's do.

use std::sync::atomic::AtomicU64;

use crate::addr::{Addr, AddrRange};
use crate::dotnet::AllocContext;
use crate::managed::TypeIndex;
use crate::managed::linear::Linear;
use crate::memory::window::Window;
use crate::nativeaot::heap::{ALIGN, COUNT_AT, Heap, MIN_OBJECT, MethodTableInfo, stride};
use crate::targets::Target;

/// What an object's size follows from.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    base: u32,
    component: u32,
}

impl From<MethodTableInfo> for Sizes {
    fn from(info: MethodTableInfo) -> Sizes {
        Sizes { base: info.base_size, component: u32::from(info.component_size) }
    }
}

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
        self.tables.lookup(key).map(|(kind, info)| (kind, info.into()))
    }

    /// With what fills it up to where the next may begin: no tool of its own counts otherwise.
    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, form: Sizes) -> Option<u64> {
        if form.component == 0 {
            return Some(stride(u64::from(form.base)));
        }
        let count = match window.word(at.wrapping_add(COUNT_AT)) {
            Some(word) => word as u32,
            None => self.runtime.memory.u32(Addr::new(at).saturating_add(COUNT_AT)).ok()?,
        };
        // 32 bits, plus the product of 32 and 16 bits. An empty string is smaller than the smallest object.
        Some(stride((u64::from(form.base) + u64::from(count) * u64::from(form.component)).max(MIN_OBJECT)))
    }

    #[inline(always)]
    fn stride(&self, size: u64) -> u64 {
        stride(size)
    }

    fn gaps(&self, range: AddrRange) -> &[AllocContext] {
        let from = self.contexts.partition_point(|c| c.pointer < range.start);
        let to = self.contexts.partition_point(|c| c.pointer < range.end);
        self.contexts.get(from..to).unwrap_or_default()
    }

    fn gap_start(context: &AllocContext) -> u64 {
        context.pointer.get()
    }

    /// An allocator keeps the room of the smallest object past its limit, to fill the rest with. One that is used
    /// up leaves that room, unless it was given back since.
    fn gap_end(&self, window: &Window<'_>, context: &AllocContext) -> Option<u64> {
        let used_up = context.pointer == context.limit;
        let given_back = used_up && window.word(context.pointer.get()).is_some_and(|word| word != 0);
        (!given_back).then(|| context.limit.saturating_add(MIN_OBJECT).align_up(ALIGN).get())
    }

    fn no_object(&self, window: &Window<'_>, at: u64, key: u64) -> String {
        match window.word(at).unwrap_or(key) {
            0 => "no object: zero where its MethodTable should be".into(),
            word => format!("no object: 0x{word:x} is no MethodTable"),
        }
    }
}
