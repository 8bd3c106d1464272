//! The objects of the GC's heap: every segment walked from object to object.
//!
//! An object is its MethodTable, then its fields; its size is BaseSize, and
//! for arrays and strings a count of elements more. What lies between objects
//! is none of its own: dead space is an object of the type `Free`. Only what an
//! allocator still owns, and what a collection was about to move, is not
//! (src/coreclr/gc: gc.cpp, gc_heap::walk_heap_per_heap, make_unused_array;
//! docs/design/datacontracts/Object.md, GC.md).

mod gcdesc;
mod method_tables;
mod names;
mod reader;
mod walk;

pub use gcdesc::{References, Repeat, Series};
pub use method_tables::MethodTableInfo;
pub(crate) use names::VALUE_TYPE;
pub(crate) use walk::{Sizes, contexts_in, end_of_context, no_object};

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::dotnet::threads::{AllocContext, threads};
use crate::dotnet::types::TypeSystem;
use crate::dotnet::{Generation, Heaps};
use crate::limits;
use crate::managed::graph::Space;
use crate::managed::linear::LinearWalker;
use crate::managed::{
    self, Elements, FREE_NAME, Object, ObjectReader, Part, StringContent, TypeIndex, TypeInfo, Walker,
};
use method_tables::MethodTables;
use names::Statics;
use reader::Objects;

/// Objects begin at multiples of this, on 64 bits in all parts of the heap.
const ALIGN: u64 = 8;

/// An array's count of elements, where no layout tells.
const COUNT_AT: u64 = 8;

/// Room of the smallest object (MIN_OBJECT_SIZE of gcinterface.h: sync block,
/// MethodTable, one field).
pub(super) const MIN_OBJECT: u64 = 24;

/// Size of an array without elements that its elements do not follow: the word
/// of its sync block.
const HEADER: u64 = 8;

/// From one object to the next; `size` is at least that of the smallest object.
fn stride(size: u64) -> u64 {
    size.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}

/// The heap of one runtime, ready to be walked.
pub struct Heap<'p> {
    types: Arc<TypeSystem<'p>>,
    tables: MethodTables<'p>,
    parts: Vec<Part>,
    /// By address; what lies from `pointer` to past `limit` holds no object.
    contexts: Vec<AllocContext>,
    mask: u64,
    /// From an object to its count of elements.
    count_at: u64,
    /// In a string: where its length and its first character are.
    string_form: Option<(u64, u64)>,
    in_gc: bool,
    notes: Vec<String>,
    objects: OnceLock<Objects<'p>>,
    statics: Statics,
    /// Bytes that were searched for the first object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Prepare to walk the segments in `heaps`.
    pub fn open(types: Arc<TypeSystem<'p>>, heaps: &Heaps) -> Heap<'p> {
        let mut notes = Vec::new();
        let mut contexts = heaps.contexts.clone();
        contexts.extend(AllocContext::global(types.memory, &types.runtime));
        match threads(types.process, &types.runtime) {
            Ok((list, broken)) => {
                contexts.extend(list.iter().filter_map(|t| t.alloc_context));
                notes.extend(broken.map(str::to_owned));
            }
            Err(e) => notes.push(format!("allocation contexts of threads: {e}")),
        }
        contexts.sort_unstable();
        contexts.dedup();
        let count_at = types.runtime.layout.positive("Array", "m_NumComponents");
        Heap {
            tables: MethodTables::new(types.clone()),
            parts: affordable(&types, parts(heaps, &mut notes), &mut notes),
            searched: AtomicU64::new(0),
            contexts,
            mask: !types.mark_bits(),
            count_at: count_at.ok().filter(|at| at.is_multiple_of(ALIGN)).unwrap_or(COUNT_AT),
            string_form: string_form(&types),
            in_gc: heaps.in_gc,
            notes,
            objects: OnceLock::new(),
            statics: Statics::default(),
            types,
        }
    }

    /// The runtime's types.
    pub fn type_system(&self) -> &Arc<TypeSystem<'p>> {
        &self.types
    }

    /// What is known of a type.
    pub fn method_table(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.tables.get(kind)
    }

    /// Where references stand in objects of a type without elements, as the collector is told: in bytes from their start.
    pub(crate) fn references_in(&self, info: &MethodTableInfo) -> Vec<u64> {
        if info.counted() || !self.types.contains_references(info.address) {
            return Vec::new();
        }
        let Some(References::Series(all)) = References::read(self.types.memory, info.address) else {
            return Vec::new();
        };
        let size = u64::from(info.base_size);
        let places = all.iter().flat_map(|series| {
            let bytes = size.saturating_add_signed(series.less_size).min(size);
            (0..bytes / ALIGN).map(|word| series.start.saturating_add(word * ALIGN))
        });
        places.filter(|place| *place < size).collect()
    }

    /// In a string: where its length and its first character are.
    pub(crate) fn form_of_strings(&self) -> Option<(u64, u64)> {
        self.string_form
    }

    fn objects(&self) -> &Objects<'p> {
        self.objects.get_or_init(|| {
            let ranges = self.parts.iter().map(|p| p.range);
            Objects::new(Space::new(self.types.process.target(), ranges, MIN_OBJECT))
        })
    }

    /// The MethodTable at `address`, if it is one.
    pub(crate) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.tables.lookup(address)
    }

    /// From an object's start to its first element. A string's base size counts the NUL behind its characters.
    fn start_of_elements(&self, info: &MethodTableInfo) -> u64 {
        let after_base = u64::from(info.base_size).saturating_sub(HEADER);
        self.string_form.filter(|_| info.string).map_or(after_base, |(_, first_char)| first_char)
    }
}

impl managed::Heap for Heap<'_> {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn generations(&self) -> &[managed::Generation] {
        &Generation::MANAGED
    }

    fn space(&self) -> &Space<'_> {
        &self.objects().space
    }

    fn alignment(&self) -> u64 {
        ALIGN
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn in_gc(&self) -> bool {
        self.in_gc
    }

    fn types(&self) -> usize {
        self.tables.len()
    }

    fn has_too_many_types(&self) -> bool {
        self.tables.is_full()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        self.tables.get(kind).map(|info| TypeInfo {
            address: info.address,
            free: info.free,
            string: info.string,
            of_types: false,
            elements: info
                .counted()
                .then(|| Elements { start: self.start_of_elements(&info), size: u64::from(info.component_size) }),
        })
    }

    fn tell_missing(&self) {
        // Counts and sizes are whole without names.
        if let Some(missing) = self.types.missing() {
            self.types.process.diag.note(WarningCode::Metadata, missing);
        }
    }

    /// `Free`, or as [`TypeSystem::display_name`] tells.
    fn type_name(&self, kind: TypeIndex) -> String {
        match self.tables.get(kind) {
            Some(info) if !info.free => self.types.display_name(info.address),
            _ => FREE_NAME.into(),
        }
    }

    fn type_module(&self, kind: TypeIndex) -> Option<String> {
        let info = self.tables.get(kind).filter(|info| !info.free)?;
        let module = self.types.module(self.types.module_of(info.address).ok()?);
        (!module.path.is_empty()).then(|| module.path.clone())
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_of_field(kind, offset)
    }

    fn element_field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_in_element(kind, offset)
    }

    fn static_at(&self, place: Addr, near: &[TypeIndex]) -> Option<Arc<str>> {
        self.name_of_static(place, near)
    }

    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        self.names_of_statics()
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.tables.string()
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let (length_at, first_char) = self.string_form?;
        let (length_at, first_char) = (string.addr.checked_add(length_at)?, string.addr.checked_add(first_char)?);
        StringContent::utf16(self.objects.get().map(|objects| &objects.space), self.types.memory, length_at, first_char)
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(self.object_reader())
    }
}

/// The runs of all segments. Segments that overlap would be counted twice: the
/// later one is left out.
fn parts(heaps: &Heaps, notes: &mut Vec<String>) -> Vec<Part> {
    let mut all: Vec<Part> = heaps
        .segments
        .iter()
        .flat_map(|s| {
            let heap = s.heap;
            s.runs().map(move |(generation, range)| Part { heap, generation: generation.managed(), range })
        })
        .collect();
    all.sort_by_key(|p| (p.range.start, p.range.end));
    let mut end = Addr::NULL;
    let mut left_out = 0_usize;
    all.retain(|p| {
        let sane =
            p.range.start >= end && p.range.start.is_aligned(ALIGN) && p.range.len() <= limits::MAX_RUNTIME_RANGE;
        if sane {
            end = p.range.end;
        } else {
            left_out += 1;
        }
        sane
    });
    if left_out > 0 {
        notes.push(format!(
            "{} with invalid or overlapping bounds ignored",
            crate::units::count(left_out as u64, "segment")
        ));
    }
    all
}

/// Where a string's length and its first character are.
fn string_form(types: &TypeSystem<'_>) -> Option<(u64, u64)> {
    let at = |field| types.runtime.layout.positive("String", field).ok();
    Some((at("m_StringLength")?, at("m_FirstChar")?))
}

/// The parts as far as together they have no more bytes than the core's file:
/// where they have, it maps the same bytes many times, to keep us busy.
fn affordable(types: &TypeSystem<'_>, mut all: Vec<Part>, notes: &mut Vec<String>) -> Vec<Part> {
    let facts = types.process.facts();
    let mut left = facts.size;
    let whole = all.len();
    let fits = |part: &Part| left.checked_sub(facts.space.dumped_in(part.range)).inspect(|rest| left = *rest).is_some();
    let kept = all.iter().map(fits).take_while(|&fits| fits).count();
    all.truncate(kept);
    if kept < whole {
        notes.push(format!(
            "{} segments are ignored: together the segments are larger than the core file",
            whole - kept
        ));
    }
    all
}
