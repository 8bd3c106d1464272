//! The walk over objects in address order.

use std::sync::atomic::AtomicU64;

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::api::linear::LinearHeap;
use crate::runtimes::clr_gc::contexts::{contexts_in, end_of_context};
use crate::runtimes::clr_gc::{ALIGN, AllocContext, ClrHeap, MIN_OBJECT, stride};
use crate::targets::Target;

/// Addresses that a process can have: not the first page, and below 2^56 (x86_64 and arm64 with five levels of pages).
const USER_ADDRESSES: std::ops::Range<u64> = 0x1000..1 << 56;

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

    /// A field may contain the address of a MethodTable (`m_handle` of a RuntimeType), and real objects may follow
    /// where an object of that type would end. But the word before an object is its header, whose lower half is always
    /// 0 (ObjHeader::m_alignpad), and its references are null or addresses. Free space has no header of its own, and a
    /// collection writes over headers.
    fn may_begin(&self, window: &Window<'_>, at: u64, key: u64, size: u64) -> bool {
        let Some((_, info)) = self.table_at(key) else { return false };
        if info.free {
            return true;
        }
        let header = window.word(at.wrapping_sub(WORD)).filter(|_| !self.in_gc());
        if header.is_some_and(|word| word as u32 != 0) {
            return false;
        }
        let count = size.div_ceil(WORD).min(limits::MAX_PROVING_WORDS);
        let words: Vec<[u8; 8]> =
            (0..count).map_while(|i| Some(window.word(at.wrapping_add(WORD * i))?.to_le_bytes())).collect();
        let is_address = |value: u64| value.is_multiple_of(WORD) && USER_ADDRESSES.contains(&value);
        // References that could not be read prove nothing.
        self.references(&info)
            .is_none_or(|references| references.visit(&words, size, &mut |_, value| is_address(value)))
    }

    fn no_object(&self, window: &Window<'_>, at: u64, key: u64) -> String {
        no_object(window, at, key)
    }
}
