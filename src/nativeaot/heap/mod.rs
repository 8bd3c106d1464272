//! The objects of the GC's heap: every segment and region walked from object to object.
//!
//! Objects lie as CoreCLR's do: a MethodTable, then fields; arrays and strings have a count of elements. Frozen objects,
//! string literals above all, lie in the module's own data, which the GC knows as a segment that it never collects.

mod method_tables;
mod reader;
mod walk;

use method_tables::MethodTableInfo;
pub(super) use method_tables::{element_type, read as read_method_table};

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::dotnet::gc::GcHeap;
use crate::dotnet::{AllocContext, Generation, Handle, HandleKind, Segment};
use crate::limits;
use crate::managed::graph::Space;
use crate::managed::linear::LinearWalker;
use crate::managed::{
    self, Elements, FREE_NAME, Object, ObjectReader, Part, StringContent, TypeIndex, TypeInfo, Walker,
};
use crate::nativeaot::naming::Names;
use crate::nativeaot::runtime::Runtime;
use crate::nativeaot::threads::AotThread;
use method_tables::MethodTables;
use reader::Layouts;

/// Objects begin at multiples of this.
const ALIGN: u64 = 8;

/// From an object to its count of elements.
pub(super) const COUNT_AT: u64 = 8;

/// Room of the smallest object (MIN_OBJECT_SIZE of gcinterface.h).
const MIN_OBJECT: u64 = 24;

/// Size of an array without elements that its elements do not follow: the word of its sync block.
const HEADER: u64 = 8;

/// From one object to the next; `size` is at least that of the smallest object.
fn stride(size: u64) -> u64 {
    size.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}

/// The heap of one runtime, ready to be walked.
pub struct Heap<'p> {
    runtime: Arc<Runtime<'p>>,
    names: Arc<Names<'p>>,
    tables: MethodTables<'p>,
    parts: Vec<Part>,
    /// By address; what lies from `pointer` to past `limit` holds no object.
    contexts: Vec<AllocContext>,
    /// In a string: where its length and its first character are.
    string_form: Option<(u64, u64)>,
    in_gc: bool,
    notes: Vec<String>,
    words: OnceLock<Space<'p>>,
    layouts: Layouts,
    dependents: HashMap<u64, Vec<u64>>,
    /// Bytes that were searched for the first object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Prepare to walk the segments of `gc`.
    pub(super) fn open(names: Arc<Names<'p>>, gc: &GcHeap, threads: &[AotThread], handles: &[Handle]) -> Heap<'p> {
        let runtime = names.runtime().clone();
        let mut contexts = gc.contexts.clone();
        contexts.extend(threads.iter().filter_map(|thread| thread.context));
        contexts.sort_unstable();
        contexts.dedup();
        let mut dependents: HashMap<u64, Vec<u64>> = HashMap::new();
        for handle in handles.iter().filter(|h| h.kind == HandleKind::Dependent) {
            let Some(secondary) = handle.secondary else { continue };
            dependents.entry(handle.object.get()).or_default().push(secondary.get());
        }
        let mut notes = Vec::new();
        let at = |field| runtime.layout.positive("String", field).ok();
        let string_form = at("m_StringLength").zip(at("m_FirstChar"));
        Heap {
            tables: MethodTables::new(runtime.clone()),
            parts: parts(&runtime, &gc.segments, &mut notes),
            contexts,
            string_form,
            in_gc: gc.in_gc,
            notes,
            words: OnceLock::new(),
            layouts: Layouts::default(),
            dependents,
            searched: AtomicU64::new(0),
            names,
            runtime,
        }
    }

    /// The runtime.
    pub(super) fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    fn dependents(&self) -> &HashMap<u64, Vec<u64>> {
        &self.dependents
    }

    fn words(&self) -> &Space<'p> {
        self.words.get_or_init(|| {
            let ranges = self.parts.iter().map(|p| p.range);
            Space::new(self.runtime.process.target(), ranges, MIN_OBJECT)
        })
    }

    /// From an object's start to its first element. A string's base size counts the NUL behind its characters.
    pub(super) fn start_of_elements(&self, info: &MethodTableInfo) -> u64 {
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
            elements: (info.component_size != 0)
                .then(|| Elements { start: self.start_of_elements(&info), size: u64::from(info.component_size) }),
        })
    }

    fn type_name(&self, kind: TypeIndex) -> String {
        match self.tables.get(kind) {
            Some(info) if info.string => self.names.string(info.address),
            Some(info) if !info.free => self.names.of(info.address),
            _ => FREE_NAME.into(),
        }
    }

    /// All types are compiled into the program.
    fn type_module(&self, _: TypeIndex) -> Option<String> {
        (!self.runtime.path.is_empty()).then(|| self.runtime.path.clone())
    }

    /// Metadata of NativeAOT tells no offsets of fields.
    fn field_name(&self, _kind: TypeIndex, _offset: u64) -> Option<String> {
        None
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.tables.string()
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let (length_at, first_char) = self.string_form?;
        let (length_at, first_char) = (string.addr.checked_add(length_at)?, string.addr.checked_add(first_char)?);
        StringContent::utf16(self.words.get(), self.runtime.memory, length_at, first_char)
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(self.object_reader())
    }
}

/// The runs of all segments, as far as together they have no more bytes than the core's file: where they have, it maps
/// the same bytes many times, to keep us busy. Segments that overlap would be counted twice: the later one is left out.
fn parts(runtime: &Runtime<'_>, segments: &[Segment], notes: &mut Vec<String>) -> Vec<Part> {
    let mut all: Vec<Part> = segments
        .iter()
        .flat_map(|s| {
            let heap = s.heap;
            s.runs().map(move |(generation, range)| Part { heap, generation: generation.managed(), range })
        })
        .collect();
    all.sort_by_key(|p| (p.range.start, p.range.end));
    let facts = runtime.process.facts();
    let (mut end, mut left) = (Addr::NULL, facts.size);
    let whole = all.len();
    all.retain(|p| {
        let dumped = facts.space.dumped_in(p.range);
        let sane = p.range.start >= end
            && p.range.start.is_aligned(ALIGN)
            && p.range.len() <= limits::MAX_RUNTIME_RANGE
            && dumped <= left;
        if sane {
            end = p.range.end;
            left -= dumped;
        }
        sane
    });
    if all.len() < whole {
        let out = crate::units::count((whole - all.len()) as u64, "segment");
        notes.push(format!("{out} with invalid or overlapping bounds ignored"));
    }
    all
}
