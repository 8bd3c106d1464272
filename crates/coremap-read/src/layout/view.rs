//! A struct in the process's memory, with fields read by name.

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::Addr;
use crate::layout::model::Fields;
use crate::layout::{Layout, LayoutError};
use crate::memory::{Fault, Memory};

/// Why a field can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The layout does not have it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The field's memory can't be read.
    #[error("{kind}.{field}: {fault}")]
    Fault {
        /// Type of the struct.
        kind: String,
        /// Name of the field.
        field: String,
        /// Address and reason.
        fault: Fault,
    },
}

impl ViewError {
    /// Creates the error for a fault in `field` of `kind`, for memory that is not read through [`StructView`].
    pub fn fault(kind: &'static str, field: &'static str) -> impl Fn(Fault) -> ViewError + Copy {
        move |fault| ViewError::Fault { kind: kind.into(), field: field.into(), fault }
    }
}

/// A struct of a known type at an address.
#[derive(Clone, Copy)]
pub struct StructView<'a> {
    memory: &'a dyn Memory,
    layout: &'a Layout,
    kind: &'a str,
    fields: Option<&'a Fields>,
    /// Address of the struct.
    pub addr: Addr,
}

impl<'a> StructView<'a> {
    /// Creates a view of the struct of type `kind` at `addr`.
    pub fn new(memory: &'a dyn Memory, layout: &'a Layout, kind: &'a str, addr: Addr) -> StructView<'a> {
        StructView { memory, layout, kind, fields: layout.fields(kind), addr }
    }

    /// Address of a field.
    ///
    /// # Errors
    /// [`ViewError::Layout`], if the layout does not have the field.
    pub fn addr_of(&self, field: &str) -> Result<Addr, ViewError> {
        let offset = self.fields.and_then(|fields| fields.get(field));
        let offset = offset.ok_or_else(|| self.layout.missing(self.kind, field))?;
        Ok(self.addr.wrapping_offset(*offset))
    }

    /// Whether the layout has a field.
    pub fn has(&self, field: &str) -> bool {
        self.fields.is_some_and(|fields| fields.contains_key(field))
    }

    fn read<T>(&self, field: &str, f: impl Fn(&'a dyn Memory, Addr) -> Result<T, Fault>) -> Result<T, ViewError> {
        let at = self.addr_of(field)?;
        f(self.memory, at).map_err(|fault| ViewError::Fault { kind: self.kind.into(), field: field.into(), fault })
    }

    /// Reads a pointer field.
    ///
    /// # Errors
    /// [`ViewError`]
    pub fn ptr(&self, field: &str) -> Result<Addr, ViewError> {
        self.read(field, |m, a| m.ptr(a))
    }

    /// Reads a 64-bit field.
    ///
    /// # Errors
    /// [`ViewError`]
    pub fn u64(&self, field: &str) -> Result<u64, ViewError> {
        self.read(field, |m, a| m.u64(a))
    }

    /// Reads a 32-bit field.
    ///
    /// # Errors
    /// [`ViewError`]
    pub fn u32(&self, field: &str) -> Result<u32, ViewError> {
        self.read(field, |m, a| m.u32(a))
    }

    /// Reads a 16-bit field.
    ///
    /// # Errors
    /// [`ViewError`]
    pub fn u16(&self, field: &str) -> Result<u16, ViewError> {
        self.read(field, |m, a| {
            let mut buf = [0; 2];
            m.read(a, &mut buf)?;
            Ok(LittleEndian::read_u16(&buf))
        })
    }

    /// Reads an 8-bit field.
    ///
    /// # Errors
    /// [`ViewError`]
    pub fn u8(&self, field: &str) -> Result<u8, ViewError> {
        self.read(field, |m, a| {
            let mut buf = [0; 1];
            m.read(a, &mut buf)?;
            Ok(buf[0])
        })
    }
}
