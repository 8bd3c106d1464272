//! The Java heap: walks each space from object to object.
//!
//! An object is its mark word, its class and its fields. Its size is in its class; an array's size also depends on its
//! length (src/hotspot/share/oops: oop.inline.hpp, klass.hpp). Between objects there may be the unused part of a
//! thread's allocation buffer (ThreadLocalAllocBuffer).

mod names;
mod reader;
mod spaces;
mod types;
mod walk;

pub(crate) use spaces::Space;
pub use spaces::{Collector, Generation, Spaces};

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::Space as Words;
use crate::runtimes::api::linear::LinearWalker;
use crate::runtimes::api::{
    self, Elements, FREE_NAME, HeapRange, Object, ObjectReader, StringContent, StringUnits, TypeIndex, TypeInfo, Walker,
};
use crate::runtimes::hotspot::classes::{Classes, KlassShape, ReferenceKind};
use crate::runtimes::hotspot::threads::JavaThread;
use crate::sums::SaturatingSum;
use reader::ObjectLayouts;
use types::Types;

/// Default alignment of objects in bytes (`-XX:ObjectAlignmentInBytes`).
const ALIGN: u64 = 8;

/// A group of threads. Up to JDK 18 it has an array of them.
const THREAD_GROUP: &str = "java.lang.ThreadGroup";

/// The heap of one VM.
pub struct Heap<'p> {
    classes: Arc<Classes<'p>>,
    types: Types<'p>,
    parts: Vec<HeapRange>,
    /// Starts of the parts with a single object, by address, and the ends of their last regions.
    single: Vec<(Addr, Addr)>,
    /// Unused parts of allocation buffers, by address.
    tlabs: Vec<AddrRange>,
    align: u64,
    in_gc: bool,
    notes: Vec<String>,
    /// Space without objects, by region, but for the ends of regions with a single object.
    unused: Vec<(&'static str, u64)>,
    all_unused: OnceLock<Vec<(&'static str, u64)>>,
    words: OnceLock<Words<'p>>,
    layouts: ObjectLayouts,
    statics: names::Statics,
    /// Bytes searched so far for the next object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Makes a reader of `spaces`.
    pub fn open(classes: Arc<Classes<'p>>, spaces: &Spaces, threads: &[JavaThread]) -> Heap<'p> {
        let vm = &classes.vm;
        let align = vm.int_flag("ObjectAlignmentInBytes").filter(|a| a.is_power_of_two() && (ALIGN..=256).contains(a));
        let mut tlabs: Vec<AddrRange> = threads.iter().filter_map(|t| t.tlab).filter(|t| !t.is_empty()).collect();
        tlabs.sort();
        let mut notes = spaces.notes.clone();
        let (parts, single) = parts(&classes, spaces, &mut notes);
        let in_gc = is_in_gc(&classes);
        Heap {
            types: Types::new(classes.clone()),
            parts,
            single,
            tlabs,
            align: align.unwrap_or(ALIGN),
            in_gc,
            notes,
            unused: unused(spaces),
            all_unused: OnceLock::new(),
            words: OnceLock::new(),
            layouts: ObjectLayouts::new(&classes),
            statics: names::Statics::default(),
            searched: AtomicU64::new(0),
            classes,
        }
    }

    /// Returns the VM's classes.
    pub fn classes(&self) -> &Arc<Classes<'p>> {
        &self.classes
    }

    /// Reads a String through the mapped words of the heap, if they are mapped already and its array is in the heap
    /// too.
    ///
    /// Commands that read many strings have mapped them. One string does not justify mapping the heap. `form` has the
    /// offsets of the array and of the coder.
    fn string_in_heap(&self, string: u64, form: (u64, u64)) -> Option<StringContent<'_>> {
        let (value_at, coder_at) = form;
        let (space, encoding) = (self.words.get()?, &self.classes.encoding);
        let addr = string.wrapping_add(value_at);
        let value = if encoding.narrow {
            encoding.narrow_raw(space.u32(addr)?)
        } else {
            encoding.wide_raw(u64::from_le_bytes(*space.bytes(addr, 8)?.first_chunk()?))
        };
        let latin1 = space.bytes(string.wrapping_add(coder_at), 1)? == [0];
        let words = space.run(value).filter(|_| value & 7 == 0)?.words(value);
        let klass = encoding.klass_in(|at| words.get((at >> 3) as usize).map(|word| u64::from_le_bytes(*word)))?;
        let header = self.types.header_of_bytes(klass)?;
        let count = space.u32(value.wrapping_add(encoding.length_at))?;
        let start = value.wrapping_add(header);
        // Strings may share an array, which may be long.
        self.classes.vm.process.reads().refuses(Addr::new(start), count.into()).is_none().then_some(())?;
        let storage = (Addr::new(value), self.aligned(header, count));
        Some(content(space.bytes(start, count as usize)?, count, latin1, storage))
    }

    /// Size of an array of `count` bytes.
    fn aligned(&self, header: u64, count: u32) -> u64 {
        let mask = self.align - 1;
        header.saturating_add(count.into()).saturating_add(mask) & !mask
    }

    /// Reads a String through the process's memory, wherever its array is.
    fn string_anywhere(&self, string: Addr, (value_at, coder_at): (u64, u64)) -> Option<StringContent<'_>> {
        let memory = self.classes.vm.memory;
        let value = self.classes.reference(string.wrapping_add(value_at)).ok()?;
        let mut coder = [0];
        memory.read(string.wrapping_add(coder_at), &mut coder).ok()?;
        let count = memory.u32(value.wrapping_add(self.classes.encoding.length_at)).ok()?;
        let header = self.types.byte_array_header(value)?;
        let storage = (value, self.aligned(header, count));
        Some(content(memory.borrow(value.wrapping_add(header), count as usize)?, count, coder == [0], storage))
    }
}

fn content(bytes: &[u8], count: u32, latin1: bool, storage: (Addr, u64)) -> StringContent<'_> {
    let (units, length) = if latin1 { (StringUnits::Latin1, count) } else { (StringUnits::Utf16, count / 2) };
    StringContent { length, bytes, units, storage: Some(storage) }
}

/// Returns the space without objects in regions that may have several: where, and bytes.
fn unused(spaces: &Spaces) -> Vec<(&'static str, u64)> {
    let rest = |space: &&Space| space.end.since(space.used.end.min(space.end));
    let sum = |of: &dyn Fn(&&Space) -> bool| spaces.all.iter().filter(of).map(|space| rest(&space)).saturating_sum();
    let free = sum(&|space| space.generation == Generation::Free);
    // An allocation may use the rest of any other region, but not the end of one that a humongous object has.
    let rest =
        sum(&|space| !matches!(space.generation, Generation::Free | Generation::Humongous | Generation::Archive));
    [("in free regions", free), ("not allocated yet in regions in use", rest)]
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .collect()
}

/// Whether threads are stopped for a collection that moves objects.
fn is_in_gc(classes: &Classes<'_>) -> bool {
    let vm = &classes.vm;
    let Ok(heap) = vm.static_ptr("Universe", "_collectedHeap") else { return false };
    let heap = vm.at("CollectedHeap", heap);
    let fields = ["_is_gc_active", "_is_stw_gc_active"];
    fields.iter().any(|field| heap.number(field).is_ok_and(|value| value & 0xff != 0))
}

/// Returns the parts of the heap, and the starts of parts with a single object. An object that spans several regions
/// makes one part.
fn parts(classes: &Classes<'_>, spaces: &Spaces, notes: &mut Vec<String>) -> (Vec<HeapRange>, Vec<(Addr, Addr)>) {
    let (mut out, mut single): (Vec<HeapRange>, Vec<(Addr, Addr)>) = Default::default();
    let mut left = classes.vm.process.facts().size;
    let mut left_out = 0_usize;
    let mut end = Addr::NULL;
    for space in spaces.all.iter().filter(|s| s.generation != Generation::Free) {
        let range = space.used;
        if space.continues
            && let Some(last) = out.last_mut()
            && let Some((start, end_of_regions)) = single.last_mut()
            && *start == last.range.start
            && last.range.end == range.start
        {
            *end_of_regions = space.end.max(range.end);
            last.range.end = range.end;
            end = range.end;
            continue;
        }
        if range.is_empty() || space.continues {
            continue;
        }
        // Overlapping regions would be counted twice. A hostile core may map the same bytes many times to cost time.
        let dumped = classes.vm.process.space().dumped_in(range);
        if range.start < end
            || !range.start.is_aligned(ALIGN)
            || range.len() > limits::MAX_RUNTIME_RANGE
            || dumped > left
        {
            left_out += 1;
            continue;
        }
        left -= dumped;
        end = range.end;
        if space.one_object {
            single.push((range.start, space.end.max(range.end)));
        }
        out.push(HeapRange { heap: 0, generation: space.generation.managed(), range });
    }
    if left_out > 0 {
        notes.push(format!("{left_out} regions with invalid or overlapping bounds ignored"));
    }
    (out, single)
}

impl api::Heap for Heap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.parts
    }

    fn generations(&self) -> &[api::Generation] {
        &Generation::MANAGED
    }

    fn space(&self) -> &Words<'_> {
        self.words.get_or_init(|| {
            let ranges = self.parts.iter().map(|p| p.range);
            Words::new(self.classes.vm.process.target(), ranges, self.classes.encoding.min_object)
        })
    }

    fn alignment(&self) -> u64 {
        self.align
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn in_gc(&self) -> bool {
        self.in_gc
    }

    fn is_soft_reference(&self, kind: TypeIndex) -> bool {
        self.types.get(kind).is_some_and(|klass| klass.reference == Some(ReferenceKind::Soft))
    }

    fn lists_threads(&self, kind: TypeIndex) -> bool {
        self.types.get(kind).is_some_and(|klass| klass.name == THREAD_GROUP)
    }

    fn types(&self) -> usize {
        self.types.len()
    }

    fn has_too_many_types(&self) -> bool {
        self.types.is_full()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let Some(klass) = self.types.get(kind) else {
            let free = kind == api::FREE;
            return free.then_some(TypeInfo {
                address: Addr::NULL,
                free,
                string: false,
                represents_types: false,
                elements: None,
            });
        };
        let elements = match klass.shape {
            KlassShape::TypeArray { header, log2 } | KlassShape::ObjectArray { header, log2 } => {
                Some(Elements { start: header, size: 1 << log2 })
            }
            _ => None,
        };
        let represents_types = matches!(klass.shape, KlassShape::Mirror { .. });
        Some(TypeInfo {
            address: klass.address,
            free: false,
            string: types::is_string(&klass),
            represents_types,
            elements,
        })
    }

    fn type_name(&self, kind: TypeIndex) -> String {
        self.types.get(kind).map_or_else(|| FREE_NAME.to_owned(), |klass| klass.name.clone())
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_of_field(kind, offset)
    }

    fn static_at(&self, addr: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        self.name_of_static(addr)
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.types.string()
    }

    /// G1 fills the end of a humongous object's last region with arrays that nothing refers to, so `_top` does not show
    /// it (g1CollectedHeap.cpp, humongous_obj_allocate_initialize_regions).
    fn unused_space(&self) -> &[(&'static str, u64)] {
        self.all_unused.get_or_init(|| {
            let mut reader = reader::Reader::new(self);
            let end_of = |reader: &mut reader::Reader<'_, '_>, start: Addr| {
                reader.node(start.get()).map(|node| start.saturating_add(node.counted_size))
            };
            let ends = self
                .single
                .iter()
                .map(|&(start, end)| end_of(&mut reader, start).map_or(0, |at| end.since(at.min(end))));
            let ends: u64 = ends.saturating_sum();
            let lost = (ends > 0).then_some(("lost at the ends of humongous objects", ends));
            self.unused.iter().copied().chain(lost).collect()
        })
    }

    /// A String's characters are in an array of their own, which other Strings may share.
    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let form = self.types.string_form()?;
        self.string_in_heap(string.addr.get(), form).or_else(|| self.string_anywhere(string.addr, form))
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(reader::Reader::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions of 1 MiB: a humongous object of 1.5 MiB, a free one, and an eden region that is half full.
    #[test]
    fn space_without_objects_is_known_by_region() {
        let space = |i: u64, generation, used: u64| {
            let start = Addr::new(0x1000_0000 + (i << 20));
            let used = AddrRange::sized(start, used);
            Space { generation, used, end: start.saturating_add(1 << 20), one_object: i == 0, continues: i == 1 }
        };
        let all = vec![
            space(0, Generation::Humongous, 1 << 20),
            space(1, Generation::Humongous, 512 << 10),
            space(2, Generation::Free, 0),
            space(3, Generation::Eden, 512 << 10),
        ];
        let spaces = Spaces {
            collector: Collector::G1,
            all,
            reserved: AddrRange::sized(Addr::new(0x1000_0000), 4 << 20),
            source: "",
            notes: Vec::new(),
        };
        let wanted = [("in free regions", 1 << 20), ("not allocated yet in regions in use", 512 << 10)];
        assert_eq!(unused(&spaces), wanted);
    }
}
