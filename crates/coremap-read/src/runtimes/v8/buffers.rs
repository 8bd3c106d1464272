//! Memory outside of the heap that objects own: stores of ArrayBuffers, and characters of external strings.
//!
//! Node.js allocates a store by malloc. A Buffer is a view on an ArrayBuffer, and small ones share a pool. Typed arrays
//! of up to 64 bytes have their bytes in the heap, and their ArrayBuffer has no store.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::runtimes::api::OwnedBuffer;
use crate::runtimes::v8::heap::Heap;
use crate::words::BufferMemory;

/// Field of an ArrayBuffer with the address of its store.
const STORE: &str = "backing_store";

/// Field of an external string with the address of its characters.
const DATA: &str = "data";

/// Returns the memory that objects own, by address. An area that several objects share has its first object.
pub(super) fn buffers(heap: &Heap<'_>) -> Vec<OwnedBuffer> {
    let vm = &*heap.vm;
    let mut out: BTreeMap<AddrRange, OwnedBuffer> = BTreeMap::new();
    let mut add = |object: u64, at: u64, len: u64, field: &'static str| {
        let range = AddrRange::sized(Addr::new(at), len);
        if at == 0 || range.len() != len || len == 0 || out.len() >= limits::MAX_OWNED_BUFFERS {
            return;
        }
        let object = Addr::new(object);
        out.entry(range).or_insert(OwnedBuffer { range, object, field, how: BufferMemory::Allocated });
    };
    for object in &heap.survey().array_buffers {
        if let Some((at, len)) = store(heap, *object) {
            add(*object, at, len, STORE);
        }
    }
    for object in &heap.survey().external_strings {
        let Some(text) = vm.external(*object) else { continue };
        // Sources of Node.js's own scripts are in its program file.
        if !vm.process.modules.iter().any(|module| module.range.contains(Addr::new(text.address))) {
            add(*object, text.address, text.bytes, DATA);
        }
    }
    out.into_values().collect()
}

/// Returns address and length of an ArrayBuffer's store.
pub(super) fn store(heap: &Heap<'_>, object: u64) -> Option<(u64, u64)> {
    let at = heap.vm.field(object, heap.vm.offsets.buffer_store)?;
    let len = heap.vm.field(object, heap.vm.offsets.buffer_length)?;
    (len <= limits::MAX_RUNTIME_RANGE && heap.vm.page_of(at).is_none()).then_some((at, len))
}

/// Number and bytes of the distinct stores of an isolate's ArrayBuffers.
pub(super) fn stores(heap: &Heap<'_>, isolate: Addr) -> (u64, u64) {
    let own = |object: &&u64| heap.vm.page_of(**object).is_some_and(|page| page.heap == isolate);
    let mut stores: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, len) in heap.survey().array_buffers.iter().filter(own).filter_map(|object| store(heap, *object)) {
        if at != 0 && len != 0 {
            stores.entry(at).or_insert(len);
        }
    }
    (stores.len() as u64, stores.values().fold(0, |sum, len| sum.saturating_add(*len)))
}
