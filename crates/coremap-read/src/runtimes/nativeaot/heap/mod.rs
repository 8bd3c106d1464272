//! The heap of objects.
//!
//! Objects have the same form as in CoreCLR: a MethodTable, then fields; arrays and strings have a count of elements.
//! Frozen objects, mostly string literals, are in the module's data. The GC has a segment for them that it never
//! collects.

mod method_tables;

use method_tables::is_array_of_references;
pub(super) use method_tables::{element_type, read as read_method_table};

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::diag::was_read;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::Space;
use crate::runtimes::api::linear::LinearWalker;
use crate::runtimes::api::{
    self, FREE_NAME, Handle, HeapRange, Object, ObjectReader, StringContent, TypeIndex, TypeInfo, Walker,
};
use crate::runtimes::clr_gc::{
    ALIGN, AllocContext, ClrHeap, Dependents, GcHeap, MIN_OBJECT, MethodTableInfo, ObjectLayouts, Reader, References,
    parts,
};
use crate::runtimes::nativeaot::census::Census;
use crate::runtimes::nativeaot::naming::Names;
use crate::runtimes::nativeaot::runtime::Runtime;
use crate::runtimes::nativeaot::statics::Statics;
use crate::runtimes::nativeaot::threads::Threads;
use crate::words::Generation;
use method_tables::Tables;

/// Mark bits of a collection in an object's first word.
const MARKS: u64 = 7;

/// The heap of one runtime.
pub struct Heap<'p> {
    runtime: Arc<Runtime<'p>>,
    names: Arc<Names<'p>>,
    tables: Tables<'p>,
    parts: Vec<HeapRange>,
    /// Allocation contexts by address. No object is from `pointer` to past `limit`.
    contexts: Vec<AllocContext>,
    /// Offsets of a string's length and of its first character.
    string_form: Option<(u64, u64)>,
    in_gc: bool,
    notes: Vec<String>,
    words: OnceLock<Space<'p>>,
    threads: Arc<Threads>,
    /// Objects of handles that keep them alive.
    strong: Vec<Addr>,
    census: OnceLock<Census>,
    statics: OnceLock<Statics>,
    layouts: ObjectLayouts,
    dependents: Dependents,
    /// Bytes searched for the first object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Opens the heap with the segments of `gc`.
    pub(super) fn open(names: Arc<Names<'p>>, gc: &GcHeap, threads: Arc<Threads>, handles: &[Handle]) -> Heap<'p> {
        let runtime = names.runtime().clone();
        let mut contexts = gc.contexts.clone();
        contexts.extend(threads.all.iter().filter_map(|thread| thread.context));
        contexts.sort_unstable();
        contexts.dedup();
        let mut notes = Vec::new();
        let at = |field| runtime.layout.positive("String", field).ok();
        let string_form = at("m_StringLength").zip(at("m_FirstChar"));
        Heap {
            tables: Tables::new(runtime.clone()),
            parts: parts(&gc.segments, &mut notes, affordable(&runtime)),
            contexts,
            string_form,
            in_gc: gc.in_gc,
            notes,
            words: OnceLock::new(),
            threads,
            strong: handles.iter().filter(|h| h.kind.keeps()).map(|h| h.object).collect(),
            census: OnceLock::new(),
            statics: OnceLock::new(),
            layouts: ObjectLayouts::default(),
            dependents: Dependents::new(handles),
            searched: AtomicU64::new(0),
            names,
            runtime,
        }
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    /// The runtime's threads.
    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Names of types.
    pub(super) fn names(&self) -> &Names<'p> {
        &self.names
    }

    /// Objects of handles that keep them alive.
    pub(super) fn strong(&self) -> &[Addr] {
        &self.strong
    }

    /// MethodTables of all types seen so far, with their flags.
    pub(super) fn type_addresses(&self) -> Vec<(Addr, u32)> {
        let all = api::all_types(self).filter_map(|kind| self.tables.cache.get(kind));
        all.filter(|info| !info.free).map(|info| (info.address, info.flags)).collect()
    }

    /// Whether an object contains static variables: its type has no class. A continuation has none either, but another
    /// base type than System.Object.
    pub(super) fn is_static_base(&self, at: Addr) -> bool {
        let info = api::Heap::reader(self).node(at.get()).and_then(|node| self.tables.cache.get(node.kind));
        info.is_some_and(|info| !info.free && !info.string && self.names.is_of_statics(info.address, info.flags))
    }

    /// Static variables.
    pub(super) fn all_statics(&self) -> &Statics {
        self.statics.get_or_init(|| {
            was_read("static variables");
            Statics::read(self)
        })
    }

    /// Objects of the library, from one walk.
    pub(super) fn census(&self) -> &Census {
        self.census.get_or_init(|| {
            was_read("objects of the library");
            Census::read(self)
        })
    }

    /// Whether a type has a name of its own.
    pub(super) fn is_named(&self, kind: TypeIndex) -> bool {
        self.tables.cache.get(kind).is_some_and(|info| self.names.known(info.address).is_some())
    }

    /// Names of the base types of a type, the nearest first, up to `most`. None of an array.
    pub(super) fn base_names(&self, kind: TypeIndex, most: usize) -> Vec<String> {
        let mut out = Vec::new();
        let Some(info) = self.tables.cache.get(kind).filter(|info| !info.free && !info.string) else { return out };
        let walks = Walks::new(Phase::Types, most);
        let base = |at: Addr| self.runtime.view("MethodTable", at).ptr("m_pBaseType");
        // An unreadable base ends the list.
        let _ = walks.begin().follow(base(info.address).unwrap_or(Addr::NULL), |at| {
            out.push(self.names.of(at));
            base(at)
        });
        out
    }

    fn words(&self) -> &Space<'p> {
        self.words.get_or_init(|| {
            let ranges = self.parts.iter().map(|p| p.range);
            Space::new(self.runtime.process.target(), ranges, MIN_OBJECT)
        })
    }
}

impl ClrHeap for Heap<'_> {
    /// There is no official tool that counts differently.
    const SIZES_ARE_ROUNDED: bool = true;

    fn process(&self) -> &Process {
        self.runtime.process
    }

    fn memory(&self) -> &dyn Memory {
        self.runtime.memory()
    }

    fn mask(&self) -> u64 {
        !MARKS
    }

    fn table_at(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.tables.lookup(address)
    }

    fn references(&self, info: &MethodTableInfo) -> Option<References> {
        if !info.free && info.flags & self.runtime.flag("HasPointers") != 0 {
            return References::read(self.runtime.memory(), info.address);
        }
        // The bit moved once (9.0). An array of references without it shows that it moved again.
        (info.free || !is_array_of_references(&self.runtime, info)).then_some(References::None)
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
        &self.dependents
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
        self.words()
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

    fn type_name(&self, kind: TypeIndex) -> String {
        match self.tables.cache.get(kind) {
            Some(info) if info.string => self.names.string(info.address),
            Some(info) if !info.free => self.names.of(info.address),
            _ => FREE_NAME.into(),
        }
    }

    /// The program, since all types are compiled into it.
    fn type_module(&self, _: TypeIndex) -> Option<String> {
        (!self.runtime.path.is_empty()).then(|| self.runtime.path.clone())
    }

    /// By the program's debug file: the metadata has no field offsets.
    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let info = self.tables.cache.get(kind).filter(|info| !info.free && !info.string)?;
        self.names.field(info.address, offset)
    }

    fn static_at(&self, place: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        self.all_statics().names.get(&place).cloned()
    }

    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        self.all_statics().names.clone()
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.tables.cache.string()
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let (length_at, first_char) = self.string_form?;
        let (length_at, first_char) = (string.addr.checked_add(length_at)?, string.addr.checked_add(first_char)?);
        StringContent::utf16(self.words.get(), self.runtime.memory(), length_at, first_char)
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(Reader::new(self))
    }
}

/// Returns a filter that drops a segment if the accepted ones would have more bytes than the core file. Such a core
/// maps the same bytes many times, to make reading slow.
fn affordable(runtime: &Runtime<'_>) -> impl FnMut(&HeapRange) -> bool {
    let facts = runtime.process.facts();
    let mut left = facts.size;
    move |part| left.checked_sub(facts.space.dumped_in(part.range)).inspect(|rest| left = *rest).is_some()
}
