//! The interface of a managed heap.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::runtimes::api::Space;

/// Index of a type among those seen so far, from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u32);

/// The type of free space between objects, in runtimes that fill it with pseudo-objects.
pub const FREE: TypeIndex = TypeIndex(0);

/// Name of free space in listings, as in SOS.
pub const FREE_NAME: &str = "Free";

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its start, as in references to it.
    pub addr: Addr,
    /// Its type.
    pub kind: TypeIndex,
    /// Its size in bytes as the runtime's own tools count it, without padding before the next object.
    pub size: u64,
}

/// A generation or space: the unit of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Its index in [`Heap::generations`].
    pub number: u8,
    /// Its name in the runtime's words, such as `gen2` or `eden`.
    pub name: &'static str,
    /// Whether its objects are never collected, so that each is its own root.
    pub frozen: bool,
}

/// A range of objects of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of its heap, if the runtime has several; else 0.
    pub heap: u32,
    /// Generation of all objects in it.
    pub generation: Generation,
    /// From the first object to the end of the last.
    pub range: AddrRange,
}

/// Position of the elements in arrays and strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Bytes from the start of the object to its first element.
    pub start: u64,
    /// Bytes of an element; never 0.
    pub size: u64,
}

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// Address of the type in the runtime: a MethodTable, a Klass, a PyTypeObject.
    pub address: Addr,
    /// Whether it is free space between objects.
    pub free: bool,
    /// Whether it is the runtime's string type.
    pub string: bool,
    /// Whether its objects represent types and contain their static variables (`java.lang.Class`).
    /// [`Heap::static_at`] names their fields.
    pub of_types: bool,
    /// For arrays, and for strings that contain their own characters.
    pub elements: Option<Elements>,
}

/// A range of the heap where no object was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its addresses.
    pub range: AddrRange,
    /// The reason, in words.
    pub reason: String,
}

/// Ranges that could not be walked.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The first ranges, by address.
    pub places: Vec<Loss>,
    /// Number of all ranges.
    pub count: u64,
    /// Bytes of all ranges.
    pub bytes: u64,
}

impl Losses {
    /// Adds the bytes from `from` to `to`, with the reason.
    pub fn add(&mut self, from: u64, to: u64, reason: impl FnOnce() -> String) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(to.saturating_sub(from));
        if self.places.len() < limits::MAX_LOSSES {
            self.places.push(Loss { range: AddrRange::new(Addr::new(from), Addr::new(to)), reason: reason() });
        }
    }

    /// Adds the losses of `other`.
    pub(crate) fn merge(&mut self, other: Losses) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.places.extend(other.places);
        self.places.sort_by_key(|l| l.range);
        self.places.truncate(limits::MAX_LOSSES);
    }
}

/// How an object references another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Through the field or element at this offset from its start.
    Field(u64),
    /// Through no field. The text names the way: `(dependent handle)`.
    Beside(&'static str),
}

/// An object found by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its type.
    pub kind: TypeIndex,
    /// Its size in bytes.
    pub size: u64,
    /// Its size as the walk counts it: at least the minimum object size.
    pub counted_size: u64,
}

/// Contents of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringContent<'a> {
    /// Its length in units.
    pub length: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The unit's encoding.
    pub units: StringUnits,
}

/// Unit of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringUnits {
    /// UTF-16, little-endian.
    Utf16,
    /// One byte each: the first 256 code points.
    Latin1,
    /// UTF-8 bytes.
    Utf8,
}

/// Walks the objects of the heap in address order.
pub trait Walker: Send {
    /// Visits the objects of `part` in address order, and adds unreadable ranges to `losses`.
    fn walk(&mut self, part: &Part, losses: &mut Losses, visit: &mut dyn FnMut(&Object));

    /// Bytes that allocators own but have not used, over all parts walked so far.
    fn unused(&self) -> u64 {
        0
    }
}

/// A limited batch of an object's references ([`ObjectReader::targets`]).
pub(crate) struct Batch<'o> {
    out: &'o mut Vec<(u32, u64)>,
    most: usize,
    /// The position to continue from, if not all references fit.
    pub(crate) next: Option<u32>,
}

impl<'o> Batch<'o> {
    /// Creates a batch of up to `most` references, stored in `out`.
    pub(crate) fn new(out: &'o mut Vec<(u32, u64)>, most: usize) -> Batch<'o> {
        out.clear();
        Batch { out, most, next: None }
    }

    /// Adds a reference. Returns whether more fit.
    #[inline]
    pub(crate) fn take(&mut self, place: u32, value: u64) -> bool {
        if self.out.len() < self.most {
            self.out.push((place, value));
            return true;
        }
        self.next = Some(place);
        false
    }
}

/// Objects that were read together ([`ObjectReader::look`]).
#[derive(Debug, Default)]
pub struct Looked {
    /// The object at each address, if there may be one.
    pub nodes: Vec<Option<Node>>,
    /// End of each object's references in `held`. The next object's references start there.
    pub ends: Vec<usize>,
    /// References of the objects, in order of their positions.
    pub held: Vec<u64>,
    /// The position to continue from, if the last object has more references.
    pub next: Option<u32>,
    /// How each reference in `held` is made, if requested.
    pub links: Option<Vec<Link>>,
}

impl Looked {
    /// Creates a buffer that also records links.
    pub(crate) fn with_links() -> Looked {
        Looked { links: Some(Vec::new()), ..Looked::default() }
    }

    /// Removes all objects.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.ends.clear();
        self.held.clear();
        self.next = None;
        self.links.iter_mut().for_each(Vec::clear);
    }

    /// Adds a reference, unless there are `most` already. Returns whether to continue.
    #[inline(always)]
    pub(crate) fn hold(&mut self, most: usize, place: u32, link: Link, value: u64) -> bool {
        if self.held.len() >= most {
            self.next = Some(place);
            return false;
        }
        self.held.push(value);
        if let Some(links) = &mut self.links {
            links.push(link);
        }
        true
    }

    /// Each object with its references.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Option<Node>, &[u64])> {
        let mut start = 0;
        self.nodes.iter().zip(&self.ends).map(move |(&node, &end)| {
            let held = self.held.get(start..end).unwrap_or_default();
            start = end;
            (node, held)
        })
    }
}

/// Reads single objects and their references. Each thread has its own reader.
pub trait ObjectReader: Send {
    /// The object at `addr`, if one may be there.
    fn node(&mut self, addr: u64) -> Option<Node>;

    /// Visits the references of the object at `addr` from position `from` on. Position 0 is the first; others
    /// come from an earlier visit. `visit` gets position, link and target, and returns whether to continue.
    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool);

    /// Stores up to `most` references of the object at `addr` into `out`, with their positions. Returns the
    /// position to continue from, if there may be more. For traversals of the whole heap, where one call per
    /// reference would dominate the time.
    fn targets(&mut self, addr: u64, from: u32, most: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = Batch::new(out, most);
        self.each_from(addr, from, &mut |place, _, value| batch.take(place, value));
        batch.next
    }

    /// Reads the objects at `addrs` and their references, one object after the other, until `most` references
    /// are stored. For analyses that read all objects of a heap.
    fn look(&mut self, addrs: &[u64], most: usize, out: &mut Looked) {
        out.clear();
        for &addr in addrs {
            out.nodes.push(self.node(addr));
            self.each_from(addr, 0, &mut |place, link, value| out.hold(most, place, link, value));
            out.ends.push(out.held.len());
            if out.held.len() >= most {
                break;
            }
        }
    }
}

impl dyn ObjectReader + '_ {
    /// Visits the references of the object at `addr`. `visit` returns whether to continue.
    #[inline]
    pub fn each(&mut self, addr: u64, mut visit: impl FnMut(Link, u64) -> bool) {
        self.each_from(addr, 0, &mut |_, link, value| visit(link, value));
    }

    /// How the object at `addr` references the object at `next`, if it does.
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

/// The heap of a runtime, ready to be walked.
pub trait Heap: Sync {
    /// Ranges of objects, by address, without overlap.
    fn parts(&self) -> &[Part];

    /// All generations, by their numbers.
    fn generations(&self) -> &[Generation];

    /// The dumped memory of all parts.
    fn space(&self) -> &Space<'_>;

    /// Alignment of objects in bytes.
    fn alignment(&self) -> u64 {
        8
    }

    /// What makes the heap harder to walk, in words.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Warns about requested type names that were not available, with a way to get them.
    fn tell_missing(&self) {}

    /// Whether a collection was moving objects.
    fn in_gc(&self) -> bool {
        false
    }

    /// Number of types seen so far.
    fn types(&self) -> usize;

    /// Whether the limit on types is reached. Objects of other types are then lost.
    fn has_too_many_types(&self) -> bool {
        false
    }

    /// Data of a type.
    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo>;

    /// Name of a type, as the runtime's own tools write it.
    fn type_name(&self, kind: TypeIndex) -> String;

    /// File of the module that defines a type, as the runtime names it, such as an assembly's path. `None` if
    /// the type has no file or it was not found.
    fn type_module(&self, _kind: TypeIndex) -> Option<String> {
        None
    }

    /// Name of the field at `offset` of objects that are not arrays: `name`, or `name.inner` for a field within
    /// a value.
    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String>;

    /// What only a heap has whose objects are blocks of an allocator; `None` if objects follow each other.
    fn blocks(&self) -> Option<&dyn BlockHeap> {
        None
    }

    /// Name of the field at `offset` of each array element, if elements are not references.
    fn element_field_name(&self, _kind: TypeIndex, _offset: u64) -> Option<String> {
        None
    }

    /// Name of the static variable at `place`. The modules of `near` are searched first.
    fn static_at(&self, _place: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        None
    }

    /// Names of all static variables that reference objects, by address.
    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        HashMap::new()
    }

    /// The string type, if one was seen.
    fn string_type(&self) -> Option<TypeIndex> {
        None
    }

    /// Contents of a string. `None` if they are not in the core.
    fn string_content(&self, _string: &Object) -> Option<StringContent<'_>> {
        None
    }

    /// Creates a walker.
    fn walker(&self) -> Box<dyn Walker + '_>;

    /// Creates a reader.
    fn reader(&self) -> Box<dyn ObjectReader + '_>;
}

/// A heap whose objects are blocks of an allocator (CPython). They may have heads before them, and memory of their own
/// elsewhere.
pub trait BlockHeap: Sync {
    /// Number of objects of each type that the collector tracks.
    fn tracked(&self) -> &HashMap<TypeIndex, u64>;

    /// Bytes before an object of this type that belong to it and count in its size (CPython's PyGC_Head).
    fn prefix(&self, kind: TypeIndex) -> u64;

    /// Address of the pointer that is visited at `offset` of `object`. It is outside of the object if its
    /// elements are in separate memory.
    fn place(&self, object: Addr, offset: u64) -> Addr;

    /// The object's own name for the reference at `offset`, if its type has none: the key of a dict entry.
    fn link_name(&self, object: Addr, offset: u64) -> Option<String>;
}

/// What a [`BlockHeap`] answers, for any heap.
impl dyn Heap + '_ {
    /// [`BlockHeap::tracked`]; `None` where the collector knows of all objects.
    pub fn tracked(&self) -> Option<&HashMap<TypeIndex, u64>> {
        self.blocks().map(BlockHeap::tracked)
    }

    /// [`BlockHeap::prefix`].
    pub fn prefix(&self, kind: TypeIndex) -> u64 {
        self.blocks().map_or(0, |blocks| blocks.prefix(kind))
    }

    /// [`BlockHeap::place`].
    pub fn place(&self, object: Addr, offset: u64) -> Addr {
        match self.blocks() {
            Some(blocks) => blocks.place(object, offset),
            None => object.saturating_add(offset),
        }
    }

    /// [`BlockHeap::link_name`].
    pub fn link_name(&self, object: Addr, offset: u64) -> Option<String> {
        self.blocks()?.link_name(object, offset)
    }
}

/// All types of a heap that were met so far.
pub(crate) fn kinds(heap: &dyn Heap) -> impl Iterator<Item = TypeIndex> {
    (0..heap.types()).filter_map(|i| u32::try_from(i).ok()).map(TypeIndex)
}

/// Visits each item with the object that contains it, [`FREE`] included. `at` returns an item's address; items
/// must be sorted by it. Items between objects or outside the heap are skipped. Only parts that contain items
/// are walked.
pub fn locate<T>(
    heap: &dyn Heap,
    items: &mut [T],
    at: impl Fn(&T) -> Addr,
    mut visit: impl FnMut(&mut T, &Part, &Object),
) {
    let mut walker = heap.walker();
    for part in heap.parts() {
        let from = items.partition_point(|item| at(item) < part.range.start);
        let to = items.partition_point(|item| at(item) < part.range.end);
        let mut here = items.get_mut(from..to).unwrap_or_default().iter_mut().peekable();
        if here.peek().is_none() {
            continue;
        }
        walker.walk(part, &mut Losses::default(), &mut |object| {
            let start = object.addr.saturating_sub(heap.prefix(object.kind));
            let end = start.saturating_add(object.size.max(1));
            while let Some(item) = here.next_if(|item| at(item) < end) {
                if at(item) >= start {
                    visit(item, part, object);
                }
            }
        });
    }
}
