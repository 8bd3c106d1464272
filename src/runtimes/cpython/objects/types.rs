//! Types (PyTypeObject, PyHeapTypeObject): what an object's size and references follow from.

use super::{Objects, StaticNames};
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// `tp_flags` (Include/object.h).
pub mod flags {
    /// Values of the managed dict stand in the object, behind its fields (3.13 on).
    pub const INLINE_VALUES: u64 = 1 << 2;
    /// Its weak references stand before the object (3.12 on).
    pub const MANAGED_WEAKREF: u64 = 1 << 3;
    /// Its dict stands before the object (3.11 on).
    pub const MANAGED_DICT: u64 = 1 << 4;
    /// Made while the program runs: in memory of the heap.
    pub const HEAPTYPE: u64 = 1 << 9;
    /// Ready for use.
    pub const READY: u64 = 1 << 12;
    /// Known to the collector.
    pub const HAVE_GC: u64 = 1 << 14;
    /// `int` and below.
    pub const LONG: u64 = 1 << 24;
    /// `list` and below.
    pub const LIST: u64 = 1 << 25;
    /// `tuple` and below.
    pub const TUPLE: u64 = 1 << 26;
    /// `bytes` and below.
    pub const BYTES: u64 = 1 << 27;
    /// `str` and below.
    pub const UNICODE: u64 = 1 << 28;
    /// `dict` and below.
    pub const DICT: u64 = 1 << 29;
    /// `BaseException` and below.
    pub const BASE_EXCEPTION: u64 = 1 << 30;
    /// `type` and below.
    pub const TYPE: u64 = 1 << 31;
}

/// How an object of a type holds others, and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Words that may lead to objects, then items likewise.
    Plain,
    /// Nothing but bytes: numbers.
    Leaf,
    /// An integer: its size is in digits.
    Integer,
    /// A string.
    Text,
    /// Bytes that follow the header.
    Bytes,
    /// Bytes in a buffer of their own.
    ByteArray,
    /// A list: an array of items of its own.
    List,
    /// A dict.
    Dict,
    /// A set or frozenset: its table, inside while it is small.
    Set,
    /// A type.
    Type,
    /// A reference that keeps nothing but its callback.
    Weak,
    /// A generator, coroutine or asynchronous generator: its frame is inside.
    Generator,
    /// A frame as an object.
    Frame,
    /// A deque: blocks in a row.
    Deque,
    /// An array of numbers (module array).
    Array,
    /// An array of numpy.
    NdArray,
}

/// Forms of types that no flag tells, by name.
const BY_NAME: [(&str, Form); 23] = [
    ("frame", Form::Frame),
    ("set", Form::Set),
    ("frozenset", Form::Set),
    ("bytearray", Form::ByteArray),
    ("float", Form::Leaf),
    ("complex", Form::Leaf),
    ("weakref", Form::Weak),
    ("weakproxy", Form::Weak),
    ("weakcallableproxy", Form::Weak),
    ("weakref.ReferenceType", Form::Weak),
    ("weakref.ref", Form::Weak),
    ("weakref.ProxyType", Form::Weak),
    ("weakref.CallableProxyType", Form::Weak),
    ("_weakref.ref", Form::Weak),
    ("_weakref.ReferenceType", Form::Weak),
    ("_weakref.ProxyType", Form::Weak),
    ("_weakref.CallableProxyType", Form::Weak),
    ("generator", Form::Generator),
    ("coroutine", Form::Generator),
    ("async_generator", Form::Generator),
    ("collections.deque", Form::Deque),
    ("array.array", Form::Array),
    ("numpy.ndarray", Form::NdArray),
];

/// A type.
#[derive(Clone, Debug)]
pub struct PyType {
    /// Where it is.
    pub address: Addr,
    /// Its name as Python shows it: `dict`, `collections.OrderedDict`, `__main__.Cache`.
    pub name: String,
    /// `tp_flags`
    pub flags: u64,
    /// Bytes of an instance without items.
    pub basicsize: u64,
    /// Bytes of an item; 0 where there are none.
    pub itemsize: u64,
    /// Where an instance has its dict; below 0 from its end, 0 nowhere.
    pub dictoffset: i64,
    /// Where it has its weak references; 0 nowhere.
    pub weaklistoffset: u64,
    /// Bytes before an instance that are its own: for the collector, and a managed dict.
    pub prefix: u64,
    /// How it holds others.
    pub form: Form,
    /// From here on its words may lead to objects: what a number or string begins with holds none.
    pub fields_from: u64,
    /// Keys of the instance attributes that all instances share (`ht_cached_keys`); null where there are none.
    pub shared_keys: Addr,
}

impl PyType {
    /// Where the items of its objects are visited, from the object on, wherever they stand: behind the fields.
    pub(crate) fn items(&self) -> u64 {
        self.basicsize.next_multiple_of(8)
    }

    /// Whether it has one of these flags.
    pub fn is(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }
}

/// Bytes that a type's name is cut to where it stands in a program's constants.
const C_NAME: usize = limits::MAX_PY_NAME;

impl Objects<'_> {
    /// Whether `at` is a type: its metatype is one too, and that one's metatype is `type`, whose type is itself.
    pub fn is_type(&self, at: Addr) -> bool {
        let check = || {
            let meta = self.type_of(at).filter(|meta| meta.is_aligned(8))?;
            let root = self.type_of(meta)?;
            let flags = |at| self.word_at(at, self.shape.types.flags);
            let sound = (self.type_of(root)? == root || self.type_of(self.type_of(root)?)? == self.type_of(root)?)
                && flags(meta)? & flags::TYPE != 0
                && flags(at)? & flags::READY != 0;
            sound.then_some(())
        };
        at.is_aligned(8) && check().is_some()
    }

    /// The type at `at`, if it is one; `names`: of types whose own can't be read.
    pub fn read_type(&self, at: Addr, names: &StaticNames) -> Option<PyType> {
        if !self.is_type(at) {
            return None;
        }
        let shape = &self.shape.types;
        let flags = self.word_at(at, shape.flags)?;
        let basicsize = self
            .word_at(at, shape.basicsize)
            .filter(|n| (self.shape.object..=limits::MAX_PY_BASIC_SIZE).contains(n))?;
        let itemsize = self.word_at(at, shape.itemsize).filter(|n| *n <= limits::MAX_PY_ITEM_SIZE)?;
        let pre_header = flags & (flags::MANAGED_DICT | flags::MANAGED_WEAKREF) != 0;
        let prefix = if flags & flags::HAVE_GC != 0 { self.shape.gc_head } else { 0 }
            + if pre_header { self.shape.pre_header } else { 0 };
        let name = self.type_name(at, flags, names);
        let shared_keys = match flags & flags::HEAPTYPE {
            0 => Addr::NULL,
            _ => self.ptr_at(at, shape.cached_keys).unwrap_or(Addr::NULL),
        };
        let form = match self.form_of(at, flags, &name, names) {
            // Up to 3.10 it is an object with items like others.
            Form::Frame if self.shape.frame_object.is_none() => Form::Plain,
            form => form,
        };
        let fields_from = match form {
            Form::Leaf | Form::Integer | Form::Text | Form::Bytes | Form::ByteArray | Form::Weak => {
                self.solid_size(at).unwrap_or(basicsize)
            }
            _ => self.shape.object,
        };
        Some(PyType {
            address: at,
            form,
            fields_from,
            name,
            flags,
            basicsize,
            itemsize,
            dictoffset: self.word_at(at, shape.dictoffset)? as i64,
            weaklistoffset: self.word_at(at, shape.weaklistoffset)?,
            prefix,
            shared_keys,
        })
    }

    /// A type and those above it by `tp_base`, up to `object`.
    pub(crate) fn bases(&self, at: Addr) -> impl Iterator<Item = Addr> + '_ {
        let base = |at: &Addr| self.ptr_at(*at, self.shape.types.base).filter(|base| !base.is_null());
        std::iter::successors(Some(at), base).take(limits::MAX_PY_BASES)
    }

    /// How instances hold others: by a flag, or by the name of the first type above that is known.
    fn form_of(&self, at: Addr, bits: u64, name: &str, names: &StaticNames) -> Form {
        let by_flag = [
            (flags::TYPE, Form::Type),
            (flags::UNICODE, Form::Text),
            (flags::BYTES, Form::Bytes),
            (flags::LONG, Form::Integer),
            (flags::LIST, Form::List),
            (flags::TUPLE, Form::Plain),
            (flags::DICT, Form::Dict),
        ];
        if let Some((_, form)) = by_flag.iter().find(|(flag, _)| bits & flag != 0) {
            return *form;
        }
        let known = |name: &str| BY_NAME.iter().find(|(of, _)| *of == name).map(|(_, form)| *form);
        if let Some(form) = known(name) {
            return form;
        }
        let above = |base: Addr| {
            let bits = self.word_at(base, self.shape.types.flags)?;
            known(&self.type_name(base, bits, names))
        };
        self.bases(at).skip(1).find_map(above).unwrap_or(Form::Plain)
    }

    /// Bytes of an instance of the highest type above one, below `object`: what subclasses add comes behind.
    fn solid_size(&self, at: Addr) -> Option<u64> {
        let all: Vec<Addr> = self.bases(at).collect();
        let solid = all.len().checked_sub(2).and_then(|i| all.get(i)).unwrap_or(&at);
        self.word_at(*solid, self.shape.types.basicsize)
    }

    /// A type's name as Python shows it: with its module, unless that is `builtins`.
    fn type_name(&self, at: Addr, bits: u64, names: &StaticNames) -> String {
        let shape = &self.shape.types;
        if bits & flags::HEAPTYPE != 0 {
            let qualname = self.ptr_at(at, shape.qualname).and_then(|name| self.name(name));
            let dict = self.ptr_at(at, shape.dict).filter(|dict| !dict.is_null());
            let module = dict.and_then(|dict| self.lookup(dict, "__module__"));
            let module = module.filter(|module| self.is_str(*module)).and_then(|module| self.name(module));
            return match (module, qualname) {
                (Some(module), Some(name)) if module != "builtins" => format!("{module}.{name}"),
                (_, Some(name)) => name,
                (_, None) => format!("<type at {at}>"),
            };
        }
        let own = self.ptr_at(at, shape.name).and_then(|name| self.memory.text(name, C_NAME).ok());
        own.filter(|name| !name.is_empty())
            .map(|name| name.strip_prefix("builtins.").map_or_else(|| name.clone(), str::to_owned))
            .or_else(|| names.of(at).map(str::to_owned))
            .unwrap_or_else(|| format!("<static type at {at}>"))
    }

    /// Whether the object at `at` is a str, by its type.
    pub fn is_str(&self, at: Addr) -> bool {
        self.has_flag(at, flags::UNICODE)
    }

    /// Whether the object at `at` is a dict, by its type.
    pub fn is_dict(&self, at: Addr) -> bool {
        self.has_flag(at, flags::DICT)
    }

    fn has_flag(&self, at: Addr, flag: u64) -> bool {
        let bits = self.type_of(at).and_then(|kind| self.word_at(kind, self.shape.types.flags));
        bits.is_some_and(|bits| bits & flag != 0 && bits & flags::READY != 0)
    }
}
