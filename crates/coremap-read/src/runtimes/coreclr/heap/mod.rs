//! The heap of objects.
//!
//! An object starts with its MethodTable, followed by its fields. Its size is BaseSize; arrays and strings add a count
//! of elements. Objects are contiguous: free space is an object of the type `Free`. Only memory that an allocator still
//! owns, and plugs that a collection was about to move, interrupt the sequence (src/coreclr/gc: gc.cpp,
//! gc_heap::walk_heap_per_heap, make_unused_array; docs/design/datacontracts/Object.md, GC.md).

mod async_locals;
mod collect;
mod method_tables;
mod names;
mod unloading;

pub use crate::runtimes::clr_gc::{MethodTableInfo, References};
pub(super) use collect::{Collector, collect};
pub(in crate::runtimes::coreclr) use names::OF_THREAD;
pub(crate) use names::VALUE_TYPE;
pub(in crate::runtimes::coreclr) use unloading::Unloading;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::api::Link;
use crate::runtimes::api::Space;
use crate::runtimes::api::linear::LinearWalker;
use crate::runtimes::api::{
    self, FREE_NAME, HeapRange, Object, ObjectReader, StringContent, TypeIndex, TypeInfo, Walker,
};
use crate::runtimes::clr_gc::{
    ALIGN, AllocContext, COUNT_AT, ClrHeap, Dependents, MIN_OBJECT, ObjectLayouts, Reader, parts,
};
use crate::runtimes::coreclr::gc::handles;
use crate::runtimes::coreclr::threads::threads;
use crate::runtimes::coreclr::types::TypeSystem;
use crate::runtimes::coreclr::{Generation, Heaps};
use async_locals::ByObject;
use method_tables::Tables;
use names::Statics;

/// Link from a loader allocator to the load context that is unloaded with it.
const UNLOADED: Link = Link::NoField("(unloading context)");

/// The heap of one runtime.
pub struct Heap<'p> {
    types: Arc<TypeSystem<'p>>,
    tables: Tables<'p>,
    parts: Vec<HeapRange>,
    /// Allocation contexts by address. No object is from `pointer` to past `limit`.
    contexts: Vec<AllocContext>,
    mask: u64,
    /// Offset of the element count from an object's start.
    count_at: u64,
    /// Offsets of a string's length and of its first character.
    string_form: Option<(u64, u64)>,
    in_gc: bool,
    notes: Vec<String>,
    space: OnceLock<Space<'p>>,
    layouts: ObjectLayouts,
    dependents: OnceLock<Dependents>,
    /// Collectible loader allocators: the native structure, and its object.
    loaders: Vec<(Addr, Addr)>,
    unloading: OnceLock<Vec<Unloading>>,
    statics: Statics,
    /// Static variables by the object that they reference.
    by_object: OnceLock<ByObject>,
    /// Bytes searched for the first object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Opens the heap with the segments in `heaps`.
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
            tables: Tables::new(types.clone()),
            parts: affordable(&types, parts(&heaps.segments, &mut notes, |_| true), &mut notes),
            searched: AtomicU64::new(0),
            contexts,
            mask: !types.mark_bits(),
            count_at: count_at.ok().filter(|at| at.is_multiple_of(ALIGN)).unwrap_or(COUNT_AT),
            string_form: string_form(&types),
            in_gc: heaps.in_gc,
            notes,
            space: OnceLock::new(),
            layouts: ObjectLayouts::default(),
            dependents: OnceLock::new(),
            loaders: heaps
                .loader
                .iter()
                .filter_map(|of| Some((of.address, of.collectible.as_ref()?.object?)))
                .collect(),
            unloading: OnceLock::new(),
            statics: Statics::default(),
            by_object: OnceLock::new(),
            types,
        }
    }

    /// The runtime's type system.
    pub fn type_system(&self) -> &Arc<TypeSystem<'p>> {
        &self.types
    }

    /// Load contexts that are being unloaded.
    pub(in crate::runtimes::coreclr) fn unloading(&self) -> &[Unloading] {
        self.unloading.get_or_init(|| {
            let (handles, _) = handles(self.types.process, &self.types.runtime);
            unloading::unloading(&self.types, handles, &self.loaders)
        })
    }

    /// Objects of the loader allocators whose load contexts are being unloaded.
    pub fn unloading_allocators(&self) -> Vec<Addr> {
        self.unloading().iter().map(|of| of.allocator).collect()
    }

    /// MethodTable of a type.
    pub fn method_table(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.tables.cache.get(kind)
    }

    /// Offsets of references, in bytes, in objects of a type without elements. From the GCDesc.
    pub(crate) fn references_in(&self, info: &MethodTableInfo) -> Vec<u64> {
        if info.counted() || !self.types.contains_references(info.address) {
            return Vec::new();
        }
        let Some(References::Series(all)) = References::read(self.types.memory, info.address) else {
            return Vec::new();
        };
        let size = u64::from(info.base_size);
        let places = all.iter().flat_map(|series| {
            let bytes = size.saturating_add_signed(series.size_delta).min(size);
            (0..bytes / ALIGN).map(|word| series.start.saturating_add(word * ALIGN))
        });
        places.filter(|offset| *offset < size).collect()
    }

    /// Offsets of a string's length and of its first character.
    pub(crate) fn form_of_strings(&self) -> Option<(u64, u64)> {
        self.string_form
    }

    /// Returns the MethodTable at `address`, if there is one.
    pub(crate) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.tables.lookup(address)
    }
}

impl ClrHeap for Heap<'_> {
    const SIZES_ARE_ROUNDED: bool = false;

    fn process(&self) -> &Process {
        self.types.process
    }

    fn memory(&self) -> &dyn Memory {
        self.types.memory
    }

    fn mask(&self) -> u64 {
        self.mask
    }

    fn count_at(&self) -> u64 {
        self.count_at
    }

    fn table_at(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.tables.lookup(address)
    }

    fn references(&self, info: &MethodTableInfo) -> Option<References> {
        if !self.types.contains_references(info.address) {
            return Some(References::None);
        }
        References::read(self.types.memory, info.address)
    }

    fn allocator(&self, info: &MethodTableInfo) -> Option<Addr> {
        self.types.loader_allocator_object(info.address)
    }

    fn contexts(&self) -> &[AllocContext] {
        &self.contexts
    }

    fn searched(&self) -> &AtomicU64 {
        &self.searched
    }

    fn layouts(&self) -> &ObjectLayouts {
        &self.layouts
    }

    fn dependents(&self) -> &Dependents {
        self.dependents.get_or_init(|| {
            let mut all = Dependents::new(&handles(self.types.process, &self.types.runtime).0);
            self.unloading().iter().for_each(|of| all.add(of.allocator, of.context, UNLOADED));
            all
        })
    }
}

impl api::Heap for Heap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.parts
    }

    fn generations(&self) -> &[api::Generation] {
        &Generation::MANAGED
    }

    fn space(&self) -> &Space<'_> {
        self.space.get_or_init(|| {
            let ranges = self.parts.iter().map(|p| p.range);
            Space::new(self.types.process.target(), ranges, MIN_OBJECT)
        })
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
        self.tables.cache.len()
    }

    fn has_too_many_types(&self) -> bool {
        self.tables.cache.is_full()
    }

    fn unread_references(&self) -> u64 {
        self.layouts.unread()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        self.tables.cache.get(kind).map(|info| info.info(self.string_form))
    }

    fn warn_missing(&self) {
        // Counts and sizes are complete without names.
        if let Some(missing) = self.types.missing() {
            self.types.process.diag.note(WarningCode::Metadata, missing);
        }
    }

    /// `Free`, or the name from [`TypeSystem::display_name`].
    fn type_name(&self, kind: TypeIndex) -> String {
        match self.tables.cache.get(kind) {
            Some(info) if !info.free => self.types.display_name(info.address),
            _ => FREE_NAME.into(),
        }
    }

    fn type_module(&self, kind: TypeIndex) -> Option<String> {
        let info = self.tables.cache.get(kind).filter(|info| !info.free)?;
        let module = self.types.module(self.types.module_of(info.address).ok()?);
        (!module.path.is_empty()).then(|| module.path.clone())
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_of_field(kind, offset)
    }

    fn element_field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_in_element(kind, offset)
    }

    fn key_of_value(&self, object: Addr, kind: TypeIndex, offset: u64) -> Option<String> {
        self.async_local(object, kind, offset)
    }

    fn static_at(&self, addr: Addr, near: &[TypeIndex]) -> Option<Arc<str>> {
        self.name_of_static(addr, near)
    }

    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        self.names_of_statics()
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.tables.cache.string()
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let (length_at, first_char) = self.string_form?;
        let (length_at, first_char) = (string.addr.checked_add(length_at)?, string.addr.checked_add(first_char)?);
        StringContent::utf16(self.space.get(), self.types.memory, length_at, first_char)
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(Reader::new(self))
    }
}

/// Offsets of a string's length and of its first character.
fn string_form(types: &TypeSystem<'_>) -> Option<(u64, u64)> {
    let at = |field| types.runtime.layout.positive("String", field).ok();
    Some((at("m_StringLength")?, at("m_FirstChar")?))
}

/// Drops segments that together have more bytes than the core file. Such a core maps the same bytes many times, to make
/// reading slow.
fn affordable(types: &TypeSystem<'_>, mut all: Vec<HeapRange>, notes: &mut Vec<String>) -> Vec<HeapRange> {
    let facts = types.process.facts();
    let mut left = facts.size;
    let whole = all.len();
    let fits =
        |part: &HeapRange| left.checked_sub(facts.space.dumped_in(part.range)).inspect(|rest| left = *rest).is_some();
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
