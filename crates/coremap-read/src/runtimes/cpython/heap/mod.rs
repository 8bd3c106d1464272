//! CPython's objects: those in obmalloc's arenas, and all others that objects reference.
//!
//! Each used block of an arena is an object, memory that an object owns (a dict's table, a list's items), or something
//! else. Objects and buffers over 512 bytes come from malloc; with `PYTHONMALLOC=malloc` all do. They are found through
//! references: from the collector's lists, and from the objects known so far. No allocator is asked, so this works the
//! same with every allocator.
//!
//! | file | contents |
//! |---|---|
//! | `blocks` | sums of blocks by size; the block at an address |
//! | `census` | classification of all blocks; objects outside the arenas |
//! | `classify`, `arena_map` | classification of one arena or object; the states of blocks |
//! | `tracked` | the collector's lists |
//! | `visit`, `deque`, `inner_frames` | references of an object, and memory that it owns |
//! | `owned` | kinds of owned memory |
//! | `types` | indices of types |
//! | `arena_index` | the arena at an address |
//! | `source` | words of the heap, by address |
//! | `walk`, `reader` | heap walks; single objects |
//! | `survivors` | objects in nearly empty arenas; numbers by value |
//! | `fields`, `locals` | names of references |

mod arena_index;
mod arena_map;
mod blocks;
mod census;
mod classify;
mod deque;
mod fields;
mod inner_frames;
mod locals;
mod owned;
mod reader;
mod source;
mod survivors;
mod tracked;
mod types;
mod visit;
mod walk;

pub use fields::NdArray;
pub(in crate::runtimes::cpython) use inner_frames::{FrameSpace, frame_space};
pub use owned::OwnedKind;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::Space;
use crate::runtimes::api::{
    self, BlockHeap, Elements, Generation, HeapRange, Link, Object, ObjectReader, SmallBlockSums, StringContent,
    StringUnits, TypeIndex, TypeInfo, Walker,
};
use crate::runtimes::cpython::objects::{Objects, PyType, TypeForm};
use crate::runtimes::cpython::obmalloc::Arenas;
use crate::runtimes::cpython::runtime::{PyError, Runtime};
use crate::runtimes::cpython::shape::REFCNT;
use arena_map::Block;
use census::Census;
use source::Source;
use types::Types;

/// Size in bytes of the smallest object, a bare `object`.
const MIN_OBJECT: u64 = 16;

/// Parts of the heap, named after the allocators.
const PYMALLOC: Generation = Generation { number: 0, name: "pymalloc", frozen: false };
const MALLOC: Generation = Generation { number: 1, name: "malloc", frozen: false };

/// A reference of an object, or memory that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Object(Addr),
    Memory(AddrRange, OwnedKind),
}

/// The heap of one CPython.
pub struct Heap<'p> {
    runtime: Arc<Runtime<'p>>,
    objects: Objects<'p>,
    types: Types<'p>,
    arenas: Vec<Arenas>,
    census: Census,
    ranges: Vec<HeapRange>,
    source: Source<'p>,
    notes: Vec<String>,
    fields: fields::FieldNames,
    tracked: HashMap<TypeIndex, u64>,
    strings: OnceLock<Option<TypeIndex>>,
    globals: OnceLock<HashMap<Addr, Arc<str>>>,
    /// Names of modules by their dicts.
    module_dicts: OnceLock<HashMap<Addr, String>>,
    small_blocks: OnceLock<Option<SmallBlockSums>>,
}

impl<'p> Heap<'p> {
    /// Whether the time limit of the current analysis has passed.
    fn is_late(&self) -> bool {
        self.runtime.process.target().reads().deadline().has_passed()
    }

    /// Classifies all blocks and finds all objects.
    ///
    /// # Errors
    /// The version's table lacks a field that every version has.
    pub fn open(runtime: Arc<Runtime<'p>>, arenas: Vec<Arenas>) -> Result<Heap<'p>, PyError> {
        let objects = runtime.objects();
        let mut notes = Vec::new();
        let lists = tracked::lists(&runtime, &mut notes);
        let types = Types::new(&runtime, &lists.objects);
        let census = Census::read(&runtime, &types, &arenas, &lists, &mut notes)?;
        let tracked = Census::count_tracked(&objects, &types, &lists);
        let ranges = census.ranges(&runtime);
        let source = Source::new(runtime.process, ranges.iter().map(|p| p.range), MIN_OBJECT);
        let fields = fields::FieldNames::default();
        let (strings, globals, small_blocks) = Default::default();
        Ok(Heap {
            runtime,
            objects,
            types,
            arenas,
            census,
            ranges,
            source,
            notes,
            fields,
            tracked,
            strings,
            globals,
            module_dicts: OnceLock::new(),
            small_blocks,
        })
    }

    /// The interpreter's state and version.
    pub fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    /// Reader of objects by address.
    pub fn objects(&self) -> &Objects<'p> {
        &self.objects
    }

    /// The type at `address`. `None` if it is not a valid type.
    pub fn type_at(&self, address: Addr) -> Option<Arc<PyType>> {
        self.types.lookup(address.get()).map(|(_, found)| found)
    }

    /// Type of the object at `object`. `None` if there is no object.
    pub fn type_of(&self, object: Addr) -> Option<Arc<PyType>> {
        self.numbered_type_of(object).map(|(_, found)| found)
    }

    /// Like [`Heap::type_of`], with the type's index.
    pub(crate) fn numbered_type_of(&self, object: Addr) -> Option<(TypeIndex, Arc<PyType>)> {
        self.census.object_at(object)?;
        self.types.lookup(self.objects.type_of(object)?.get())
    }

    /// Type with this index. `None` for free space and for owned memory.
    pub(crate) fn type_of_kind(&self, kind: TypeIndex) -> Option<Arc<PyType>> {
        self.types.get(kind)
    }

    /// Global variables of all modules, as `global module.name`, by the address of the pointer in the module's dict.
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
        let (layout, room) = (&self.runtime.layout, &self.census);
        visit::Visitor { objects: &self.objects, source: &self.source, layout, cursor, room }
    }

    pub(crate) fn refcnt(&self, at: Addr) -> u64 {
        self.source.word(at.wrapping_add(self.objects.shape.refcnt).get()).unwrap_or(0) & REFCNT
    }

    /// Whether an object begins at `at`.
    pub(crate) fn is_object(&self, at: Addr) -> bool {
        self.census.object_at(at).is_some()
    }

    /// Number of items of the object at `object`, from `ob_size`. `None` if its type has no such number, or if that
    /// many items do not fit the object's block.
    pub(crate) fn item_count(&self, object: Addr, kind: &PyType) -> Option<u64> {
        let count = self.objects.ob_size(object).filter(|_| kind.has_size())?.unsigned_abs();
        let bytes = kind.basicsize.checked_add(count.checked_mul(kind.itemsize)?)?;
        let block = self.census.object_at(object);
        block.is_none_or(|block| kind.prefix.saturating_add(bytes) <= block).then_some(count)
    }

    /// Whether `kind` is the pseudo-type of used blocks with unknown contents.
    pub(crate) fn is_other(kind: TypeIndex) -> bool {
        kind == types::OTHER
    }

    /// Number of values that [`Heap::number_of`] can return.
    pub(crate) fn number_limit(&self) -> usize {
        self.census.number_limit()
    }

    /// Number of the block that contains `at`, or of the object or memory outside the arenas that begins at `at`.
    pub(crate) fn number_of(&self, at: Addr) -> Option<usize> {
        self.census.number_of(at)
    }

    /// Visits owned memory outside the arenas, in address order: range, kind, owner.
    pub fn each_owned_outside(&self, visit: impl FnMut(AddrRange, OwnedKind, Addr)) {
        self.census.each_owned_outside(visit);
    }

    /// Visits the possible objects that the object at `object`, of type `kind`, references. `visit` returns whether to
    /// continue.
    pub(crate) fn each_target(&self, object: Addr, kind: &PyType, mut visit: impl FnMut(Link, Addr) -> bool) {
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), kind, 0, &mut |_, reference| match reference {
            visit::RawReference::Object(link, to) => visit(link, Addr::new(to)),
            visit::RawReference::Memory(_) => true,
        });
    }

    /// Visits the references and owned memory of the object at `object`, of type `kind`. It may be in a program file.
    pub(crate) fn each_reference(&self, object: Addr, kind: &PyType, mut visit: impl FnMut(Reference)) {
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), kind, 0, &mut |_, reference| {
            visit(match reference {
                visit::RawReference::Object(_, to) => Reference::Object(Addr::new(to)),
                visit::RawReference::Memory(owned) => {
                    Reference::Memory(AddrRange::sized(Addr::new(owned.at), owned.bytes), owned.kind)
                }
            });
            true
        });
    }

    /// Kind of owned memory that has this type index.
    pub(crate) fn owned_of_kind(kind: TypeIndex) -> Option<OwnedKind> {
        types::owned_kind_of(kind)
    }

    /// The block of owned memory that begins at `at`: kind, and size in bytes.
    pub(crate) fn owned_block(&self, at: Addr) -> Option<(OwnedKind, u64)> {
        match self.census.entry_at(at)? {
            (Block::Owned(kind), bytes) => Some((kind, bytes)),
            _ => None,
        }
    }

    /// Size in bytes of the object's block, plus the memory that it owns.
    pub(crate) fn own_bytes(&self, object: Addr) -> u64 {
        let Some(kind) = self.type_of(object) else { return 0 };
        let mut sum = self.census.object_at(object).unwrap_or(0);
        let items = kind.items();
        let cursor = self.cursor();
        self.visitor(&cursor).each(object.get(), &kind, 0, &mut |_, reference| match reference {
            visit::RawReference::Memory(owned) => {
                let whole = self.census.owned_start(Addr::new(owned.at)).and_then(|start| self.census.entry_at(start));
                sum = sum.saturating_add(whole.map_or(owned.bytes, |(_, bytes)| bytes));
                true
            }
            // Owned memory is visited among the fields, so stop at the items. A deque's blocks come after its items.
            visit::RawReference::Object(Link::Field(offset), _) => offset < items || kind.form == TypeForm::Deque,
            visit::RawReference::Object(..) => true,
        });
        sum
    }

    /// The numpy array at `object`, which must be one.
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

    fn slot_address(&self, object: Addr, offset: u64) -> Addr {
        self.address_of_entry(object, offset).unwrap_or_else(|| object.wrapping_add(offset))
    }

    fn link_name(&self, object: Addr, offset: u64) -> Option<String> {
        self.name_of_entry(object, offset).or_else(|| self.name_of_local(object, offset))
    }
}

impl api::Heap for Heap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.ranges
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
        let none =
            TypeInfo { address: Addr::NULL, free: false, string: false, represents_types: false, elements: None };
        let Some(found) = self.types.get(kind) else {
            return ((kind.0 as usize) < self.types.len()).then_some(TypeInfo { free: kind == api::FREE, ..none });
        };
        let elements = match found.form {
            TypeForm::List | TypeForm::Deque | TypeForm::Set => Some(Elements { start: found.items(), size: 8 }),
            // An item pair: key and value.
            TypeForm::Dict => Some(Elements { start: found.items(), size: 16 }),
            TypeForm::Plain if found.itemsize == 8 => Some(Elements { start: found.items(), size: 8 }),
            _ => None,
        };
        // The dict may be a module's, and contain its globals.
        let (string, represents_types) = (found.form == TypeForm::Text, found.form == TypeForm::Dict);
        Some(TypeInfo { address: found.address, string, represents_types, elements, free: false })
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

    fn title(&self, object: Addr) -> Option<String> {
        let modules = self.module_dicts.get_or_init(|| {
            let all = self.runtime.interpreters.iter().flat_map(|at| self.runtime.modules(*at));
            let mut dicts: HashMap<Addr, String> = HashMap::new();
            // A module may be listed under several names, and `__main__` under its own.
            all.for_each(|module| match dicts.entry(module.dict) {
                Entry::Vacant(free) => drop(free.insert(module.name)),
                Entry::Occupied(mut known) if module.name == "__main__" => drop(known.insert(module.name)),
                Entry::Occupied(_) => {}
            });
            dicts
        });
        modules.get(&object).map(|module| format!("globals of {module}"))
    }

    fn statics(&self) -> HashMap<Addr, Arc<str>> {
        self.globals().clone()
    }

    fn element_field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let is_key = offset == 0 && self.types.get(kind)?.form == TypeForm::Dict;
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
        // Four bytes per character (UCS-4) is not among the units.
        let units = match content.kind {
            1 => StringUnits::Latin1,
            2 => StringUnits::Utf16,
            _ => return None,
        };
        Some(StringContent { length: u32::try_from(content.length).ok()?, bytes, units, storage: None })
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(walk::PyWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(reader::Reader::new(self))
    }
}
