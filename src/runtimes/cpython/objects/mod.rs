//! Single objects of CPython: their types, strings, integers, dicts, as one looks at them by their address.
//!
//! An object is its count of references and its type (`PyObject`), and of some types a number of items
//! (`PyVarObject`); what the collector tracks has a `PyGC_Head` before it.

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
pub use types::{Form, PyType, flags};

use crate::addr::Addr;
use crate::memory::{Memory, ProcessMemory};
use crate::runtimes::cpython::shape::Shape;

/// Looks at objects by their address, which may be those of anything: which bytes are structures is told by
/// `cpython::anatomy`, when it is known what is an object.
#[derive(Clone, Copy)]
pub struct Objects<'p> {
    /// The process's memory.
    pub memory: &'p ProcessMemory,
    pub(crate) shape: Shape,
}

impl<'p> Objects<'p> {
    /// Objects of a version of this shape.
    pub(crate) fn new(memory: &'p ProcessMemory, shape: Shape) -> Objects<'p> {
        Objects { memory, shape }
    }

    /// The type of the object at `object`, which may be none.
    pub fn type_of(&self, object: Addr) -> Option<Addr> {
        self.ptr_at(object, self.shape.ob_type).filter(|at| !at.is_null())
    }

    /// `ob_size` of an object with items.
    pub fn ob_size(&self, object: Addr) -> Option<i64> {
        self.word_at(object, self.shape.ob_size).map(|size| size as i64)
    }

    /// The pointer at an offset of an object.
    pub(crate) fn ptr_at(&self, object: Addr, offset: u64) -> Option<Addr> {
        self.word_at(object, offset).map(Addr::new)
    }

    /// The 64-bit number at an offset of an object.
    pub(crate) fn word_at(&self, object: Addr, offset: u64) -> Option<u64> {
        self.memory.peek_u64(object.checked_add(offset)?).ok()
    }
}
