//! Reads single objects and their references.
//!
//! References to maps are not followed: an object's map leads to its constructor, and from there to nearly everything.
//! Weak references are not followed. The value of an entry in a weak collection counts as a reference of the key.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::addr::Addr;
use crate::memory::window::Window;
use crate::runtimes::api::{FREE, Heap as _, Link, Node, ObjectReader};
use crate::runtimes::v8::forms::CodeForm;
use crate::runtimes::v8::heap::types::{MapEntry, TypeOf};
use crate::runtimes::v8::heap::{Heap, OF_PROPERTY_ARRAY};
use crate::runtimes::v8::text::form;
use crate::runtimes::v8::vm::{FIRST_NONSTRING, Vm, strong};

/// Link from a key of a WeakMap to its value.
const WEAK_VALUE: Link = Link::NoField("(value in a WeakMap)");

/// Position of the first field in the property array of an object.
const ARRAY_POSITION: u32 = 1 << 28;

/// Position of the first value of a weak collection.
const EPHEMERON_POSITION: u32 = 1 << 30;

/// Maximum number of fields in a property array.
const MAX_ARRAY: u64 = 1023;

/// Index of the first word after the references of a BytecodeArray, and of an object with instructions.
const BYTECODE_WORDS: u64 = 7;
const CODE_WORDS: u64 = 5;

/// Location of the references in objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refs {
    /// Nowhere.
    None,
    /// In the words from the first index up to the second, exclusive.
    Words(u64, u64),
    /// In all words but the one with this index.
    Without(u64),
    /// In all words, and in the property array.
    Object,
    /// In all words but the last. The last word of a NativeContext links it to all others.
    NativeContext,
}

fn refs(vm: &Vm<'_>, entry: &MapEntry) -> Refs {
    let number = entry.number;
    if number < FIRST_NONSTRING {
        return match number & form::MASK {
            form::CONS => Refs::Words(2, 4),
            form::SLICED | form::THIN => Refs::Words(2, 3),
            _ => Refs::None,
        };
    }
    if number == vm.native_context() {
        return Refs::NativeContext;
    }
    let name = vm.types.name(number).unwrap_or_default();
    match name {
        "BYTE_ARRAY" | "TRUSTED_BYTE_ARRAY" | "FIXED_DOUBLE_ARRAY" | "HEAP_NUMBER" | "BIGINT" | "FEEDBACK_METADATA"
        | "FREE_SPACE" | "FILLER" | "COVERAGE_INFO" => Refs::None,
        // Weak collections and caches.
        "EPHEMERON_HASH_TABLE" | "TRANSITION_ARRAY" => Refs::None,
        "ALLOCATION_SITE" => Refs::Words(1, 4),
        "JS_WEAK_REF" => Refs::Words(1, 3),
        // Target and unregister token are weak.
        "WEAK_CELL" => Refs::Words(4, u64::MAX),
        "BYTECODE_ARRAY" => Refs::Words(1, BYTECODE_WORDS),
        "INSTRUCTION_STREAM" => Refs::Words(1, CODE_WORDS),
        "CODE" if vm.form.code == CodeForm::InCode => Refs::Words(1, CODE_WORDS),
        // Numbers such as the length could look like references.
        "JS_ARRAY_BUFFER" => Refs::Words(1, vm.offsets.buffer_length / 8),
        "MAP" => Refs::Without(0),
        _ if number >= vm.first_object => Refs::Object,
        _ => Refs::Words(1, u64::MAX),
    }
}

/// Pairs of key and value of all weak collections, sorted by key.
pub(super) struct Ephemerons(Vec<(u64, u64)>);

impl Ephemerons {
    fn read(heap: &Heap<'_>) -> Ephemerons {
        let mut pairs = Vec::new();
        for table in &heap.survey().ephemeron_tables {
            let words = heap.vm.field(*table, 8).map_or(0, |n| n >> 32);
            // Skip the numbers of elements and deleted elements and the capacity. Pairs follow.
            let words = heap.vm.words(table.wrapping_add(16 + 24), words.saturating_sub(3));
            pairs.extend(words.as_chunks::<2>().0.iter().filter_map(|[key, value]| strong(*key).zip(strong(*value))));
        }
        pairs.sort_unstable();
        Ephemerons(pairs)
    }

    fn of(&self, key: u64) -> &[(u64, u64)] {
        let from = self.0.partition_point(|(k, _)| *k < key);
        let to = self.0.partition_point(|(k, _)| *k <= key);
        self.0.get(from..to).unwrap_or_default()
    }
}

/// A reader of objects. Each thread has its own.
pub(super) struct Reader<'h, 'p> {
    heap: &'h Heap<'p>,
    maps: HashMap<u64, Option<(MapEntry, Refs)>>,
}

impl<'h, 'p> Reader<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> Reader<'h, 'p> {
        Reader { heap, maps: HashMap::new() }
    }

    /// Returns the words of memory from `addr` on.
    fn window(&self, addr: u64) -> Option<Window<'h>> {
        if addr & 7 != 0 {
            return None;
        }
        let run = self.heap.space().run(addr)?;
        Window::new(Addr::new(addr), run.words(addr).as_flattened())
    }

    /// Whether a word leads to an object. Objects also contain numbers that only look like references.
    fn leads(&mut self, target: u64) -> bool {
        let Some(window) = self.window(target) else { return false };
        self.entry(&window, target).is_some_and(|(entry, _)| entry.of != TypeOf::Map || entry.kind != FREE)
    }

    fn entry(&mut self, window: &Window<'_>, addr: u64) -> Option<(MapEntry, Refs)> {
        let map = strong(window.word(addr)?)?;
        let heap = self.heap;
        *self.maps.entry(map).or_insert_with(|| {
            let entry = heap.known.map(&heap.vm, map)?;
            Some((entry, refs(&heap.vm, &entry)))
        })
    }
}

impl ObjectReader for Reader<'_, '_> {
    fn node(&mut self, addr: u64) -> Option<Node> {
        let window = self.window(addr)?;
        let (entry, _) = self.entry(&window, addr)?;
        let size = self.heap.object_size(&window, addr, &entry)?;
        if addr.checked_add(size)? > window.end {
            return None;
        }
        let kind = self.heap.object_type(|at| window.word(at), addr, &entry);
        (kind != FREE).then_some(Node { kind, size, counted_size: size.max(8) })
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        let Some(window) = self.window(addr) else { return };
        let Some((entry, refs)) = self.entry(&window, addr) else { return };
        let Some(size) = self.heap.object_size(&window, addr, &entry) else { return };
        let words = (size / 8).min((window.end - window.start) / 8).min(u64::from(ARRAY_POSITION));
        let (first, last, without) = match refs {
            Refs::None => (0, 0, None),
            Refs::Words(first, last) => (first, last.min(words), None),
            Refs::Without(skip) => (1, words, Some(skip)),
            Refs::Object => (1, words, None),
            Refs::NativeContext => (1, words.saturating_sub(2), None),
        };
        for i in first.max(from.into())..last {
            let word = window.word(addr.wrapping_add(8 * i)).unwrap_or(0);
            if let Some(target) = strong(word).filter(|target| without != Some(i) && self.leads(*target))
                && !visit(i as u32, Link::Field(8 * i), target)
            {
                return;
            }
        }
        if refs == Refs::Object && !self.each_in_array(&window, addr, from, visit) {
            return;
        }
        let values = self.heap.ephemerons.get_or_init(|| Ephemerons::read(self.heap)).of(addr);
        let skip = from.saturating_sub(EPHEMERON_POSITION) as usize;
        for (i, (_, value)) in values.iter().enumerate().skip(skip) {
            let position = EPHEMERON_POSITION.saturating_add(u32::try_from(i).unwrap_or(u32::MAX));
            if !visit(position, WEAK_VALUE, *value) {
                return;
            }
        }
    }
}

impl Reader<'_, '_> {
    /// Visits the fields in the property array of the object at `addr` as its own. Returns whether to continue.
    fn each_in_array(
        &mut self,
        window: &Window<'_>,
        addr: u64,
        from: u32,
        visit: &mut dyn FnMut(u32, Link, u64) -> bool,
    ) -> bool {
        let vm = &*self.heap.vm;
        let Some(array) = window.word(addr.wrapping_add(vm.offsets.properties)).and_then(strong) else { return true };
        let Some(fields) = self.window(array) else { return true };
        let is_array = self.entry(&fields, array).is_some_and(|(entry, _)| vm.types.is(entry.number, "PROPERTY_ARRAY"));
        if !is_array {
            return true;
        }
        let count = (fields.word(array.wrapping_add(8)).unwrap_or(0) >> 32) & MAX_ARRAY;
        for i in u64::from(from.saturating_sub(ARRAY_POSITION))..count {
            let offset = 16 + 8 * i;
            let word = fields.word(array.wrapping_add(offset)).unwrap_or(0);
            let link = Link::Field(OF_PROPERTY_ARRAY + offset);
            if let Some(target) = strong(word).filter(|target| self.leads(*target))
                && !visit(ARRAY_POSITION + i as u32, link, target)
            {
                return false;
            }
        }
        true
    }
}

/// The values of weak collections, read on first use.
pub(super) type LazyEphemerons = OnceLock<Ephemerons>;
