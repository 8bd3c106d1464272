//! A C++ object of the VM, its fields read by name and by the width that the tables tell.
//!
//! It is not [`crate::layout::StructView`]: the VM's tables know of each field how wide it is and from which class
//! it is inherited, and widths differ between releases (`nmethod::_comp_level` had four bytes and has one).

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::Addr;
use crate::memory::{Fault, Memory};
use crate::runtimes::hotspot::vm::{Tables, VmError};

/// A C++ object of a known type at an address.
#[derive(Clone, Copy)]
pub struct VmStruct<'a> {
    memory: &'a dyn Memory,
    tables: &'a Tables,
    kind: &'a str,
    /// Where it is.
    pub addr: Addr,
}

/// The little-endian number of `width` bytes at `at`.
pub(super) fn number(memory: &dyn Memory, at: Addr, width: u8) -> Result<u64, Fault> {
    let mut buf = [0; 8];
    let len = usize::from(width).min(buf.len());
    memory.read(at, buf.get_mut(..len).unwrap_or_default())?;
    Ok(LittleEndian::read_u64(&buf))
}

impl<'a> VmStruct<'a> {
    pub(super) fn new(memory: &'a dyn Memory, tables: &'a Tables, kind: &'a str, addr: Addr) -> VmStruct<'a> {
        VmStruct { memory, tables, kind, addr }
    }

    /// Whether the tables know the field.
    pub fn has(&self, field: &str) -> bool {
        self.tables.has(self.kind, field)
    }

    /// Address of a field.
    ///
    /// # Errors
    /// Where the tables do not know it.
    pub fn addr_of(&self, field: &str) -> Result<Addr, VmError> {
        self.tables.offset(self.kind, field).map(|offset| self.addr.wrapping_add(offset))
    }

    /// A pointer.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn ptr(&self, field: &str) -> Result<Addr, VmError> {
        let at = self.addr_of(field)?;
        self.memory.ptr(at).map_err(VmError::fault(self.kind, field))
    }

    /// A number without a sign, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`], also where its type is no number.
    pub fn number(&self, field: &str) -> Result<u64, VmError> {
        let (at, width) = (self.addr_of(field)?, self.tables.field(self.kind, field)?.width);
        if width == 0 {
            return Err(VmError::MissingField { kind: self.kind.to_owned(), field: field.to_owned() });
        }
        number(self.memory, at, width).map_err(VmError::fault(self.kind, field))
    }

    /// A number with a sign, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`], also where its type is no number.
    pub fn signed(&self, field: &str) -> Result<i64, VmError> {
        let value = self.number(field)?;
        let width = u32::from(self.tables.field(self.kind, field)?.width.clamp(1, 8));
        let unused = 64 - 8 * width;
        Ok(((value << unused) as i64) >> unused)
    }
}
