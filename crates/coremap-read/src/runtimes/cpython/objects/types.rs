//! Types (PyTypeObject, PyHeapTypeObject). They determine the size and the references of an object.

use super::{Objects, StaticNames};
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// Bits of `tp_flags` (Include/object.h).
pub mod flags {
    /// The values of the managed dict are in the object, after its fields. Since 3.13.
    pub const INLINE_VALUES: u64 = 1 << 2;
    /// The pointer to weak references precedes the object. Since 3.12.
    pub const MANAGED_WEAKREF: u64 = 1 << 3;
    /// The pointer to the dict precedes the object. Since 3.11.
    pub const MANAGED_DICT: u64 = 1 << 4;
    /// Created at run time, on the heap.
    pub const HEAPTYPE: u64 = 1 << 9;
    /// Fully initialised.
    pub const READY: u64 = 1 << 12;
    /// The collector can track instances.
    pub const HAVE_GC: u64 = 1 << 14;
    /// `int` and subclasses.
    pub const LONG: u64 = 1 << 24;
    /// `list` and subclasses.
    pub const LIST: u64 = 1 << 25;
    /// `tuple` and subclasses.
    pub const TUPLE: u64 = 1 << 26;
    /// `bytes` and subclasses.
    pub const BYTES: u64 = 1 << 27;
    /// `str` and subclasses.
    pub const UNICODE: u64 = 1 << 28;
    /// `dict` and subclasses.
    pub const DICT: u64 = 1 << 29;
    /// `BaseException` and subclasses.
    pub const BASE_EXCEPTION: u64 = 1 << 30;
    /// `type` and subclasses.
    pub const TYPE: u64 = 1 << 31;
}

/// How objects of a type store references and owned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeForm {
    /// Words that may be references, followed by items that may be references.
    Plain,
    /// Only numbers, no references.
    Leaf,
    /// An integer, whose size depends on its number of digits.
    Integer,
    /// A string.
    Text,
    /// Bytes after the header.
    Bytes,
    /// Bytes in a separate buffer.
    ByteArray,
    /// A list, with a separate array of items.
    List,
    /// A dict.
    Dict,
    /// A set or frozenset. A small table is inside the object.
    Set,
    /// A type.
    Type,
    /// A weak reference. Only its callback is a strong reference.
    Weak,
    /// A generator, coroutine or asynchronous generator, with its frame inside.
    Generator,
    /// A frame object.
    Frame,
    /// A deque: a linked list of blocks.
    Deque,
    /// An array of numbers (module `array`).
    Array,
    /// A numpy array.
    NdArray,
}

/// Members that only one type has, with the type's name. It is among the constants of the program file, which most dumps
/// omit; the keys of its dict are objects.
pub(in crate::runtimes::cpython) const BY_MEMBER: [(&str, &str); 7] = [
    ("tb_frame", "traceback"),
    ("f_back", "frame"),
    ("gi_frame", "generator"),
    ("cr_frame", "coroutine"),
    ("ag_frame", "async_generator"),
    ("cell_contents", "cell"),
    ("co_code", "code"),
];

/// Forms of types that no flag identifies, by name.
const BY_NAME: [(&str, TypeForm); 23] = [
    ("frame", TypeForm::Frame),
    ("set", TypeForm::Set),
    ("frozenset", TypeForm::Set),
    ("bytearray", TypeForm::ByteArray),
    ("float", TypeForm::Leaf),
    ("complex", TypeForm::Leaf),
    ("weakref", TypeForm::Weak),
    ("weakproxy", TypeForm::Weak),
    ("weakcallableproxy", TypeForm::Weak),
    ("weakref.ReferenceType", TypeForm::Weak),
    ("weakref.ref", TypeForm::Weak),
    ("weakref.ProxyType", TypeForm::Weak),
    ("weakref.CallableProxyType", TypeForm::Weak),
    ("_weakref.ref", TypeForm::Weak),
    ("_weakref.ReferenceType", TypeForm::Weak),
    ("_weakref.ProxyType", TypeForm::Weak),
    ("_weakref.CallableProxyType", TypeForm::Weak),
    ("generator", TypeForm::Generator),
    ("coroutine", TypeForm::Generator),
    ("async_generator", TypeForm::Generator),
    ("collections.deque", TypeForm::Deque),
    ("array.array", TypeForm::Array),
    ("numpy.ndarray", TypeForm::NdArray),
];

/// A type, with what is needed to read its instances.
#[derive(Clone, Debug)]
pub struct PyType {
    /// Address of the type object.
    pub address: Addr,
    /// Name as Python shows it: `dict`, `collections.OrderedDict`, `__main__.Cache`.
    pub name: String,
    /// `tp_flags`.
    pub flags: u64,
    /// Size in bytes of an instance without items.
    pub basicsize: u64,
    /// Size of an item in bytes. 0 if there are none.
    pub itemsize: u64,
    /// Offset of an instance's dict. Negative: counted from the end. 0: none.
    pub dictoffset: i64,
    /// Offset of an instance's weak references. 0 if there are none.
    pub weaklistoffset: u64,
    /// Bytes that belong to an instance and precede it: PyGC_Head, and the pre-header of a managed dict.
    pub prefix: u64,
    /// How instances store references.
    pub form: TypeForm,
    /// Offset of the first word that may be a reference. The first fields of numbers and strings contain none.
    pub fields_from: u64,
    /// Key table for attributes, which all instances share (`ht_cached_keys`). Null if there is none.
    pub shared_keys: Addr,
}

impl PyType {
    /// Offset at which the items of an instance are visited, wherever they are stored: after the fields.
    pub(crate) fn items(&self) -> u64 {
        self.basicsize.next_multiple_of(8)
    }

    /// Whether instances have `ob_size`, the number of their items. Since 3.11 frame objects and generators have an
    /// item size without it: the code that they run determines their size.
    pub(crate) fn has_size(&self) -> bool {
        self.itemsize != 0 && !matches!(self.form, TypeForm::Frame | TypeForm::Generator)
    }

    /// Whether the word at `ob_size` may be something else. A type written in C may have an item size, and no
    /// `ob_size`. The interpreter's own types have it.
    pub(crate) fn may_lack_size(&self) -> bool {
        self.has_size() && self.form == TypeForm::Plain && !self.is(flags::TUPLE)
    }

    /// Whether any of these flags is set.
    pub fn is(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }
}

/// Maximum length in bytes of a static type's name.
const C_NAME: usize = limits::MAX_PY_NAME;

impl Objects<'_> {
    /// Whether `at` is a type. Its metatype must be a type too, whose metatype is `type`, which is its own type.
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

    /// Reads the type at `at`. `None` if it is not a valid type. `names`: for types whose own name can't be read.
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
            // Up to 3.10 a frame object stores its variables as items.
            TypeForm::Frame if self.shape.frame_object.is_none() => TypeForm::Plain,
            form => form,
        };
        let fields_from = match form {
            TypeForm::Leaf
            | TypeForm::Integer
            | TypeForm::Text
            | TypeForm::Bytes
            | TypeForm::ByteArray
            | TypeForm::Weak => self.solid_size(at).unwrap_or(basicsize),
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

    /// Iterates a type and its base types by `tp_base`, up to `object`.
    pub(crate) fn bases(&self, at: Addr) -> impl Iterator<Item = Addr> + '_ {
        let base = |at: &Addr| self.ptr_at(*at, self.shape.types.base).filter(|base| !base.is_null());
        std::iter::successors(Some(at), base).take(limits::MAX_PY_BASES)
    }

    /// Form of a type, by its flags or by the name of its nearest known base.
    fn form_of(&self, at: Addr, bits: u64, name: &str, names: &StaticNames) -> TypeForm {
        let by_flag = [
            (flags::TYPE, TypeForm::Type),
            (flags::UNICODE, TypeForm::Text),
            (flags::BYTES, TypeForm::Bytes),
            (flags::LONG, TypeForm::Integer),
            (flags::LIST, TypeForm::List),
            (flags::TUPLE, TypeForm::Plain),
            (flags::DICT, TypeForm::Dict),
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
        self.bases(at).skip(1).find_map(above).unwrap_or(TypeForm::Plain)
    }

    /// Instance size of the topmost base below `object`. Fields of subclasses follow it.
    fn solid_size(&self, at: Addr) -> Option<u64> {
        let all: Vec<Addr> = self.bases(at).collect();
        let solid = all.len().checked_sub(2).and_then(|i| all.get(i)).unwrap_or(&at);
        self.word_at(*solid, self.shape.types.basicsize)
    }

    /// Name of a type as Python shows it: with its module, unless that is `builtins`.
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
            .or_else(|| self.name_by_member(at).map(str::to_owned))
            .unwrap_or_else(|| format!("<static type at {at}>"))
    }

    /// Name of a static type by a member that no other type has. From 3.12 on the dict is not in the type itself.
    fn name_by_member(&self, at: Addr) -> Option<&'static str> {
        let dict = self.ptr_at(at, self.shape.types.dict).filter(|dict| self.is_dict(*dict))?;
        BY_MEMBER.iter().find(|(member, _)| self.lookup(dict, member).is_some()).map(|(_, name)| *name)
    }

    /// Whether the object at `at` is a str, judged by its type's flags.
    pub fn is_str(&self, at: Addr) -> bool {
        self.has_flag(at, flags::UNICODE)
    }

    /// Whether the object at `at` is a dict, judged by its type's flags.
    pub fn is_dict(&self, at: Addr) -> bool {
        self.has_flag(at, flags::DICT)
    }

    fn has_flag(&self, at: Addr, flag: u64) -> bool {
        let bits = self.type_of(at).and_then(|kind| self.word_at(kind, self.shape.types.flags));
        bits.is_some_and(|bits| bits & flag != 0 && bits & flags::READY != 0)
    }
}
