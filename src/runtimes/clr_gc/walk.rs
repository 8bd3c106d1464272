//! The walk over objects in address order.

use std::sync::atomic::AtomicU64;

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::api::linear::LinearHeap;
use crate::runtimes::clr_gc::contexts::{contexts_in, end_of_context};
use crate::runtimes::clr_gc::{ALIGN, AllocContext, ClrHeap, MIN_OBJECT, stride};
use crate::targets::Target;

/// Base and element size of a type, from which an object's size follows.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    base: u32,
    component: u32,
}

impl Sizes {
    /// `base`: bytes of an object without elements; `component`: bytes of an element.
    pub(super) fn new(base: u32, component: u16) -> Sizes {
        Sizes { base, component: component.into() }
    }

    /// Size in bytes of the object at `at`, whose element count is at offset `count_at`. `None` if the count is not in
    /// the core.
    #[inline(always)]
    pub(super) fn of(self, memory: &dyn Memory, window: &Window<'_>, at: u64, count_at: u64) -> Option<u64> {
        if self.component == 0 {
            return Some(u64::from(self.base));
        }
        let count = match window.word(at.wrapping_add(count_at)) {
            Some(word) => word as u32,
            None => memory.u32(Addr::new(at).saturating_add(count_at)).ok()?,
        };
        // 32 bits, plus the product of 32 and 16 bits. An empty string is smaller than the smallest object.
        Some((u64::from(self.base) + u64::from(count) * u64::from(self.component)).max(MIN_OBJECT))
    }
}

/// Explains why no object begins at `at`.
fn no_object(window: &Window<'_>, at: u64, key: u64) -> String {
    match window.word(at).unwrap_or(key) {
        0 => "no object: 0 instead of a MethodTable".into(),
        word => format!("no object: 0x{word:x} is not a MethodTable"),
    }
}

/// Looks up types by MethodTable, after removing the marks of a collection.
impl<H: ClrHeap> LinearHeap for H {
    type SizeRule = Sizes;
    type Gap = AllocContext;

    const RANGE_NAME: &'static str = "segment";
    const NO_SIZE: &'static str = "an array whose length is not in the core";

    fn target(&self) -> &dyn Target {
        self.process().target()
    }

    fn alignment(&self) -> u64 {
        ALIGN
    }

    fn searched(&self) -> &AtomicU64 {
        ClrHeap::searched(self)
    }

    #[inline(always)]
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64> {
        window.word(at).map(|word| word & self.mask())
    }

    fn lookup(&self, key: u64) -> Option<(TypeIndex, Sizes)> {
        self.table_at(key).map(|(kind, info)| (kind, Sizes::new(info.base_size, info.component_size)))
    }

    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, form: Sizes) -> Option<u64> {
        let size = form.of(self.memory(), window, at, self.count_at())?;
        Some(if H::SIZES_ARE_ROUNDED { stride(size) } else { size })
    }

    #[inline(always)]
    fn stride(&self, size: u64) -> u64 {
        stride(size)
    }

    fn gaps(&self, range: AddrRange) -> &[AllocContext] {
        contexts_in(self.contexts(), range)
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
