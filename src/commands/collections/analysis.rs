use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::analysis::roots::{RuntimeRoots, with_retained};
use crate::commands::collections::holders::Holders;
use crate::commands::collections::report::{
    CollectionHolderRow, CollectionRow, CollectionSums, CollectionTypeRow, CollectionsReport,
};
use crate::commands::collections::shapes::{self, FieldCount};
use crate::limits;
use crate::memory::Memory as _;
use crate::process::Process;
use crate::report::Name;
use crate::runtimes::api::fields::{Field, References};
use crate::runtimes::api::{Heap, HeapRange, ObjectNames, TypeIndex, UnwalkedRanges};
use crate::runtimes::graph::Retained;
use crate::session::Session;

/// Maximum number of collections listed one by one, and of fields that refer to them.
const MAX_LARGEST: usize = 100;
const MAX_HOLDERS: usize = 1000;

/// A collection.
struct Found {
    object: Addr,
    kind: TypeIndex,
    use_of: SlotUse,
}

/// Slots of a collection's array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotUse {
    elements: u64,
    slots: u64,
    bytes: u64,
    empty_bytes: u64,
}

/// Measures the live collections of all runtimes.
pub fn collections(session: &Session<'_>) -> CollectionsReport {
    let mut report = CollectionsReport::default();
    for runtime in session.runtimes() {
        if runtime.fields().is_none() {
            report.unread.push(runtime.label());
        }
    }
    with_retained(session, |retained, names, rooted| {
        report.not_read.extend(rooted.not_read.iter().cloned());
        add(session.process, &mut report, retained, names, rooted);
    });
    report.sort();
    report
}

impl CollectionsReport {
    /// Sorts and cuts the lists.
    pub(super) fn sort(&mut self) {
        self.types.sort_by_key(|row| (Reverse((row.sums.empty_bytes, row.sums.bytes)), row.method_table));
        let waste = |row: &CollectionHolderRow| Reverse((row.sums.empty_bytes, row.sums.bytes));
        self.holders.sort_by(|a, b| waste(a).cmp(&waste(b)).then_with(|| a.holder.cmp(&b.holder)));
        self.holders.truncate(MAX_HOLDERS);
        self.largest.sort_by_key(|row| (Reverse(row.empty_bytes), row.object));
        self.largest.truncate(MAX_LARGEST);
    }
}

/// Adds the collections of one runtime.
pub(super) fn add<'g>(
    process: &Process,
    report: &mut CollectionsReport,
    retained: &Retained<'g>,
    names: &mut ObjectNames<'g>,
    rooted: &RuntimeRoots<'_>,
) {
    let Some(fields) = rooted.runtime.fields() else { return };
    let heap = names.heap;
    let shapes = shapes_of(heap, fields);
    if shapes.is_empty() {
        return;
    }
    let reader = Reader { process, heap, references: fields.references(), shapes };
    let (found, unreadable) = reader.all(&|object| retained.live.is_live(object));
    report.unreadable = report.unreadable.saturating_add(unreadable);
    let mut types: BTreeMap<TypeIndex, CollectionSums> = BTreeMap::new();
    for one in &found {
        plus(types.entry(one.kind).or_default(), one.use_of);
        plus(&mut report.total, one.use_of);
    }
    for (kind, sums) in types {
        let fill = (sums.slots > 0).then(|| sums.elements.min(sums.slots) as f64 / sums.slots as f64);
        let method_table = heap.type_info(kind).map_or(Addr::NULL, |info| info.address);
        report.types.push(CollectionTypeRow { name: names.of_kind(kind), method_table, sums, fill });
    }
    let mut wasteful: Vec<&Found> = found.iter().filter(|one| one.use_of.empty_bytes > 0).collect();
    wasteful.sort_by_key(|one| (Reverse(one.use_of.empty_bytes), one.object));
    // The others are in the sums.
    wasteful.truncate(limits::MAX_LISTED_OBJECTS);
    let objects: Vec<Addr> = wasteful.iter().map(|one| one.object).collect();
    let labels = Holders::new(retained, rooted.runtime, names).of(&objects);
    type ByHolder<'f> = HashMap<&'f str, (CollectionSums, HashMap<TypeIndex, u64>)>;
    let mut holders: ByHolder<'_> = HashMap::new();
    for (one, label) in wasteful.iter().zip(&labels) {
        let (sums, kinds) = holders.entry(label).or_default();
        plus(sums, one.use_of);
        let bytes = kinds.entry(one.kind).or_default();
        *bytes = bytes.saturating_add(one.use_of.empty_bytes);
    }
    for (holder, (sums, kinds)) in holders {
        let most = kinds.into_iter().max_by_key(|&(kind, bytes)| (bytes, Reverse(kind)));
        let name = most.map_or_else(Name::default, |(kind, _)| names.of_kind(kind));
        report.holders.push(CollectionHolderRow { holder: holder.to_owned(), name, sums });
    }
    for (one, label) in wasteful.iter().zip(labels).take(MAX_LARGEST) {
        let SlotUse { elements, slots, bytes, empty_bytes } = one.use_of;
        let (object, name) = (one.object, names.of_kind(one.kind));
        report.largest.push(CollectionRow { object, name, elements, slots, bytes, empty_bytes, holder: Some(label) });
    }
}

fn plus(sums: &mut CollectionSums, one: SlotUse) {
    sums.count = sums.count.saturating_add(1);
    sums.empty = sums.empty.saturating_add(u64::from(one.elements == 0));
    sums.elements = sums.elements.saturating_add(one.elements);
    sums.slots = sums.slots.saturating_add(one.slots);
    sums.bytes = sums.bytes.saturating_add(one.bytes);
    sums.empty_bytes = sums.empty_bytes.saturating_add(one.empty_bytes);
}

/// Collection fields of the types seen so far.
fn shapes_of(heap: &dyn Heap, fields: &dyn crate::runtimes::api::fields::Fields) -> HashMap<TypeIndex, shapes::Fields> {
    let kinds = (0..heap.types()).filter_map(|at| u32::try_from(at).ok()).map(TypeIndex);
    let named: Vec<(TypeIndex, Addr, String)> = kinds
        .filter_map(|kind| Some((kind, heap.type_info(kind)?.address, heap.type_name(kind))))
        .filter(|(_, _, name)| shapes::is_named(name))
        .collect();
    let present: Vec<Addr> = named.iter().map(|(_, address, _)| *address).collect();
    if present.is_empty() {
        return HashMap::new();
    }
    let classes = fields.classes(&present);
    let by_id: HashMap<u64, usize> = classes.all.iter().enumerate().map(|(at, class)| (class.id, at)).collect();
    let of = |(kind, address, name): (TypeIndex, Addr, String)| {
        let class = classes.all.get(*classes.by_address.get(&address)? as usize)?;
        Some((kind, shapes::fields(&name, class, &classes, &by_id)?))
    };
    named.into_iter().filter_map(of).collect()
}

/// Reads collections.
struct Reader<'r> {
    process: &'r Process,
    heap: &'r dyn Heap,
    references: References<'r>,
    shapes: HashMap<TypeIndex, shapes::Fields>,
}

impl Reader<'_> {
    /// All collections that `is_live` accepts, and the number of those that could not be read.
    fn all(&self, is_live: &(dyn Fn(Addr) -> bool + Sync)) -> (Vec<Found>, u64) {
        let of_part = |(mut found, mut unreadable): (Vec<Found>, u64), part: &HeapRange| {
            self.heap.walker().walk(part, &mut UnwalkedRanges::default(), &mut |object| {
                let Some(fields) = self.shapes.get(&object.kind) else { return };
                if !is_live(object.addr) {
                    return;
                }
                match self.slot_use(object.addr, fields) {
                    Some(use_of) => found.push(Found { object: object.addr, kind: object.kind, use_of }),
                    None => unreadable += 1,
                }
            });
            (found, unreadable)
        };
        let none = || (Vec::new(), 0);
        let join = |(mut a, x): (Vec<Found>, u64), (b, y): (Vec<Found>, u64)| {
            a.extend(b);
            (a, x + y)
        };
        self.heap.ranges().par_iter().fold(none, of_part).reduce(none, join)
    }

    fn slot_use(&self, object: Addr, fields: &shapes::Fields) -> Option<SlotUse> {
        let memory = &self.process.memory;
        if let Some(offset) = fields.complete_without
            && !self.reference(object, offset)?.is_null()
        {
            return None;
        }
        let array = self.reference(object, fields.array)?;
        let (slots, element) = if array.is_null() {
            (0, 0)
        } else {
            let node = self.heap.reader().node(array.get())?;
            let elements = self.heap.type_info(node.kind)?.elements?;
            let slots = u64::from(memory.u32(array.checked_add(self.references.length_at)?).ok()?);
            let bytes = slots.checked_mul(elements.size)?.checked_add(elements.start)?;
            // The size of an object is rounded up.
            (bytes <= node.size.checked_add(ROUNDING)?).then_some((slots, elements.size))?
        };
        let number = |field: &Field| self.number(object, field);
        let count = match &fields.count {
            FieldCount::Field(count) => number(count)?,
            FieldCount::Less(all, free) => number(all)?.checked_sub(number(free)?)?,
            FieldCount::Ring(first, last) => ring(number(first)?, number(last)?, slots)?,
        };
        let scale = fields.scale.as_ref().map_or(Some(0), number).filter(|scale| *scale <= MAX_SCALE)?;
        let used = count.checked_mul(fields.slots_per_element)?.checked_mul(1 << scale)?;
        Some(slot_use(count, used, slots, element))
    }

    fn reference(&self, object: Addr, offset: u64) -> Option<Addr> {
        let at = object.checked_add(offset)?;
        let stored = match self.references.size {
            4 => u64::from(self.process.memory.u32(at).ok()?),
            _ => self.process.memory.u64(at).ok()?,
        };
        Some(Addr::new((self.references.decode)(stored)))
    }

    /// A number that is not negative.
    fn number(&self, object: Addr, field: &Field) -> Option<u64> {
        let at = object.checked_add(field.offset)?;
        let memory = &self.process.memory;
        match field.kind.size() {
            1 => memory.bytes(at, 1).ok()?.first().copied().map(u64::from),
            4 => u64::try_from(memory.u32(at).ok()?.cast_signed()).ok(),
            8 => u64::try_from(memory.u64(at).ok()?.cast_signed()).ok(),
            _ => None,
        }
    }
}

/// Maximum difference between the size of an array and the end of its last element, in bytes.
const ROUNDING: u64 = 8;

/// Maximum logarithm of the slots of an element: two bytes of a character.
const MAX_SCALE: u64 = 1;

/// Number of elements between two indices of a ring of `slots` slots.
fn ring(first: u64, last: u64, slots: u64) -> Option<u64> {
    if first >= slots.max(1) || last >= slots.max(1) {
        return None;
    }
    Some(if last >= first { last - first } else { slots - first + last })
}

/// `count` elements in `used` of `slots` slots. In a hash table with chains there may be more elements than slots.
fn slot_use(count: u64, used: u64, slots: u64, element: u64) -> SlotUse {
    let free = slots.saturating_sub(used);
    SlotUse { elements: count, slots, bytes: slots.saturating_mul(element), empty_bytes: free.saturating_mul(element) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_slots_are_counted_and_never_more_than_there_are() {
        let used = slot_use(3, 3, 10, 8);
        assert_eq!((used.bytes, used.empty_bytes), (80, 56));
        // Chains of a hash table.
        let chained = slot_use(40, 40, 16, 8);
        assert_eq!((chained.bytes, chained.empty_bytes), (128, 0));
        assert_eq!(slot_use(u64::MAX, u64::MAX, u64::MAX, u64::MAX).empty_bytes, 0);
        assert_eq!(slot_use(0, 0, 0, 0), SlotUse::default());
    }

    #[test]
    fn a_ring_may_go_over_its_end() {
        assert_eq!(ring(2, 5, 16), Some(3));
        assert_eq!(ring(14, 3, 16), Some(5));
        assert_eq!(ring(0, 0, 16), Some(0));
        assert_eq!(ring(0, 0, 0), Some(0));
        assert_eq!(ring(16, 3, 16), None);
    }

    #[test]
    fn sums_of_collections() {
        let mut sums = CollectionSums::default();
        plus(&mut sums, slot_use(0, 0, 16, 8));
        plus(&mut sums, slot_use(12, 12, 16, 8));
        let expected = CollectionSums { count: 2, empty: 1, elements: 12, slots: 32, bytes: 256, empty_bytes: 160 };
        assert_eq!(sums, expected);
    }
}
