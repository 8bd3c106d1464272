//! The heap of a managed runtime: what must be asked of it, and in which words it answers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::managed::graph::Space;

/// Number of a type among those met so far; dense from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u32);

/// The type of the space between objects, where a runtime fills it with objects of their own.
pub const FREE: TypeIndex = TypeIndex(0);

/// What listings call such space, as SOS does.
pub const FREE_NAME: &str = "Free";

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it begins, as references to it say.
    pub addr: Addr,
    /// Its type.
    pub kind: TypeIndex,
    /// Its size in bytes, as the runtime's own tools count it: not rounded up to where the
    /// next may begin.
    pub size: u64,
}

/// A part of the heap that a collection treats as one: a generation, or a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Its number among [`Heap::generations`].
    pub number: u8,
    /// Its name in the runtime's own words, as `gen2` or `eden`.
    pub name: &'static str,
    /// Whether its objects are never collected, so that each is its own root.
    pub frozen: bool,
}

/// A run of objects of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of its heap, where a runtime has several; else 0.
    pub heap: u32,
    /// Generation of all objects in it.
    pub generation: Generation,
    /// From the first object to the end of the last.
    pub range: AddrRange,
}

/// Where the elements of objects with a length stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Bytes from the object's start to its first element.
    pub start: u64,
    /// Bytes of an element; never 0.
    pub size: u64,
}

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// What the runtime knows it by: a MethodTable, a Klass, a PyTypeObject.
    pub address: Addr,
    /// Whether it is the space between objects.
    pub free: bool,
    /// Whether it is the runtime's string.
    pub string: bool,
    /// Whether its objects stand for types and hold their static variables (`java.lang.Class`): a field of one is found
    /// by [`Heap::static_at`].
    pub of_types: bool,
    /// Of arrays, and of strings that hold their own characters.
    pub elements: Option<Elements>,
}

/// A stretch of the heap without an object that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where.
    pub range: AddrRange,
    /// Why, in words.
    pub reason: String,
}

/// What could not be walked.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The first of them, by address.
    pub places: Vec<Loss>,
    /// Number of all.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Losses {
    /// Bytes from `from` to `to` can't be walked, and why.
    pub fn add(&mut self, from: u64, to: u64, reason: impl FnOnce() -> String) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(to.saturating_sub(from));
        if self.places.len() < limits::MAX_LOSSES {
            self.places.push(Loss { range: AddrRange::new(Addr::new(from), Addr::new(to)), reason: reason() });
        }
    }

    /// Put `other` to these.
    pub(crate) fn merge(&mut self, other: Losses) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.places.extend(other.places);
        self.places.sort_by_key(|l| l.range);
        self.places.truncate(limits::MAX_LOSSES);
    }
}

/// How an object holds another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// By a field or element at this offset from its start.
    Field(u64),
    /// In no field of it; how, in words: `(dependent handle)`.
    Beside(&'static str),
}

/// An object as one looks at it by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its type.
    pub kind: TypeIndex,
    /// Its size in bytes.
    pub size: u64,
    /// Its size as the walk counts it: no object has less room than the smallest.
    pub counted_size: u64,
}

/// What a string holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringContent<'a> {
    /// Its length in units.
    pub length: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What a unit is.
    pub units: StringUnits,
}

/// Units of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringUnits {
    /// Two bytes each, little-endian.
    Utf16,
    /// A byte each: the first 256 code points.
    Latin1,
    /// Bytes of UTF-8.
    Utf8,
}

/// Goes from object to object.
pub trait Walker: Send {
    /// Visit the objects of `part` by address; what is lost is added to `losses`.
    fn walk(&mut self, part: &Part, losses: &mut Losses, visit: &mut dyn FnMut(&Object));

    /// Bytes that allocators own and have not used, of all parts walked so far.
    fn unused(&self) -> u64 {
        0
    }
}

/// What an object holds, some at once ([`ObjectReader::targets`]).
pub(crate) struct Batch<'o> {
    out: &'o mut Vec<(u32, u64)>,
    most: usize,
    /// The place to go on from, where not all fitted.
    pub(crate) next: Option<u32>,
}

impl<'o> Batch<'o> {
    /// Up to `most`, into `out`.
    pub(crate) fn new(out: &'o mut Vec<(u32, u64)>, most: usize) -> Batch<'o> {
        out.clear();
        Batch { out, most, next: None }
    }

    /// One more; whether there is room for others.
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

/// Objects that were looked at together ([`ObjectReader::look`]).
#[derive(Debug, Default)]
pub struct Looked {
    /// What each of them is, if an object may be there.
    pub nodes: Vec<Option<Node>>,
    /// Where in `held` what each of them holds ends; that of the next begins there.
    pub ends: Vec<usize>,
    /// What they hold, in the order of their places.
    pub held: Vec<u64>,
    /// The place to go on from, where not all that the last of them holds is here.
    pub next: Option<u32>,
    /// How each of `held` is held, where that is asked for.
    pub links: Option<Vec<Link>>,
}

impl Looked {
    /// For those who ask how what is held is held.
    pub(crate) fn with_links() -> Looked {
        Looked { links: Some(Vec::new()), ..Looked::default() }
    }

    /// None.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.ends.clear();
        self.held.clear();
        self.next = None;
        self.links.iter_mut().for_each(Vec::clear);
    }

    /// One more that is held, if that does not make more than `most`; whether to go on.
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

    /// Each of them, and what it holds.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Option<Node>, &[u64])> {
        let mut start = 0;
        self.nodes.iter().zip(&self.ends).map(move |(&node, &end)| {
            let held = self.held.get(start..end).unwrap_or_default();
            start = end;
            (node, held)
        })
    }
}

/// Looks at single objects and what they hold. Each thread has its own.
pub trait ObjectReader: Send {
    /// The object at `addr`, if one may be there.
    fn node(&mut self, addr: u64) -> Option<Node>;

    /// Visit what the object at `addr` holds, from the place `from` on, as an earlier visit
    /// was told it; 0 is the first. `visit` gets place, how, and what; it tells whether to
    /// go on.
    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool);

    /// The same into a list, some at once: put up to `most` of what the object holds into `out`, with
    /// their places. Gives the place to go on from where there may be more. Who follows all
    /// references of a heap asks so: a call for each reference is what would take longest.
    fn targets(&mut self, addr: u64, from: u32, most: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = Batch::new(out, most);
        self.each_from(addr, from, &mut |place, _, value| batch.take(place, value));
        batch.next
    }

    /// What the objects at some addresses are and hold, one after the other, until they hold `most` references. Who looks at
    /// all objects of a heap asks so.
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
    /// Visit what the object at `addr` holds: how, and what. `visit` tells whether to go on.
    #[inline]
    pub fn each(&mut self, addr: u64, mut visit: impl FnMut(Link, u64) -> bool) {
        self.each_from(addr, 0, &mut |_, link, value| visit(link, value));
    }

    /// How the object at `addr` holds that at `next`, if it does itself.
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
    /// Runs of objects, by address; none shares a byte with another.
    fn parts(&self) -> &[Part];

    /// All generations that parts may be of, by their numbers.
    fn generations(&self) -> &[Generation];

    /// The dumped memory of all parts.
    fn space(&self) -> &Space<'_>;

    /// Objects begin at multiples of this.
    fn alignment(&self) -> u64 {
        8
    }

    /// What makes the heap harder to walk, in words.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Note which names of types that were asked for could not be had, and what would help.
    fn tell_missing(&self) {}

    /// Whether a collection was moving objects.
    fn in_gc(&self) -> bool {
        false
    }

    /// How many types were met so far.
    fn types(&self) -> usize;

    /// Whether there are more types than are taken; objects of the others are lost.
    fn has_too_many_types(&self) -> bool {
        false
    }

    /// What is known of a type.
    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo>;

    /// A type's name, as the runtime's own tools write it.
    fn type_name(&self, kind: TypeIndex) -> String;

    /// The file of the module that defines a type, as the runtime names it: the path of its assembly; `None` where types have no
    /// such file, or it is not known.
    fn type_module(&self, _kind: TypeIndex) -> Option<String> {
        None
    }

    /// The field at `offset` of objects that are no arrays: `name`, or `name.inner` where
    /// that is within a value.
    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String>;

    /// What only a heap has whose objects are blocks of an allocator; `None` if objects follow each other.
    fn blocks(&self) -> Option<&dyn BlockHeap> {
        None
    }

    /// The field at `offset` of each element of an array, where elements are no references.
    fn element_field_name(&self, _kind: TypeIndex, _offset: u64) -> Option<String> {
        None
    }

    /// The static variable at `place`, in words; looked for in the modules of `near` first.
    fn static_at(&self, _place: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        None
    }

    /// All static variables that hold objects, in words, by where they are.
    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        HashMap::new()
    }

    /// The type of strings, if one was met.
    fn string_type(&self) -> Option<TypeIndex> {
        None
    }

    /// What a string holds; `None` where that is not in the core.
    fn string_content(&self, _string: &Object) -> Option<StringContent<'_>> {
        None
    }

    /// Something that walks parts.
    fn walker(&self) -> Box<dyn Walker + '_>;

    /// A reader of objects.
    fn reader(&self) -> Box<dyn ObjectReader + '_>;
}

/// A heap whose objects are blocks of an allocator (CPython). They may have heads before them, and memory of their own
/// elsewhere.
pub trait BlockHeap: Sync {
    /// How many objects of each type the collector knows of: it does not know of all.
    fn tracked(&self) -> &HashMap<TypeIndex, u64>;

    /// Bytes before an object of this type that are its own, and part of its size (PyGC_Head of CPython).
    fn prefix(&self, kind: TypeIndex) -> u64;

    /// Where the pointer stands that is visited at `offset` of the object at `object`: elsewhere, where an object has
    /// its elements in memory of their own.
    fn place(&self, object: Addr, offset: u64) -> Addr;

    /// What the object at `object` itself calls what it holds at `offset`, where its type does not tell: the key of an
    /// entry of a dict.
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

/// Visit `items` with the object that each is in, [`FREE`] ones too; `at` tells an item's
/// address, and they are sorted by it. What lies between objects, or outside the heap, is
/// in none. Only parts that hold an item are walked.
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
