//! Go's heap in the form that all runtimes use: objects with their types and references.

use std::sync::Arc;

use super::typing::{self, Census, Grade, HEADER, Key, Masks, Slot, Slots, TINY};
use crate::addr::{Addr, union};
use crate::diag::WarningCode;
use crate::process::Process;
use crate::runtimes::api::{
    self, Generation, HeapRange, Link, Node, Object, ObjectReader, Space, TypeIndex, TypeInfo, UnwalkedRanges, Walker,
};
use crate::runtimes::go::code::Code;
use crate::runtimes::go::goroutines::List;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::{TypeKind, Types};

/// The only generation.
const HEAP: Generation = Generation { number: 0, name: "heap", frozen: false };

/// Size in bytes of the smallest object.
const MIN_OBJECT: u64 = 8;

/// Maximum depth of nested structs in which a field is named.
const MAX_DEPTH: u32 = 8;

/// The type that gives an object its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) enum TypedBy {
    /// It is one value of this type.
    One(Addr),
    /// It is an array of values of this type.
    Array(Addr),
}

/// The heap of a Go runtime.
pub(in crate::runtimes::go) struct GoHeap<'p> {
    runtime: Arc<Runtime<'p>>,
    types: Types<'p>,
    slots: Slots,
    census: Census,
    ranges: Vec<HeapRange>,
    space: Space<'p>,
}

impl<'p> GoHeap<'p> {
    pub(in crate::runtimes::go) fn open(runtime: Arc<Runtime<'p>>, code: &Code<'p>, list: &List) -> GoHeap<'p> {
        let types = Types::new(&runtime);
        let slots = Slots::new(&runtime);
        let census = typing::census(&runtime, &types, code, list, &slots);
        let spans = union(slots.spans.iter().map(|span| span.range).collect());
        let ranges: Vec<HeapRange> =
            spans.into_iter().map(|range| HeapRange { heap: 0, generation: HEAP, range }).collect();
        let process: &'p Process = runtime.process;
        let space = Space::new(process.target(), ranges.iter().map(|part| part.range), MIN_OBJECT);
        GoHeap { runtime, types, slots, census, ranges, space }
    }

    /// Start of the live object that contains an address.
    pub(in crate::runtimes::go) fn object_at(&self, addr: Addr) -> Option<Addr> {
        let slot = self.slots.live_at(addr)?;
        Some(if self.census.tiny.contains_key(&addr) { addr } else { slot.base })
    }

    /// Kind and size of the object at `addr`.
    pub(in crate::runtimes::go) fn typed(&self, addr: Addr) -> Option<(TypeIndex, u64)> {
        let slot = self.slots.live_at(addr).filter(|slot| slot.base == addr)?;
        self.node_of(slot).map(|node| (node.kind, node.size))
    }

    /// Returns the type that gives objects of a kind their fields.
    pub(in crate::runtimes::go) fn typed_by(&self, kind: TypeIndex) -> Option<TypedBy> {
        match self.key(kind)? {
            Key::One(of) => Some(TypedBy::One(of)),
            Key::Array(of) => Some(TypedBy::Array(of)),
            Key::Chan(_) | Key::Closure(_) | Key::Text | Key::MapPart | Key::Untyped(..) => None,
        }
    }

    /// Returns the name of the field at an offset of a kind's value, or of an element if the kind is an array. The
    /// type's name precedes it.
    pub(in crate::runtimes::go) fn name_of_field(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let of = match self.typed_by(kind)? {
            TypedBy::One(of) | TypedBy::Array(of) => of,
        };
        let name = &self.types.get(of)?.name;
        Some(
            field(&self.types, of, offset, MAX_DEPTH)
                .map_or_else(|| name.to_string(), |field| format!("{name}.{field}")),
        )
    }

    /// Returns the size of a value of this kind. 0 if it is not a single value of a Go type.
    fn size_of(&self, kind: u32) -> u64 {
        match self.key(TypeIndex(kind)) {
            Some(Key::One(of)) => self.types.get(of).map_or(0, |found| found.size),
            _ => 0,
        }
    }

    /// Returns the further values in the 16-byte block of an object: address, kind, size.
    fn sharing(&self, slot: Slot) -> impl Iterator<Item = (Addr, u32, u64)> {
        let tiny = self.slots.span(slot).is_some_and(|span| span.is_noscan() && span.elem == TINY);
        let end = slot.base.saturating_add(if tiny { TINY } else { 0 });
        self.census.tiny.range(slot.base..end).map(|(at, kind)| (*at, *kind, self.size_of(*kind)))
    }

    fn kind(&self, slot: Slot) -> TypeIndex {
        let number = self.slots.number(slot).and_then(|number| self.census.slots.get(number));
        TypeIndex(number.copied().unwrap_or(0))
    }

    fn key(&self, kind: TypeIndex) -> Option<Key> {
        self.census.kinds.get(kind.0 as usize).filter(|_| kind != api::FREE).map(|(key, _)| *key)
    }

    fn node_of(&self, slot: Slot) -> Option<Node> {
        let shared = self.sharing(slot).fold(0u64, |sum, (_, _, size)| sum.saturating_add(size));
        let size = self.slots.span(slot)?.elem.saturating_sub(shared);
        Some(Node { kind: self.kind(slot), size, counted_size: size })
    }
}

impl api::Heap for GoHeap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.ranges
    }

    fn generations(&self) -> &[Generation] {
        &[HEAP]
    }

    fn space(&self) -> &Space<'_> {
        &self.space
    }

    fn warn_missing(&self) {
        if !self.types.are_readable() {
            let why = format!(
                "{}: its types are not in the core, so objects are listed by size. Give the folder of the program's file \
                 with --symbols DIR",
                self.runtime.name()
            );
            self.runtime.process.diag.note(WarningCode::Go, why);
        }
    }

    fn types(&self) -> usize {
        self.census.kinds.len()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let (key, _) = self.census.kinds.get(kind.0 as usize)?;
        let address = match *key {
            Key::One(at) | Key::Array(at) | Key::Chan(at) | Key::Closure(at) => at,
            Key::Text | Key::MapPart | Key::Untyped(..) => Addr::NULL,
        };
        Some(TypeInfo { address, free: kind == api::FREE, string: false, represents_types: false, elements: None })
    }

    fn type_name(&self, kind: TypeIndex) -> String {
        self.census.kinds.get(kind.0 as usize).map_or_else(|| "?".to_owned(), |(_, name)| name.to_string())
    }

    fn type_grade(&self, kind: TypeIndex) -> Option<&'static str> {
        let counts = self.census.grades.get(kind.0 as usize)?;
        // The weakest grade among its objects.
        let all = [Grade::Shape, Grade::Held, Grade::Exact];
        all.into_iter().find(|grade| counts.get(*grade as usize).is_some_and(|count| *count > 0)).map(Grade::word)
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        match self.key(kind)? {
            Key::One(of) => field(&self.types, of, offset, MAX_DEPTH),
            Key::Array(of) => {
                let size = self.types.get(of)?.size.max(1);
                let inner = field(&self.types, of, offset % size, MAX_DEPTH);
                let index = offset / size;
                Some(inner.map_or_else(|| format!("[{index}]"), |inner| format!("[{index}].{inner}")))
            }
            Key::Chan(_) | Key::Closure(_) | Key::Text | Key::MapPart | Key::Untyped(..) => None,
        }
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(Walk { heap: self })
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(Reader { heap: self, masks: Masks::new(&self.runtime) })
    }
}

/// Returns the name of the field at an offset of a struct. Names of nested structs precede it.
fn field(types: &Types<'_>, of: Addr, offset: u64, depth: u32) -> Option<String> {
    let found = types.get(of).filter(|t| t.kind == TypeKind::Struct)?;
    let depth = depth.checked_sub(1)?;
    let last = found.fields.iter().rfind(|field| field.offset <= offset)?;
    let inner = field(types, last.of, offset - last.offset, depth);
    Some(inner.map_or_else(|| last.name.to_string(), |inner| format!("{}.{inner}", last.name)))
}

struct Walk<'h, 'p> {
    heap: &'h GoHeap<'p>,
}

impl Walker for Walk<'_, '_> {
    fn walk(&mut self, part: &HeapRange, _unwalked: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object)) {
        let heap = self.heap;
        let first = heap.slots.spans.partition_point(|span| span.range.end <= part.range.start);
        let spans = heap.slots.spans.iter().enumerate().skip(first);
        for (i, span) in spans.take_while(|(_, span)| span.range.start < part.range.end) {
            let size = span.elem;
            heap.slots.each_live(i, |slot| {
                let shared = heap.sharing(slot).fold(0u64, |sum, (_, _, size)| sum.saturating_add(size));
                visit(&Object { addr: slot.base, kind: heap.kind(slot), size: size.saturating_sub(shared) });
                heap.sharing(slot).for_each(|(addr, kind, size)| visit(&Object { addr, kind: TypeIndex(kind), size }));
            });
        }
    }
}

struct Reader<'h, 'p> {
    heap: &'h GoHeap<'p>,
    masks: Masks<'h, 'p>,
}

impl ObjectReader for Reader<'_, '_> {
    fn node(&mut self, addr: u64) -> Option<Node> {
        let slot = self.heap.slots.live_at(Addr::new(addr))?;
        if slot.base == Addr::new(addr) {
            return self.heap.node_of(slot);
        }
        let kind = *self.heap.census.tiny.get(&Addr::new(addr))?;
        let size = self.heap.size_of(kind);
        Some(Node { kind: TypeIndex(kind), size, counted_size: size })
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        let heap = self.heap;
        let Some(slot) = heap.slots.live_at(Addr::new(addr)).filter(|slot| slot.base == Addr::new(addr)) else {
            return;
        };
        let Some(span) = heap.slots.span(slot).filter(|span| !span.is_noscan()) else { return };
        let Some(bytes) = Record::look(heap.runtime.memory(), slot.base, span.elem) else { return };
        let mask = self.masks.of_object(span, slot.index);
        let header = heap.slots.header(span);
        let words = u32::try_from(span.elem / 8).unwrap_or(u32::MAX);
        for i in from.max(u32::try_from(header / HEADER).unwrap_or(0))..words {
            if mask.is_some_and(|mask| i < 64 && mask >> i & 1 == 0) {
                continue;
            }
            let at = 8 * u64::from(i);
            let Some(to) = heap.object_at(bytes.ptr(at)) else { continue };
            if !visit(i, Link::Field(at - header), to.get()) {
                return;
            }
        }
    }
}
