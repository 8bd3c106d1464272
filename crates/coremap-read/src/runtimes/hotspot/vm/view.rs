//! A view of a C++ object of the VM. Fields are read by name, with the width in the tables.
//!
//! It differs from [`crate::layout::StructView`]: the VM's tables also have each field's width and the class it is
//! inherited from. Widths differ between releases (`nmethod::_comp_level` had four bytes and has one).

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
    /// Address of the object.
    pub addr: Addr,
}

/// Reads the little-endian number of `width` bytes at `at`.
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

    /// Whether the tables have the field.
    pub fn has(&self, field: &str) -> bool {
        self.tables.has(self.kind, field)
    }

    /// Returns the address of a field.
    ///
    /// # Errors
    /// If the tables do not have it.
    pub fn addr_of(&self, field: &str) -> Result<Addr, VmError> {
        self.tables.offset(self.kind, field).map(|offset| self.addr.wrapping_add(offset))
    }

    /// Reads a pointer field.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn ptr(&self, field: &str) -> Result<Addr, VmError> {
        let at = self.addr_of(field)?;
        self.memory.ptr(at).map_err(VmError::fault(self.kind, field))
    }

    /// Reads an unsigned number, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`], also if its type is no number.
    pub fn number(&self, field: &str) -> Result<u64, VmError> {
        let (at, width) = (self.addr_of(field)?, self.tables.field(self.kind, field)?.width);
        if width == 0 {
            return Err(VmError::MissingField { kind: self.kind.to_owned(), field: field.to_owned() });
        }
        number(self.memory, at, width).map_err(VmError::fault(self.kind, field))
    }

    /// Reads a signed number, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`], also if its type is no number.
    pub fn signed(&self, field: &str) -> Result<i64, VmError> {
        let value = self.number(field)?;
        let width = u32::from(self.tables.field(self.kind, field)?.width.clamp(1, 8));
        let unused = 64 - 8 * width;
        Ok(((value << unused) as i64) >> unused)
    }
}
