//! The linear walk over objects of the Java heap.

use std::sync::atomic::AtomicU64;

use crate::addr::AddrRange;
use crate::memory::window::Window;
use crate::runtimes::api::linear::LinearHeap;
use crate::runtimes::api::{HeapRange, TypeIndex};
use crate::runtimes::hotspot::heap::Heap;
use crate::runtimes::hotspot::heap::types::Form;
use crate::targets::Target;

/// The key of an object is its Klass. The gaps are the unused parts of allocation buffers.
impl LinearHeap for Heap<'_> {
    type SizeRule = Form;
    type Gap = AddrRange;

    const RANGE_NAME: &'static str = "region";
    const NO_SIZE: &'static str = "an object whose class or size is not in the core";

    fn target(&self) -> &dyn Target {
        self.classes.vm.process.target()
    }

    fn alignment(&self) -> u64 {
        self.align
    }

    fn searched(&self) -> &AtomicU64 {
        &self.searched
    }

    #[inline(always)]
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64> {
        self.classes.encoding.klass_in(|offset| window.word(at.wrapping_add(offset)))
    }

    fn lookup(&self, key: u64) -> Option<(TypeIndex, Form)> {
        let (kind, class) = self.types.lookup(key)?;
        Some((kind, Form::of(class.shape)?))
    }

    /// As jcmd counts: up to the start of the next object.
    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, form: Form) -> Option<u64> {
        let size = form.size(&self.classes.encoding, |offset| window.word(at.wrapping_add(offset)))?;
        Some(self.stride(size))
    }

    #[inline(always)]
    fn stride(&self, size: u64) -> u64 {
        size.saturating_add(self.align - 1) & !(self.align - 1)
    }

    fn gaps(&self, range: AddrRange) -> &[AddrRange] {
        let from = self.tlabs.partition_point(|t| t.start < range.start);
        let to = self.tlabs.partition_point(|t| t.start < range.end);
        self.tlabs.get(from..to).unwrap_or_default()
    }

    fn gap_start(tlab: &AddrRange) -> u64 {
        tlab.start.get()
    }

    fn gap_end(&self, _window: &Window<'_>, tlab: &AddrRange) -> Option<u64> {
        Some(tlab.end.get())
    }

    fn is_single(&self, part: &HeapRange) -> bool {
        self.single.binary_search_by_key(&part.range.start, |(start, _)| *start).is_ok()
    }

    fn no_object(&self, _window: &Window<'_>, _at: u64, klass: u64) -> String {
        format!("no object: 0x{klass:x} is not a class")
    }
}
