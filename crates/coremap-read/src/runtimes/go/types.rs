//! Types of a Go program (rtypes), by address.
//!
//! Sources: internal/abi/type.go (`Type`, `StructType`, `MapType` …), reflect/type.go (`name`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::targets::reads::Script;

/// Bytes of the head that all types have.
const HEAD: u64 = 48;

/// Bits of `tflag`: the name begins with an extra star; the mask of pointers is made on demand; values are pointers
/// (1.26).
const EXTRA_STAR: u8 = 1 << 1;
const MASK_ON_DEMAND: u8 = 1 << 4;
const DIRECT_TFLAG: u8 = 1 << 5;

/// Parts of the kind: the mask of the kind itself; values are pointers (before 1.26); the mask is a program (before
/// 1.24).
const KIND_MASK: u8 = 31;
const DIRECT_KIND: u8 = 1 << 5;
const MASK_IS_PROGRAM: u8 = 1 << 6;

/// Kind of a type (`reflect.Kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeKind {
    /// A number, or another kind whose values have no parts to follow.
    Plain,
    Array,
    Chan,
    Func,
    Interface,
    Map,
    Pointer,
    Slice,
    Text,
    Struct,
    UnsafePointer,
}

impl TypeKind {
    fn of(kind: u8) -> Option<TypeKind> {
        Some(match kind {
            1..=16 => TypeKind::Plain,
            17 => TypeKind::Array,
            18 => TypeKind::Chan,
            19 => TypeKind::Func,
            20 => TypeKind::Interface,
            21 => TypeKind::Map,
            22 => TypeKind::Pointer,
            23 => TypeKind::Slice,
            24 => TypeKind::Text,
            25 => TypeKind::Struct,
            26 => TypeKind::UnsafePointer,
            _ => return None,
        })
    }
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: Arc<str>,
    pub(super) of: Addr,
    pub(super) offset: u64,
}

/// A type.
#[derive(Clone, Debug)]
pub(super) struct GoType {
    pub(super) name: Arc<str>,
    pub(super) kind: TypeKind,
    pub(super) size: u64,
    /// Bytes at the start of a value that may have pointers.
    pub(super) ptrdata: u64,
    /// Whether an interface contains the value itself instead of a pointer to it.
    pub(super) direct: bool,
    /// Address of the mask of pointers. `None` if it is not a plain mask.
    pub(super) mask: Option<Addr>,
    /// Type of elements: of a pointer, slice, array or channel, of a map's values.
    pub(super) elem: Addr,
    /// Type of a map's bucket or group.
    pub(super) bucket: Addr,
    /// Number of elements of an array.
    pub(super) count: u64,
    pub(super) fields: Vec<Field>,
}

/// The types of a program.
pub(super) struct Types<'p> {
    memory: &'p dyn Memory,
    range: AddrRange,
    direct_by_tflag: bool,
    known: Mutex<HashMap<Addr, Option<Arc<GoType>>>>,
}

impl<'p> Types<'p> {
    pub(super) fn new(runtime: &Runtime<'p>) -> Types<'p> {
        let range = runtime.proof.sections.types;
        let direct_by_tflag = runtime.shape().direct_by_tflag;
        Types { memory: runtime.memory(), range, direct_by_tflag, known: Mutex::default() }
    }

    /// Whether types are in memory. They may be in a file that is missing.
    pub(super) fn are_readable(&self) -> bool {
        self.memory.readable(self.range.start.saturating_add(HEAD), 8) > 0
    }

    /// Whether a type can be at an address.
    pub(super) fn may_be(&self, at: Addr) -> bool {
        self.range.contains(at) && at.is_aligned(8)
    }

    /// The type at an address. `None` if there is none.
    pub(super) fn get(&self, at: Addr) -> Option<Arc<GoType>> {
        if !self.may_be(at) {
            return None;
        }
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&at) {
                return found.clone();
            }
        }
        let found = self.read(at).map(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(at, found.clone());
        found
    }

    fn read(&self, at: Addr) -> Option<GoType> {
        let r = Record::look(self.memory, at, HEAD)?;
        let (size, ptrdata, hash, tflag, kind_bits) = (r.u64(0), r.u64(8), r.u32(16), r.u8(20), r.u8(23));
        let kind = TypeKind::of(kind_bits & KIND_MASK)?;
        let aligned = |byte: u8| [1, 2, 4, 8].contains(&byte);
        let name_at = u64::from(r.u32(40));
        let sound = aligned(r.u8(21))
            && aligned(r.u8(22))
            && tflag < 64
            && ptrdata <= size
            && size <= limits::MAX_GO_TYPE_SIZE
            && hash != 0
            && name_at > 0
            && name_at < self.range.len();
        let name = sound.then(|| self.name(self.range.start.checked_add(name_at)?))??;
        let name = if tflag & EXTRA_STAR != 0 { name.strip_prefix('*')?.into() } else { name };
        if name.is_empty() || name.chars().any(char::is_control) {
            return None;
        }
        self.memory.keep(at, HEAD);
        let word = |i: u64| at.checked_add(HEAD + 8 * i).and_then(|at| self.memory.ptr(at).ok()).unwrap_or_default();
        let has_elem = matches!(kind, TypeKind::Pointer | TypeKind::Chan | TypeKind::Slice | TypeKind::Array);
        let plain_mask = tflag & MASK_ON_DEMAND == 0 && kind_bits & MASK_IS_PROGRAM == 0;
        Some(GoType {
            name,
            kind,
            size,
            ptrdata,
            direct: if self.direct_by_tflag { tflag & DIRECT_TFLAG != 0 } else { kind_bits & DIRECT_KIND != 0 },
            mask: Some(r.ptr(32)).filter(|mask| plain_mask && !mask.is_null()),
            elem: match kind {
                TypeKind::Map => word(1),
                _ if has_elem => word(0),
                _ => Addr::NULL,
            },
            bucket: if kind == TypeKind::Map { word(2) } else { Addr::NULL },
            count: if kind == TypeKind::Array { word(2).get() } else { 0 },
            fields: if kind == TypeKind::Struct { self.fields(word(1), word(2).get()) } else { Vec::new() },
        })
    }

    fn fields(&self, at: Addr, count: u64) -> Vec<Field> {
        let count = count.min(limits::MAX_GO_FIELDS);
        let Some(rows) = Record::read(self.memory, at, 24 * count) else { return Vec::new() };
        let field = |i: u64| {
            let name = self.name(rows.ptr(24 * i)).unwrap_or_else(|| "?".into());
            Field { name, of: rows.ptr(24 * i + 8), offset: rows.u64(24 * i + 16) }
        };
        (0..count).map(field).collect()
    }

    /// The name at an address: flags, a length of variable size, and the text.
    fn name(&self, at: Addr) -> Option<Arc<str>> {
        let have = self.memory.readable(at, limits::MAX_GO_NAME as u64);
        let head = self.memory.look(at, have.min(4) as usize).ok()?;
        let (mut length, mut used) = (0usize, 1u64);
        for byte in head.get(1..)? {
            length |= usize::from(byte & 0x7f) << (7 * (used - 1));
            used += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let length = (length <= limits::MAX_GO_NAME).then_some(length)?;
        let bytes = self.memory.look(at.checked_add(used)?, length).ok()?;
        self.memory.keep_name(at, used + length as u64, Script::Utf8);
        std::str::from_utf8(&bytes).ok().map(Arc::from)
    }
}
