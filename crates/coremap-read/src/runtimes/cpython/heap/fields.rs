//! Names of references: fields of C structs from the version's table, slots and attributes from the class, dict entries
//! from their keys.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::Heap;
use super::source::word;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::cpython::objects::{DictKeys, Objects, PyType, TypeForm, flags};

/// C structs by the type's Python name.
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

/// Field names by type, computed on first use.
#[derive(Default)]
pub(super) struct FieldNames {
    known: RwLock<HashMap<TypeIndex, HashMap<u64, String>>>,
}

/// A numpy array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdArray {
    /// Whether the array owns its data. Otherwise it is a view of another array's.
    pub owns: bool,
    /// Size of the data in bytes.
    pub bytes: u64,
    /// Length of each dimension.
    pub shape: Vec<u64>,
    /// Element type as numpy writes it: `<f8`.
    pub dtype: String,
}

/// Reads the array whose words are `words`. `None` if it is invalid.
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
    // Owned data has no gaps, so the outermost dimension spans all of it.
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
    /// Name of the field at `offset` of a type's instances.
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

    /// All known field names of a type, by offset.
    pub(crate) fn field_names(&self, kind: &PyType) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        // Base classes first, so that names of subclasses override.
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

    /// Adds the `__slots__` of a class: PyMemberDefs after the type object.
    fn slots(&self, kind: &PyType, names: &mut HashMap<u64, String>) {
        for (at, offset) in self.members(kind) {
            let name = self.runtime.memory.text(at, limits::MAX_PY_NAME).ok().filter(|name| !name.is_empty());
            if let Some(name) = name {
                names.insert(offset, name);
            }
        }
    }

    /// Addresses of the slot names of a class.
    pub(crate) fn slot_names(&self, kind: &PyType) -> Vec<Addr> {
        self.members(kind).into_iter().map(|(name, _)| name).collect()
    }

    /// Name address and offset of each slot of a class.
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

    /// The key table of a dict, and the index of the item visited at `offset`. Items alternate between keys and values.
    fn item_of_dict(&self, dict: Addr, offset: u64) -> Option<(DictKeys, u64)> {
        let kind = self.type_of(dict).filter(|kind| kind.form == TypeForm::Dict)?;
        let item = offset.checked_sub(kind.items())? / 8;
        let keys = self.objects.dict_keys(self.objects.ptr_at(dict, self.objects.shape.dict.keys)?)?;
        Some((keys, item))
    }

    /// Name of the dict entry visited at `offset`: `['name']`, or `(key 'name')` for the key itself.
    pub(super) fn name_of_entry(&self, object: Addr, offset: u64) -> Option<String> {
        let (keys, item) = self.item_of_dict(object, offset)?;
        let key = self.objects.ptr_at(keys.key_at(item / 2), 0)?;
        let text = self.key_text(key)?;
        Some(if item % 2 == 0 { format!("(key {text})") } else { format!("[{text}]") })
    }

    /// Address where the dict really stores the pointer of the entry visited at `offset`.
    pub(super) fn address_of_entry(&self, object: Addr, offset: u64) -> Option<Addr> {
        let (keys, item) = self.item_of_dict(object, offset)?;
        let values = self.objects.ptr_at(object, self.objects.shape.dict.values)?;
        Some(match (item % 2, values.is_null()) {
            (0, _) => keys.key_at(item / 2),
            (_, true) => keys.value_at(item / 2),
            (_, false) => self.objects.first_value(values).wrapping_add(8 * (item / 2)),
        })
    }

    pub(crate) fn key_text(&self, key: Addr) -> Option<String> {
        let kind = self.types.lookup(self.objects.type_of(key)?.get())?.1;
        Some(match kind.form {
            TypeForm::Text => format!("{:?}", self.objects.text(key, MAX_KEY_CHARS)?),
            TypeForm::Integer => self.objects.integer_text(key)?,
            TypeForm::Bytes => format!("b\"{}\"", self.objects.bytes(key, MAX_KEY_CHARS)?.escape_ascii()),
            _ => format!("{} at {key}", kind.name),
        })
    }
}

/// Maximum number of characters shown of a key.
const MAX_KEY_CHARS: usize = 60;
