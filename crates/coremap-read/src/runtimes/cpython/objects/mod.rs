//! Single objects of CPython, read by their address: types, strings, integers, dicts, attributes.
//!
//! An object has a reference count and a type (`PyObject`). Some types add a number of items (`PyVarObject`). An object
//! that the collector can track has a `PyGC_Head` before it.

mod dict;
mod instance;
mod modules;
mod names;
mod number;
mod text;
mod types;

pub use dict::{DictKeys, Entry};
pub(crate) use instance::Managed;
pub use modules::PyModule;
pub(crate) use modules::modules;
pub use names::StaticNames;
pub use text::TextContent;
pub(crate) use text::is_identifier;
pub(in crate::runtimes::cpython) use types::BY_MEMBER;
pub use types::{PyType, TypeForm, flags};

use crate::addr::Addr;
use crate::memory::{Memory, ProcessMemory};
use crate::runtimes::cpython::shape::Shape;

/// Reads objects by their address. The address may be wrong, so reads are not recorded as structures.
/// `cpython::anatomy` describes those once the objects are known.
#[derive(Clone, Copy)]
pub struct Objects<'p> {
    /// The process's memory.
    pub memory: &'p ProcessMemory,
    pub(crate) shape: Shape,
}

impl<'p> Objects<'p> {
    /// Creates a reader for a version with these offsets.
    pub(crate) fn new(memory: &'p ProcessMemory, shape: Shape) -> Objects<'p> {
        Objects { memory, shape }
    }

    /// Address of the type of the object at `object`. It may not be a valid type.
    pub fn type_of(&self, object: Addr) -> Option<Addr> {
        self.ptr_at(object, self.shape.ob_type).filter(|at| !at.is_null())
    }

    /// `ob_size` of a variable-size object.
    pub fn ob_size(&self, object: Addr) -> Option<i64> {
        self.word_at(object, self.shape.ob_size).map(|size| size as i64)
    }

    pub(crate) fn ptr_at(&self, object: Addr, offset: u64) -> Option<Addr> {
        self.word_at(object, offset).map(Addr::new)
    }

    pub(crate) fn word_at(&self, object: Addr, offset: u64) -> Option<u64> {
        self.memory.peek_u64(object.checked_add(offset)?).ok()
    }
}
