//! Names of what an object holds: fields of C structs by the table of the version, slots and attributes of classes by
//! what the class says, entries of dicts by their keys.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::Heap;
use super::source::word;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::cpython::objects::{DictKeys, Form, Objects, PyType, flags};

/// Structs of types, by the names that Python has for these.
const STRUCTS: &[(&str, &str)] = &[
    ("function", "PyFunctionObject"),
    ("method", "PyMethodObject"),
    ("builtin_function_or_method", "PyCFunctionObject"),
    ("cell", "PyCellObject"),
    ("code", "PyCodeObject"),
    ("frame", "PyFrameObject"),
    ("generator", "PyGenObject"),
    ("coroutine", "PyCoroObject"),
    ("async_generator", "PyAsyncGenObject"),
    ("module", "PyModuleObject"),
    ("traceback", "PyTracebackObject"),
    ("slice", "PySliceObject"),
    ("property", "propertyobject"),
    ("classmethod", "classmethod"),
    ("staticmethod", "staticmethod"),
    ("mappingproxy", "mappingproxyobject"),
    ("memoryview", "PyMemoryViewObject"),
    ("managedbuffer", "_PyManagedBufferObject"),
    ("super", "superobject"),
    ("enumerate", "enumobject"),
    ("reversed", "reversedobject"),
    ("range", "rangeobject"),
    ("map", "mapobject"),
    ("filter", "filterobject"),
    ("zip", "zipobject"),
    ("member_descriptor", "PyMemberDescrObject"),
    ("method_descriptor", "PyMethodDescrObject"),
    ("getset_descriptor", "PyGetSetDescrObject"),
    ("wrapper_descriptor", "PyWrapperDescrObject"),
    ("method-wrapper", "wrapperobject"),
    ("weakref", "PyWeakReference"),
    ("weakref.ReferenceType", "PyWeakReference"),
    ("list_iterator", "PyListIterObject"),
    ("tuple_iterator", "PyTupleIterObject"),
    ("dict_keys", "_PyDictViewObject"),
    ("dict_values", "_PyDictViewObject"),
    ("dict_items", "_PyDictViewObject"),
    ("types.SimpleNamespace", "_PyNamespaceObject"),
    ("types.GenericAlias", "gaobject"),
    ("types.UnionType", "unionobject"),
    ("functools.partial", "partialobject"),
    ("functools._lru_cache_wrapper", "lru_cache_object"),
    ("functools._lru_list_elem", "lru_list_elem"),
    ("collections.OrderedDict", "PyODictObject"),
    ("collections.defaultdict", "defdictobject"),
    ("collections.deque", "dequeobject"),
    ("_asyncio.Future", "FutureObj"),
    ("_asyncio.Task", "TaskObj"),
    ("_contextvars.Context", "PyContext"),
    ("_io.BytesIO", "bytesio"),
    ("_io.StringIO", "stringio"),
    ("_io.BufferedReader", "buffered"),
    ("_io.BufferedWriter", "buffered"),
    ("_io.TextIOWrapper", "textio"),
    ("_thread._local", "localobject"),
    ("_thread.RLock", "rlockobject"),
    ("type", "PyHeapTypeObject"),
    ("BaseException", "PyBaseExceptionObject"),
];

/// Names of fields by type, made when they are first asked for.
#[derive(Default)]
pub(super) struct Names {
    known: RwLock<HashMap<TypeIndex, HashMap<u64, String>>>,
}

/// An array of numpy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdArray {
    /// Whether its data are its own, and no view of another's.
    pub owns: bool,
    /// Bytes of its data.
    pub bytes: u64,
    /// Its length in each dimension.
    pub shape: Vec<u64>,
    /// Its type of numbers, as numpy writes it: `<f8`.
    pub dtype: String,
}

/// The array whose words are `words`, if it makes sense.
pub(super) fn ndarray(objects: &Objects<'_>, words: &[[u8; 8]]) -> Option<NdArray> {
    let numpy = &objects.shape.ndarray;
    let nd = word(words, numpy.nd)? & 0xffff_ffff;
    let (dimensions, strides) = (word(words, numpy.dimensions)?, word(words, numpy.strides)?);
    if nd > numpy.max_dimensions {
        return None;
    }
    let at = |base: u64, i: u64| objects.word_at(Addr::new(base), 8 * i);
    let shape: Vec<u64> = (0..nd).map(|i| at(dimensions, i)).collect::<Option<_>>()?;
    let steps: Vec<u64> = (0..nd).map(|i| Some((at(strides, i)? as i64).unsigned_abs())).collect::<Option<_>>()?;
    // In memory of its own elements lie without gaps: the outermost dimension spans all of it.
    let spans = shape.iter().zip(&steps).map(|(length, step)| length.checked_mul(*step));
    let bytes = spans.collect::<Option<Vec<u64>>>()?.into_iter().max().unwrap_or(8);
    let descr = Addr::new(word(words, numpy.descr)?);
    let item = steps.iter().min().copied().unwrap_or(0);
    let letter = |at: u64| {
        let mut letter = [0; 1];
        objects.memory.peek(descr.checked_add(at)?, &mut letter).ok().map(|()| char::from(letter[0]))
    };
    let (order, kind) = (letter(numpy.byte_order)?, letter(numpy.kind)?);
    let order = if order == '=' { '<' } else { order };
    let dtype = if kind.is_ascii_graphic() && order.is_ascii_graphic() {
        format!("{order}{kind}{item}")
    } else {
        String::new()
    };
    let owns = word(words, numpy.flags)? & numpy.owns != 0;
    Some(NdArray { owns, bytes, shape, dtype })
}

impl Heap<'_> {
    /// The field at `offset` of instances of a type.
    pub(super) fn name_of_field(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        if let Some(known) = self.fields.known.read().unwrap_or_else(PoisonError::into_inner).get(&kind) {
            return known.get(&offset).cloned();
        }
        let found = self.types.get(kind)?;
        let names = self.field_names(&found);
        let name = names.get(&offset).cloned();
        self.fields.known.write().unwrap_or_else(PoisonError::into_inner).insert(kind, names);
        name
    }

    /// All fields that are known of a type, by offset.
    pub(crate) fn field_names(&self, kind: &PyType) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        // From the highest type down: what a subclass adds comes last.
        let bases: Vec<Addr> = self.objects.bases(kind.address).collect();
        for base in bases.into_iter().rev() {
            let Some((_, found)) = self.types.lookup(base.get()) else { continue };
            if let Some((_, kind)) = STRUCTS.iter().find(|(name, _)| *name == found.name) {
                for (field, offset) in self.runtime.layout.fields_of(kind) {
                    names.entry(offset).or_insert_with(|| field.to_owned());
                }
            }
            self.slots(&found, &mut names);
        }
        if kind.dictoffset > 0 {
            names.insert(kind.dictoffset as u64, "__dict__".to_owned());
        }
        if kind.is(flags::MANAGED_DICT)
            && let Some(keys) = self.objects.dict_keys(kind.shared_keys)
        {
            for index in 0..keys.count.min(limits::MAX_SHOWN_ROWS as u64) {
                let name = self.objects.ptr_at(keys.key_at(index), 0);
                if let Some(name) = name.filter(|at| self.objects.is_str(*at)).and_then(|at| self.objects.name(at)) {
                    names.insert(kind.items() + 8 * index, name);
                }
            }
        }
        names
    }

    /// `__slots__` of a class: PyMemberDefs behind the type.
    fn slots(&self, kind: &PyType, names: &mut HashMap<u64, String>) {
        for (at, offset) in self.members(kind) {
            let name = self.runtime.memory.text(at, limits::MAX_PY_NAME).ok().filter(|name| !name.is_empty());
            if let Some(name) = name {
                names.insert(offset, name);
            }
        }
    }

    /// Where the names of the slots of a class stand.
    pub(crate) fn slot_names(&self, kind: &PyType) -> Vec<Addr> {
        self.members(kind).into_iter().map(|(name, _)| name).collect()
    }

    /// Names and offsets of slots.
    fn members(&self, kind: &PyType) -> Vec<(Addr, u64)> {
        let count = match kind.is(flags::HEAPTYPE) {
            true => self.objects.ob_size(kind.address).unwrap_or(0).clamp(0, limits::MAX_SHOWN_ROWS as i64) as u64,
            false => 0,
        };
        let Ok(size) = self.runtime.layout.size("PyMemberDef") else { return Vec::new() };
        let first = kind.address.wrapping_add(self.objects.shape.types.heap_size);
        let member = |index: u64| {
            let member = self.runtime.view("PyMemberDef", first.wrapping_add(index * size));
            Some((member.ptr("name").ok()?, member.u64("offset").ok()?))
        };
        (0..count).filter_map(member).collect()
    }

    /// The table of keys of a dict, and the number of the item that is visited at an offset of it: keys and values in turn.
    fn item_of_dict(&self, dict: Addr, offset: u64) -> Option<(DictKeys, u64)> {
        let kind = self.type_of(dict).filter(|kind| kind.form == Form::Dict)?;
        let item = offset.checked_sub(kind.items())? / 8;
        let keys = self.objects.dict_keys(self.objects.ptr_at(dict, self.objects.shape.dict.keys)?)?;
        Some((keys, item))
    }

    /// What a dict calls the entry at a place: `['name']`, or what its key is.
    pub(super) fn name_of_entry(&self, object: Addr, offset: u64) -> Option<String> {
        let (keys, item) = self.item_of_dict(object, offset)?;
        let key = self.objects.ptr_at(keys.key_at(item / 2), 0)?;
        let text = self.key_text(key)?;
        Some(if item % 2 == 0 { format!("(key {text})") } else { format!("[{text}]") })
    }

    /// Where a dict really has the pointer of the entry that is visited at an offset of it.
    pub(super) fn place_of_entry(&self, object: Addr, offset: u64) -> Option<Addr> {
        let (keys, item) = self.item_of_dict(object, offset)?;
        let values = self.objects.ptr_at(object, self.objects.shape.dict.values)?;
        Some(match (item % 2, values.is_null()) {
            (0, _) => keys.key_at(item / 2),
            (_, true) => keys.value_at(item / 2),
            (_, false) => self.objects.first_value(values).wrapping_add(8 * (item / 2)),
        })
    }

    /// A key in words.
    pub(crate) fn key_text(&self, key: Addr) -> Option<String> {
        let kind = self.types.lookup(self.objects.type_of(key)?.get())?.1;
        Some(match kind.form {
            Form::Text => format!("{:?}", self.objects.text(key, SHORT)?),
            Form::Integer => self.objects.integer_text(key)?,
            Form::Bytes => format!("b\"{}\"", self.objects.bytes(key, SHORT)?.escape_ascii()),
            _ => format!("{} at {key}", kind.name),
        })
    }
}

/// Characters of a key that are shown.
const SHORT: usize = 60;
