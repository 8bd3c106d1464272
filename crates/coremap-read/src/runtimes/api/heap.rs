//! The interface of a managed heap.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::runtimes::api::Space;

/// Index of a type among the types seen so far. Indices start at 0 and have no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u32);

/// Type of the free space between objects, in runtimes that fill it with pseudo-objects.
pub const FREE: TypeIndex = TypeIndex(0);

/// Name of free space in listings, as in SOS.
pub const FREE_NAME: &str = "Free";

/// An object of a managed heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Start address. References to the object have this value.
    pub addr: Addr,
    /// Type of the object.
    pub kind: TypeIndex,
    /// Size in bytes as the runtime's own tools count it, without padding before the next object.
    pub size: u64,
}

/// A generation or space of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Index in [`Heap::generations`].
    pub number: u8,
    /// Name in the runtime's words, such as `gen2` or `eden`.
    pub name: &'static str,
    /// Whether its objects are never collected. Each of them is then a root.
    pub frozen: bool,
}

/// A contiguous range of objects of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapRange {
    /// Number of the heap. 0 if the runtime has only one.
    pub heap: u32,
    /// Generation of all objects in the range.
    pub generation: Generation,
    /// From the start of the first object to the end of the last.
    pub range: AddrRange,
}

/// Layout of the elements of an array or string type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Offset of the first element from the object's start, in bytes.
    pub start: u64,
    /// Element size in bytes. Never 0.
    pub size: u64,
}

/// Data of an object type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// Address of the runtime's type structure: a MethodTable, a Klass, a PyTypeObject.
    pub address: Addr,
    /// Whether this is the type of free space between objects.
    pub free: bool,
    /// Whether this is the runtime's string type.
    pub string: bool,
    /// Whether objects of this type represent types and contain their static variables (`java.lang.Class`).
    /// [`Heap::static_at`] names those variables.
    pub represents_types: bool,
    /// Layout of the elements of arrays, and of strings that contain their own characters. `None` for other types.
    pub elements: Option<Elements>,
}

/// Where a type comes from, in runtimes whose type names are not unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeOrigin {
    /// Script with the type's constructor or function, as the runtime names it.
    pub script: Option<String>,
    /// Line in the script, from 1 on.
    pub line: Option<u32>,
    /// Name of the isolate that has the type.
    pub isolate: Option<String>,
}

/// A range of the heap where no object was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwalkedRange {
    /// Addresses of the range.
    pub range: AddrRange,
    /// Why no object was found, in words.
    pub reason: String,
}

/// Ranges of the heap that could not be walked.
#[derive(Clone, Debug, Default)]
pub struct UnwalkedRanges {
    /// The first ranges in address order, at most `limits::MAX_LOSSES`.
    pub listed: Vec<UnwalkedRange>,
    /// Number of ranges, including those not listed.
    pub count: u64,
    /// Total bytes of the ranges, including those not listed.
    pub bytes: u64,
}

impl UnwalkedRanges {
    /// Adds the range `from..to`. `reason` is called only if the range is listed.
    pub fn add(&mut self, from: u64, to: u64, reason: impl FnOnce() -> String) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(to.saturating_sub(from));
        if self.listed.len() < limits::MAX_LOSSES {
            self.listed.push(UnwalkedRange { range: AddrRange::new(Addr::new(from), Addr::new(to)), reason: reason() });
        }
    }

    pub(crate) fn merge(&mut self, other: UnwalkedRanges) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.listed.extend(other.listed);
        self.listed.sort_by_key(|l| l.range);
        self.listed.truncate(limits::MAX_LOSSES);
    }
}

/// How an object references another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Through the field or element at this offset from the object's start, in bytes.
    Field(u64),
    /// Through no field. The text says how, such as `(dependent handle)`.
    NoField(&'static str),
}

/// Type and size of an object that was found by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Type of the object.
    pub kind: TypeIndex,
    /// Size in bytes.
    pub size: u64,
    /// Size in bytes as the walk counts it: at least the minimum object size.
    pub counted_size: u64,
}

/// Contents of a string object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringContent<'a> {
    /// Length in units.
    pub length: u32,
    /// The string's bytes.
    pub bytes: &'a [u8],
    /// Encoding of a unit.
    pub units: StringUnits,
    /// Address and size in bytes of the object that has the content. `None` if the string contains it itself. Several
    /// strings may share it.
    pub storage: Option<(Addr, u64)>,
}

/// Encoding of a string's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringUnits {
    /// UTF-16, little-endian.
    Utf16,
    /// One byte each, the first 256 code points of Unicode.
    Latin1,
}

/// Walks the objects of a heap in address order.
pub trait Walker: Send {
    /// Visits the objects of `heap_range` in address order, and adds unreadable ranges to `unwalked`.
    fn walk(&mut self, heap_range: &HeapRange, unwalked: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object));

    /// Bytes that belong to allocators and are unused, in all parts walked so far.
    fn unused(&self) -> u64 {
        0
    }
}

/// A limited batch of an object's references ([`ObjectReader::targets`]).
pub(crate) struct RefBatch<'o> {
    out: &'o mut Vec<(u32, u64)>,
    limit: usize,
    /// Position to continue from. `None` if all references fit.
    pub(crate) next: Option<u32>,
}

impl<'o> RefBatch<'o> {
    /// Clears `out` and creates a batch of up to `limit` references in it.
    pub(crate) fn new(out: &'o mut Vec<(u32, u64)>, limit: usize) -> RefBatch<'o> {
        out.clear();
        RefBatch { out, limit, next: None }
    }

    /// Adds a reference. Returns whether the batch had room for it.
    #[inline]
    pub(crate) fn push(&mut self, place: u32, value: u64) -> bool {
        if self.out.len() < self.limit {
            self.out.push((place, value));
            return true;
        }
        self.next = Some(place);
        false
    }
}

/// Objects that were read in one batch ([`ObjectReader::read_batch`]).
#[derive(Debug, Default)]
pub struct ObjectBatch {
    /// The object at each requested address. `None` if there is none.
    pub nodes: Vec<Option<Node>>,
    /// End index in `references` of each object's references. The next object's references start there.
    pub ends: Vec<usize>,
    /// References of all objects, ordered by position within each object.
    pub references: Vec<u64>,
    /// Position to continue from, if the last object has more references.
    pub next: Option<u32>,
    /// Link of each of the `references`. `None` if links were not requested.
    pub links: Option<Vec<Link>>,
}

impl ObjectBatch {
    /// Creates a buffer that records links too.
    pub(crate) fn with_links() -> ObjectBatch {
        ObjectBatch { links: Some(Vec::new()), ..ObjectBatch::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.ends.clear();
        self.references.clear();
        self.next = None;
        self.links.iter_mut().for_each(Vec::clear);
    }

    /// Adds a reference, unless there are `limit` already. Returns whether it was added.
    #[inline(always)]
    pub(crate) fn push(&mut self, limit: usize, place: u32, link: Link, value: u64) -> bool {
        if self.references.len() >= limit {
            self.next = Some(place);
            return false;
        }
        self.references.push(value);
        if let Some(links) = &mut self.links {
            links.push(link);
        }
        true
    }

    /// Iterates the objects, each with its references.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (Option<Node>, &[u64])> {
        let mut start = 0;
        self.nodes.iter().zip(&self.ends).map(move |(&node, &end)| {
            let held = self.references.get(start..end).unwrap_or_default();
            start = end;
            (node, held)
        })
    }
}

/// Reads single objects and their references. Each thread has its own reader.
pub trait ObjectReader: Send {
    /// The object at `addr`. `None` if no object can be there.
    fn node(&mut self, addr: u64) -> Option<Node>;

    /// Visits the references of the object at `addr`, starting at position `from`. Position 0 is the first reference;
    /// other positions come from an earlier visit. `visit` receives position, link and target, and returns whether to
    /// continue.
    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool);

    /// Stores up to `limit` references of the object at `addr` in `out`, with their positions. Returns the position to
    /// continue from if there may be more. Traversals of the whole heap use this, because one call per reference would
    /// dominate their time.
    fn targets(&mut self, addr: u64, from: u32, limit: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = RefBatch::new(out, limit);
        self.each_from(addr, from, &mut |place, _, value| batch.push(place, value));
        batch.next
    }

    /// Reads the objects at `addrs` in order, with their references, until `limit` references are stored. For analyses
    /// that read all objects of a heap.
    fn read_batch(&mut self, addrs: &[u64], limit: usize, out: &mut ObjectBatch) {
        out.clear();
        for &addr in addrs {
            out.nodes.push(self.node(addr));
            self.each_from(addr, 0, &mut |place, link, value| out.push(limit, place, link, value));
            out.ends.push(out.references.len());
            if out.references.len() >= limit {
                break;
            }
        }
    }
}

impl dyn ObjectReader + '_ {
    /// Visits all references of the object at `addr`. `visit` returns whether to continue.
    #[inline]
    pub fn each(&mut self, addr: u64, mut visit: impl FnMut(Link, u64) -> bool) {
        self.each_from(addr, 0, &mut |_, link, value| visit(link, value));
    }

    /// The link from the object at `addr` to the object at `next`. `None` if there is none.
    pub fn link(&mut self, addr: u64, next: u64) -> Option<Link> {
        let mut found = None;
        self.each(addr, |link, value| {
            if value == next {
                found = Some(link);
            }
            value != next
        });
        found
    }
}

/// The heap of a runtime.
pub trait Heap: Sync {
    /// Ranges of objects, sorted by address and disjoint.
    fn ranges(&self) -> &[HeapRange];

    /// All generations. Their numbers are indices into this list.
    fn generations(&self) -> &[Generation];

    /// The dumped memory of all parts.
    fn space(&self) -> &Space<'_>;

    /// Alignment of objects in bytes.
    fn alignment(&self) -> u64 {
        8
    }

    /// Conditions that make the heap harder to walk, as messages.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Warns about requested type names that were not available, with a way to get them.
    fn warn_missing(&self) {}

    /// Number of types seen so far whose objects have references that can't be read.
    fn unread_references(&self) -> u64 {
        0
    }

    /// Whether a collection was in progress, so that objects may have been moving.
    fn in_gc(&self) -> bool {
        false
    }

    /// Whether objects of this type retain their referent only while memory suffices (soft references). A collection
    /// frees it before an allocation fails.
    fn is_soft_reference(&self, _kind: TypeIndex) -> bool {
        false
    }

    /// Whether objects of this type only list threads. A path through such a list is true, but does not explain what
    /// keeps an object alive: the running thread does.
    fn lists_threads(&self, _kind: TypeIndex) -> bool {
        false
    }

    /// Space of the heap without objects that is not between objects: where, and bytes.
    fn unused_space(&self) -> &[(&'static str, u64)] {
        &[]
    }

    /// Number of types seen so far.
    fn types(&self) -> usize;

    /// Whether the limit on types is reached. Objects of other types are then lost.
    fn has_too_many_types(&self) -> bool {
        false
    }

    /// Data of a type. `None` if the index is unknown.
    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo>;

    /// Name of a type as the runtime's own tools write it.
    fn type_name(&self, kind: TypeIndex) -> String;

    /// How the type of these objects is known, in the runtime's words: the weakest grade among them. `None` if each
    /// object has its type.
    fn type_grade(&self, _kind: TypeIndex) -> Option<&'static str> {
        None
    }

    /// File of the module that defines the type, as the runtime names it, such as an assembly's path. `None` if the
    /// type has no file or the file was not found.
    fn type_module(&self, _kind: TypeIndex) -> Option<String> {
        None
    }

    /// Where a type comes from. `None` in runtimes with unique names.
    fn type_origin(&self, _kind: TypeIndex) -> Option<TypeOrigin> {
        None
    }

    /// Name that the object itself gives to the reference at `offset`, in a heap of contiguous objects.
    fn own_link_name(&self, _object: Addr, _offset: u64) -> Option<String> {
        None
    }

    /// Name of the field at `offset` of a non-array type: `name`, or `name.inner` for a field inside a value type.
    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String>;

    /// Additional answers of a heap whose objects are allocator blocks. `None` if objects are contiguous.
    fn blocks(&self) -> Option<&dyn BlockHeap> {
        None
    }

    /// Name of the field at `offset` within each array element. `None` if elements are references.
    fn element_field_name(&self, _kind: TypeIndex, _offset: u64) -> Option<String> {
        None
    }

    /// Returns the key of a map whose value is at `offset` in `object`, as text. For example, an `AsyncLocal` with the
    /// static variable that declares it. `None` if the object is no such map.
    fn key_of_value(&self, _object: Addr, _kind: TypeIndex, _offset: u64) -> Option<String> {
        None
    }

    /// Returns what the object is in the program, in words, such as the globals of a module. `None` if its type is
    /// enough.
    fn title(&self, _object: Addr) -> Option<String> {
        None
    }

    /// Name of the static variable at `place`. Modules of the types `near` are searched first.
    fn static_at(&self, _place: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        None
    }

    /// Names of all static variables that reference objects, by the variable's address.
    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        HashMap::new()
    }

    /// The runtime's string type. `None` if none was seen.
    fn string_type(&self) -> Option<TypeIndex> {
        None
    }

    /// Contents of a string object. `None` if they are not in the core.
    fn string_content(&self, _string: &Object) -> Option<StringContent<'_>> {
        None
    }

    /// Creates a walker. Each thread needs its own.
    fn walker(&self) -> Box<dyn Walker + '_>;

    /// Creates an object reader. Each thread needs its own.
    fn reader(&self) -> Box<dyn ObjectReader + '_>;
}

/// A heap whose objects are allocator blocks (CPython). An object may have a header before it and may own memory
/// elsewhere.
pub trait BlockHeap: Sync {
    /// Number of objects that the collector tracks, by type.
    fn tracked(&self) -> &HashMap<TypeIndex, u64>;

    /// Bytes before an object of this type that belong to it and count in its size (CPython's `PyGC_Head`).
    fn prefix(&self, kind: TypeIndex) -> u64;

    /// Address of the pointer that is visited at `offset` of `object`. It is outside the object if the elements are in
    /// separate memory.
    fn slot_address(&self, object: Addr, offset: u64) -> Addr;

    /// Name that the object itself gives to the reference at `offset`, such as a dict key. Used if the type has no name
    /// for it.
    fn link_name(&self, object: Addr, offset: u64) -> Option<String>;
}

/// The answers of [`BlockHeap`] for any heap.
impl dyn Heap + '_ {
    /// [`BlockHeap::tracked`]. `None` if the heap is not a `BlockHeap`: its collector then knows all objects.
    pub fn tracked(&self) -> Option<&HashMap<TypeIndex, u64>> {
        self.blocks().map(BlockHeap::tracked)
    }

    /// [`BlockHeap::prefix`], or 0 for other heaps.
    pub fn prefix(&self, kind: TypeIndex) -> u64 {
        self.blocks().map_or(0, |blocks| blocks.prefix(kind))
    }

    /// [`BlockHeap::slot_address`], or `object + offset` for other heaps.
    pub fn slot_address(&self, object: Addr, offset: u64) -> Addr {
        match self.blocks() {
            Some(blocks) => blocks.slot_address(object, offset),
            None => object.saturating_add(offset),
        }
    }

    /// [`BlockHeap::link_name`], or [`Heap::own_link_name`] of other heaps.
    pub fn link_name(&self, object: Addr, offset: u64) -> Option<String> {
        match self.blocks() {
            Some(blocks) => blocks.link_name(object, offset),
            None => self.own_link_name(object, offset),
        }
    }
}

/// Iterates all types of a heap that were seen so far.
pub(crate) fn all_types(heap: &dyn Heap) -> impl Iterator<Item = TypeIndex> {
    (0..heap.types()).filter_map(|i| u32::try_from(i).ok()).map(TypeIndex)
}

/// Visits each item together with the object that contains it. [`FREE`] counts as an object.
///
/// `at` returns an item's address, and `items` must be sorted by it. Items between objects or outside the heap are
/// skipped. Only parts that contain items are walked.
pub fn locate<T>(
    heap: &dyn Heap,
    items: &mut [T],
    at: impl Fn(&T) -> Addr,
    mut visit: impl FnMut(&mut T, &HeapRange, &Object),
) {
    let mut walker = heap.walker();
    for heap_range in heap.ranges() {
        let from = items.partition_point(|item| at(item) < heap_range.range.start);
        let to = items.partition_point(|item| at(item) < heap_range.range.end);
        let mut here = items.get_mut(from..to).unwrap_or_default().iter_mut().peekable();
        if here.peek().is_none() {
            continue;
        }
        walker.walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
            let start = object.addr.saturating_sub(heap.prefix(object.kind));
            let end = start.saturating_add(object.size.max(1));
            while let Some(item) = here.next_if(|item| at(item) < end) {
                if at(item) >= start {
                    visit(item, heap_range, object);
                }
            }
        });
    }
}
