//! Memory outside of the heap that objects own: stores of ArrayBuffers, and characters of external strings.
//!
//! Node.js allocates a store by malloc. A Buffer is a view on an ArrayBuffer, and small ones share a pool. Typed arrays
//! of up to 64 bytes have their bytes in the heap, and their ArrayBuffer has no store.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::runtimes::api::OwnedBuffer;
use crate::runtimes::v8::heap::Heap;
use crate::units::{count, round};
use crate::words::BufferMemory;

/// Field of an ArrayBuffer with the address of its store.
const STORE: &str = "backing_store";

/// Offset of the first field of an object after its header.
const FIRST_FIELD: u64 = 24;

/// Field of an external string with the address of its characters.
const DATA: &str = "data";

/// Returns the memory that objects own, by address. If several objects share an area, the first object is its owner.
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
        // Sources of Node.js's own scripts are in its program file, not in separate memory.
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

/// Returns the number and the bytes of the distinct stores of an isolate's ArrayBuffers.
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

/// Minimum share of the stores, in percent, that their views use. With less, the finding says so.
const USED: u64 = 25;

/// Minimum total size of the stores for a sentence, in bytes.
const LARGE: u64 = 1 << 20;

/// Returns a sentence if views use little of the stores that they retain. `None` if `elements` are no views, or use
/// much.
pub(super) fn views_note(heap: &Heap<'_>, elements: &[Addr]) -> Option<String> {
    let vm = &*heap.vm;
    let length = vm.constants.field("JSArrayBufferView", "byte_length")?;
    let mut stores: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut views, mut used) = (0_u64, 0_u64);
    for at in elements.iter().map(|at| at.get()).filter(|at| vm.is(*at, "JS_TYPED_ARRAY")) {
        let fields = (FIRST_FIELD..length).step_by(8).filter_map(|offset| vm.object(at, offset));
        let buffer = fields.into_iter().find(|field| vm.is(*field, "JS_ARRAY_BUFFER"));
        let Some((store, len)) = buffer.and_then(|buffer| store(heap, buffer)).filter(|(store, _)| *store != 0) else {
            continue;
        };
        let Some(mine) = vm.field(at, length).filter(|mine| *mine <= len) else { continue };
        views += 1;
        used = used.saturating_add(mine);
        stores.insert(store, len);
    }
    let sum = stores.values().fold(0_u64, |sum, len| sum.saturating_add(*len));
    let is_little = sum >= LARGE && used.saturating_mul(100) < sum.saturating_mul(USED);
    is_little.then(|| {
        let (views, number) = (count(views, "view"), count(stores.len() as u64, "ArrayBuffer"));
        format!("They are {views} that use {} of the {} in {number}.", round(used), round(sum))
    })
}
