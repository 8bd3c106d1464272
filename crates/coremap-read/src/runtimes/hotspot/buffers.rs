//! Direct and mapped buffers: objects of java.nio.DirectByteBuffer and its subclasses, whose memory is outside the
//! heap.
//!
//! A buffer that owns memory has a Cleaner, whose thunk frees the memory: a Deallocator, or an Unmapper of
//! FileChannelImpl. A view (slice, duplicate) has no Cleaner and references its owner in `att`. A buffer over memory
//! with another owner has no Cleaner either; NIO's own temporary buffers are of this kind since JDK 24. Sources
//! (java.base): java/nio/Direct-X-Buffer.java.template, sun/nio/ch/FileChannelImpl.java.

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{Heap, OwnedBuffer, TypeIndex, UnwalkedRanges};
use crate::runtimes::hotspot::classes::{Classes, Klass};
use crate::words::BufferMemory;

/// The base class of all buffers with memory outside the heap.
const DIRECT: &str = "java.nio.DirectByteBuffer";

/// Class of the thunk that frees malloc memory. A class whose name contains [`UNMAPPER`] unmaps a file.
const DEALLOCATOR: &str = "java.nio.DirectByteBuffer$Deallocator";
const UNMAPPER: &str = "Unmapper";

/// Returns all buffers that own memory, by address, and the number of buffers beyond the limit.
pub(super) fn buffers(classes: &Classes<'_>, heap: &dyn Heap) -> (Vec<OwnedBuffer>, u64) {
    // Per thread: for each type number whether it is a buffer, and the buffers found.
    let fresh = || (heap.walker(), Vec::<Option<bool>>::new(), Vec::<Addr>::new());
    let shares: Vec<Vec<Addr>> = heap
        .ranges()
        .par_iter()
        .fold(fresh, |(mut walker, mut known, mut out), part| {
            walker.walk(part, &mut UnwalkedRanges::default(), &mut |object| {
                let number = object.kind.0 as usize;
                if number >= known.len() {
                    known.resize(number.saturating_add(1024), None);
                }
                let Some(known) = known.get_mut(number) else { return };
                if *known.get_or_insert_with(|| is_buffer(classes, heap, object.kind)) {
                    out.push(object.addr);
                }
            });
            (walker, known, out)
        })
        .map(|(_, _, out)| out)
        .collect();
    let found: usize = shares.iter().map(Vec::len).sum();
    let objects = shares.into_iter().flatten().take(limits::MAX_OWNED_BUFFERS);
    let mut out: Vec<OwnedBuffer> = objects.filter_map(|object| buffer(classes, object)).collect();
    out.sort_by_key(|b| (b.range.start, std::cmp::Reverse(b.range.end), b.object));
    (out, found.saturating_sub(limits::MAX_OWNED_BUFFERS) as u64)
}

fn is_buffer(classes: &Classes<'_>, heap: &dyn Heap, kind: TypeIndex) -> bool {
    let Some(info) = heap.type_info(kind).filter(|info| !info.free && info.elements.is_none()) else { return false };
    classes.with_superclasses(info.address).any(|at| classes.klass(at).is_some_and(|klass| klass.name == DIRECT))
}

/// Returns the memory that a buffer object owns. `None` if it owns none.
fn buffer(classes: &Classes<'_>, object: Addr) -> Option<OwnedBuffer> {
    let klass = classes.class_of(object)?;
    let cleaner = Object::at(classes, object, &klass, "cleaner")?;
    let thunk = Object::at(classes, cleaner.at, &cleaner.klass, "thunk")?;
    let how = match thunk.klass.name.as_str() {
        DEALLOCATOR => BufferMemory::Allocated,
        name if name.contains(UNMAPPER) => BufferMemory::Mapped,
        _ => return None,
    };
    let address = Addr::new(long(classes, object, &klass, "address")?);
    // If the memory was freed explicitly, the thunk has no address any more.
    let own = long(classes, thunk.at, &thunk.klass, "address").filter(|&own| own != 0)?;
    let capacity = u64::from(int(classes, object, &klass, "capacity")?);
    // A file mapping begins at the page border before. Page-aligned direct memory is one page longer than its capacity.
    let size = long(classes, thunk.at, &thunk.klass, "size").filter(|&size| size >= capacity).unwrap_or(capacity);
    let start = Addr::new(own).min(address);
    let range = match how {
        BufferMemory::Mapped => AddrRange::new(start, address.saturating_add(capacity)),
        BufferMemory::Allocated => AddrRange::sized(start, size),
    };
    let sane = !range.is_empty() && range.len() <= limits::MAX_RUNTIME_RANGE;
    sane.then_some(OwnedBuffer { range, object, field: "address", how })
}

struct Object {
    at: Addr,
    klass: std::sync::Arc<Klass>,
}

impl Object {
    /// Returns the object that the field `name` of the object at `of` references.
    fn at(classes: &Classes<'_>, of: Addr, klass: &Klass, name: &str) -> Option<Object> {
        let at = classes.reference(of.wrapping_add(classes.field(klass, name)?.offset)).ok()?;
        let klass = classes.class_of(at).filter(|_| !at.is_null())?;
        Some(Object { at, klass })
    }
}

fn long(classes: &Classes<'_>, object: Addr, klass: &Klass, name: &str) -> Option<u64> {
    let field = classes.field(klass, name).filter(|field| field.descriptor == "J")?;
    classes.vm.memory.u64(object.wrapping_add(field.offset)).ok()
}

fn int(classes: &Classes<'_>, object: Addr, klass: &Klass, name: &str) -> Option<u32> {
    let field = classes.field(klass, name).filter(|field| field.descriptor == "I")?;
    classes.vm.memory.u32(object.wrapping_add(field.offset)).ok()
}
