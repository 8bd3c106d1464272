//! The objects of CPython: in the arenas of obmalloc, and wherever else objects lead.
//!
//! In an arena each block in use is an object, memory that an object owns (the table of a dict, the items of a list),
//! or something else. What lies outside (objects and buffers of more than 512 bytes come from malloc; with
//! `PYTHONMALLOC=malloc` all do) is found by what leads there: the collector's lists, and the objects known so far. That
//! asks no allocator, so that it is the same with every one.
//!
//! | file | does |
//! |---|---|
//! | `blocks` | blocks by size, and which block an address is in |
//! | `census` | which block is what, and what lies outside of the arenas |
//! | `scene`, `arena_map` | one arena or object as the census looks at it; what each block is |
//! | `tracked` | what the collector's lists have |
//! | `visit`, `deque`, `inner_frames` | what an object holds: objects and memory |
//! | `types` | numbers of types |
//! | `places` | which arena an address lies in |
//! | `source` | words of the heap, by address |
//! | `walk`, `reader` | from object to object; single objects |
//! | `fields` | names of what holds what |

mod arena_map;
mod blocks;
mod census;
mod deque;
mod fields;
mod inner_frames;
mod owned;
mod places;
mod reader;
mod scene;
mod source;
mod tracked;
mod types;
mod visit;
mod walk;

pub use fields::NdArray;
pub use owned::OwnedKind;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::Space;
use crate::runtimes::api::{
    self, BlockHeap, Elements, Generation, Link, Object, ObjectReader, Part, SmallBlockSums, StringContent,
    StringUnits, TypeIndex, TypeInfo, Walker,
};
use crate::runtimes::cpython::objects::{Form, Objects, PyType};
use crate::runtimes::cpython::obmalloc::Arenas;
use crate::runtimes::cpython::runtime::{PyError, Runtime};
use crate::runtimes::cpython::shape::REFCNT;
use arena_map::Block;
use census::Census;
use source::Source;
use types::Types;

/// Objects of no type take less: `object` itself.
const MIN_OBJECT: u64 = 16;

/// Parts of the heap, in CPython's words.
const PYMALLOC: Generation = Generation { number: 0, name: "pymalloc", frozen: false };
const MALLOC: Generation = Generation { number: 1, name: "malloc", frozen: false };

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// What may be an object.
    Object(Addr),
    /// Memory of its own.
    Memory(AddrRange, OwnedKind),
}

/// The heap of one CPython, ready to be walked.
pub struct Heap<'p> {
    runtime: Arc<Runtime<'p>>,
    objects: Objects<'p>,
    types: Types<'p>,
    arenas: Vec<Arenas>,
    census: Census,
    parts: Vec<Part>,
    source: Source<'p>,
    notes: Vec<String>,
    fields: fields::Names,
    tracked: HashMap<TypeIndex, u64>,
    strings: OnceLock<Option<TypeIndex>>,
    globals: OnceLock<HashMap<Addr, Arc<str>>>,
    small_blocks: OnceLock<Option<SmallBlockSums>>,
}

impl<'p> Heap<'p> {
    /// Read which objects there are.
    ///
    /// # Errors
    /// Where the table of the version lacks what every version has.
    pub fn open(runtime: Arc<Runtime<'p>>, arenas: Vec<Arenas>) -> Result<Heap<'p>, PyError> {
        let objects = runtime.objects();
        let types = Types::new(&runtime);
        let mut notes = Vec::new();
        let lists = tracked::lists(&runtime, &mut notes);
        let census = Census::read(&runtime, &types, &arenas, &lists, &mut notes)?;
        let tracked = Census::count_tracked(&objects, &types, &lists);
        let parts = census.parts(&runtime);
        let source = Source::new(runtime.process, parts.iter().map(|p| p.range), MIN_OBJECT);
        let fields = fields::Names::default();
        let (strings, globals, small_blocks) = Default::default();
        Ok(Heap {
            runtime,
            objects,
            types,
            arenas,
            census,
            parts,
            source,
            notes,
            fields,
            tracked,
            strings,
            globals,
            small_blocks,
        })
    }

    /// The interpreter.
    pub fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    /// Looks at objects by their address.
    pub fn objects(&self) -> &Objects<'p> {
        &self.objects
    }

    /// The type at `address`, if it is one of an object.
    pub fn type_at(&self, address: Addr) -> Option<Arc<PyType>> {
        self.types.lookup(address.get()).map(|(_, found)| found)
    }

    /// The type of the object at `object`, if one is known there.
    pub fn type_of(&self, object: Addr) -> Option<Arc<PyType>> {
        self.numbered_type_of(object).map(|(_, found)| found)
    }

    /// The same with its number.
    pub(crate) fn numbered_type_of(&self, object: Addr) -> Option<(TypeIndex, Arc<PyType>)> {
        self.census.object_at(object)?;
        self.types.lookup(self.objects.type_of(object)?.get())
    }

    /// The type of that number; none of free space and of memory that objects own.
    pub(crate) fn type_of_kind(&self, kind: TypeIndex) -> Option<Arc<PyType>> {
        self.types.get(kind)
    }

    /// Global variables of all modules, as `global module.name`, by where the dict of the module has its pointer.
    pub fn globals(&self) -> &HashMap<Addr, Arc<str>> {
        self.globals.get_or_init(|| {
            let modules = self.runtime.interpreters.iter().flat_map(|at| self.runtime.modules(*at));
            let mut all = HashMap::new();
            for module in modules {
                self.objects.each_entry(module.dict, limits::MAX_PY_LOOKUP, |entry| {
                    if let Some(key) = self.objects.name(entry.key).filter(|_| self.objects.is_str(entry.key)) {
                        all.entry(entry.place).or_insert_with(|| format!("global {}.{key}", module.name).into());
                    }
                    all.len() < limits::MAX_PY_GLOBALS
                });
            }
            all
        })
    }

    fn cursor(&self) -> deque::Cursor {
        deque::Cursor::new(self.runtime.process.facts().size)
    }

    fn visitor<'v>(&'v self, cursor: &'v deque::Cursor) -> visit::Visitor<'v, 'p> {
        visit::Visitor { objects: &self.objects, source: &self.source, layout: &self.runtime.layout, cursor }
    }

    /// How often the object at `at` is referred to, as it says itself.
    pub(crate) fn refcnt(&self, at: Addr) -> u64 {
        self.source.word(at.wrapping_add(self.objects.shape.refcnt).get()).unwrap_or(0) & REFCNT
    }

    /// Whether an object begins at `at`.
    pub(crate) fn is_object(&self, at: Addr) -> bool {
        self.census.object_at(at).is_some()
    }

    /// Whether objects of a type are blocks in use of which nothing is known.
    pub(crate) fn is_other(kind: TypeIndex) -> bool {
        kind == types::OTHER
    }

    /// How many numbers blocks and what lies outside have ([`Heap::number_of`]).
    pub(crate) fn numbers(&self) -> usize {
        self.census.numbers()
    }

    /// The number of the block that `at` lies in, or of what begins there outside of the arenas.
    pub(crate) fn number_of(&self, at: Addr) -> Option<usize> {
        self.census.number_of(at)
    }

    /// Visit memory outside of the arenas that objects own, by address: where, what it is, whose.
    pub fn each_owned_outside(&self, visit: impl FnMut(AddrRange, OwnedKind, Addr)) {
        self.census.each_owned_outside(visit);
    }

    /// Visit what may be objects that the object at `object`, of that type, holds: how, and what. `visit` tells whether
    /// to go on.
    pub(crate) fn each_held(&self, object: Addr, kind: &PyType, mut visit: impl FnMut(Link, Addr) -> bool) {
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), kind, 0, &mut |_, held| match held {
            visit::Held::Object(link, to) => visit(link, Addr::new(to)),
            visit::Held::Memory(_) => true,
        });
    }

    /// Visit what the object at `object`, of that type, holds; it may lie in a program file.
    pub(crate) fn each_hold(&self, object: Addr, kind: &PyType, mut visit: impl FnMut(Hold)) {
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), kind, 0, &mut |_, held| {
            visit(match held {
                visit::Held::Object(_, to) => Hold::Object(Addr::new(to)),
                visit::Held::Memory(owned) => {
                    Hold::Memory(AddrRange::sized(Addr::new(owned.at), owned.bytes), owned.kind)
                }
            });
            true
        });
    }

    /// What memory of that number is for, if objects own it.
    pub(crate) fn owned_of_kind(kind: TypeIndex) -> Option<OwnedKind> {
        types::owned_of(kind)
    }

    /// The block that begins at `at`, if it is memory that an object owns: what it is for, and its bytes.
    pub(crate) fn owned_block(&self, at: Addr) -> Option<(OwnedKind, u64)> {
        match self.census.whole_at(at)? {
            (Block::Owned(kind), bytes) => Some((kind, bytes)),
            _ => None,
        }
    }

    /// Bytes of the block of the object at `object`, and of the memory that it owns.
    pub(crate) fn own_bytes(&self, object: Addr) -> u64 {
        let Some(kind) = self.type_of(object) else { return 0 };
        let mut sum = self.census.object_at(object).unwrap_or(0);
        let items = kind.items();
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), &kind, 0, &mut |_, held| match held {
            visit::Held::Memory(owned) => {
                let whole = self.census.owned_start(Addr::new(owned.at)).and_then(|start| self.census.whole_at(start));
                sum = sum.saturating_add(whole.map_or(owned.bytes, |(_, bytes)| bytes));
                true
            }
            // Memory stands among the fields, but for a deque's blocks: items need not be gone through.
            visit::Held::Object(Link::Field(offset), _) => offset < items || kind.form == Form::Deque,
            visit::Held::Object(..) => true,
        });
        sum
    }

    /// The array of numpy at `object`; the caller knows that it is one.
    pub(crate) fn ndarray(&self, object: Addr) -> Option<NdArray> {
        fields::ndarray(&self.objects, self.source.words(object.get(), self.objects.shape.ndarray.size))
    }
}

impl BlockHeap for Heap<'_> {
    fn tracked(&self) -> &HashMap<TypeIndex, u64> {
        &self.tracked
    }

    fn prefix(&self, kind: TypeIndex) -> u64 {
        self.types.get(kind).map_or(0, |kind| kind.prefix + self.census.debug)
    }

    fn place(&self, object: Addr, offset: u64) -> Addr {
        self.place_of_entry(object, offset).unwrap_or_else(|| object.wrapping_add(offset))
    }

    fn link_name(&self, object: Addr, offset: u64) -> Option<String> {
        self.name_of_entry(object, offset)
    }
}

impl api::Heap for Heap<'_> {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn generations(&self) -> &[Generation] {
        &[PYMALLOC, MALLOC]
    }

    fn space(&self) -> &Space<'_> {
        &self.source.space
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn types(&self) -> usize {
        self.types.len()
    }

    fn has_too_many_types(&self) -> bool {
        self.types.is_full()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let none = TypeInfo { address: Addr::NULL, free: false, string: false, of_types: false, elements: None };
        let Some(found) = self.types.get(kind) else {
            return ((kind.0 as usize) < self.types.len()).then_some(TypeInfo { free: kind == api::FREE, ..none });
        };
        let elements = match found.form {
            Form::List | Form::Deque | Form::Set => Some(Elements { start: found.items(), size: 8 }),
            // A key, and its value.
            Form::Dict => Some(Elements { start: found.items(), size: 16 }),
            Form::Plain if found.itemsize == 8 => Some(Elements { start: found.items(), size: 8 }),
            _ => None,
        };
        // A dict may be that of a module, and hold its globals.
        let (string, of_types) = (found.form == Form::Text, found.form == Form::Dict);
        Some(TypeInfo { address: found.address, string, of_types, elements, free: false })
    }

    fn type_name(&self, kind: TypeIndex) -> String {
        self.types.name(kind)
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.name_of_field(kind, offset)
    }

    fn static_at(&self, place: Addr, _near: &[TypeIndex]) -> Option<Arc<str>> {
        self.globals().get(&place).cloned()
    }

    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        self.globals().clone()
    }

    fn element_field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let is_key = offset == 0 && self.types.get(kind)?.form == Form::Dict;
        is_key.then(|| "(key)".to_owned())
    }

    fn blocks(&self) -> Option<&dyn BlockHeap> {
        Some(self)
    }

    fn string_type(&self) -> Option<TypeIndex> {
        *self.strings.get_or_init(|| {
            let text = |kind: &TypeIndex| self.types.get(*kind).is_some_and(|t| t.name == "str");
            (0..self.types.len() as u32).map(TypeIndex).find(text)
        })
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let content = self.objects.text_content(string.addr)?;
        let bytes = usize::try_from(content.length.checked_mul(content.kind)?).ok()?;
        let bytes = self.runtime.memory.borrow_to_look(content.start, bytes)?;
        // What has four bytes for each character is no unit that listings know.
        let units = match content.kind {
            1 => StringUnits::Latin1,
            2 => StringUnits::Utf16,
            _ => return None,
        };
        Some(StringContent { length: u32::try_from(content.length).ok()?, bytes, units })
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(walk::PyWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(reader::Reader::new(self))
    }
}
