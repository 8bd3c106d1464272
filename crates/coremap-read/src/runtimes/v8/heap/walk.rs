//! The linear walk over V8's objects. The key of an object is its map.

use std::sync::atomic::AtomicU64;

use crate::addr::AddrRange;
use crate::memory::window::Window;
use crate::runtimes::api::linear::LinearHeap;
use crate::runtimes::api::{HeapRange, TypeIndex};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::heap::sizes::SizeRule;
use crate::runtimes::v8::heap::types::{MapEntry, TypeOf};
use crate::runtimes::v8::vm::strong;
use crate::targets::Target;

impl Heap<'_> {
    /// Returns the size of the object at `at`.
    #[inline]
    pub(super) fn object_size(&self, window: &Window<'_>, at: u64, entry: &MapEntry) -> Option<u64> {
        match entry.rule {
            SizeRule::Unknown => self.surveyed.get()?.irregular.get(&at).copied(),
            rule => rule.size(&self.vm, window, at),
        }
    }

    /// Returns the type of the object at `at`, whose map is `map`.
    pub(super) fn object_type(&self, word: impl Fn(u64) -> Option<u64>, at: u64, entry: &MapEntry) -> TypeIndex {
        match entry.of {
            TypeOf::Map => entry.kind,
            TypeOf::Function => {
                let shared = word(at.wrapping_add(self.vm.offsets.function_shared)).and_then(strong);
                let kind = shared.and_then(|shared| self.known.of_function(&self.vm, shared, entry.number));
                kind.unwrap_or(entry.kind)
            }
            TypeOf::Prototype => {
                let map = word(at).and_then(strong);
                map.and_then(|map| self.known.of_prototype(&self.vm, map, at)).unwrap_or(entry.kind)
            }
        }
    }
}

impl LinearHeap for Heap<'_> {
    type SizeRule = MapEntry;
    type Gap = AddrRange;

    const RANGE_NAME: &'static str = "page";
    const NO_SIZE: &'static str = "an object whose size is not known";

    fn target(&self) -> &dyn Target {
        self.vm.process.target()
    }

    fn alignment(&self) -> u64 {
        8
    }

    fn searched(&self) -> &AtomicU64 {
        &self.searched
    }

    #[inline(always)]
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64> {
        window.word(at)
    }

    fn lookup(&self, key: u64) -> Option<(TypeIndex, MapEntry)> {
        let entry = self.known.map(&self.vm, strong(key)?)?;
        Some((entry.kind, entry))
    }

    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, entry: MapEntry) -> Option<u64> {
        self.object_size(window, at, &entry)
    }

    #[inline(always)]
    fn stride(&self, size: u64) -> u64 {
        size.saturating_add(7) & !7
    }

    #[inline(always)]
    fn type_at(&self, window: &Window<'_>, at: u64, _kind: TypeIndex, entry: MapEntry) -> TypeIndex {
        self.object_type(|at| window.word(at), at, &entry)
    }

    fn gaps(&self, range: AddrRange) -> &[AddrRange] {
        let gaps = self.surveyed.get().map_or(&self.areas, |surveyed| &surveyed.gaps);
        let from = gaps.partition_point(|gap| gap.start < range.start);
        let to = gaps.partition_point(|gap| gap.start < range.end);
        gaps.get(from..to).unwrap_or_default()
    }

    fn gap_start(gap: &AddrRange) -> u64 {
        gap.start.get()
    }

    fn gap_end(&self, _window: &Window<'_>, gap: &AddrRange) -> Option<u64> {
        Some(gap.end.get())
    }

    fn is_single(&self, part: &HeapRange) -> bool {
        self.single.binary_search(&part.range.start).is_ok()
    }

    fn no_object(&self, _window: &Window<'_>, _at: u64, key: u64) -> String {
        format!("no object: 0x{key:x} is no map")
    }
}
