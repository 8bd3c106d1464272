//! HotSpot's description of itself. libjvm exports tables of its C++ types, with field offsets, constants and static
//! variables (vmStructs.cpp), for the JDK's serviceability agent. No version's offsets are needed here.

mod detect;
mod flags;
mod tables;
mod view;

pub(super) use detect::LIBJVM;
pub use detect::{Detection, detect};
pub use tables::{Field, Tables, VmError};
pub use view::VmStruct;

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, ProcessMemory};
use crate::process::Process;
use flags::Flags;

/// A HotSpot VM in the process, with its tables and flags.
pub struct Vm<'p> {
    /// The process.
    pub process: &'p Process,
    /// The process's memory.
    pub memory: &'p ProcessMemory,
    /// Index of libjvm in the process's modules.
    pub module: usize,
    /// Path of libjvm.
    pub path: String,
    /// Address range of libjvm.
    pub range: AddrRange,
    /// Major version of the JDK: 11, 17, 21.
    pub major: u32,
    /// Version of the VM, as in `java -version`: `17.0.15+6-Debian-1deb12u1`.
    pub version: String,
    /// The exported tables.
    pub tables: Tables,
    flags: Flags,
}

impl<'p> Vm<'p> {
    /// Returns a view of the struct of C++ type `kind` at `addr`.
    pub fn at<'v>(&'v self, kind: &'v str, addr: Addr) -> VmStruct<'v> {
        VmStruct::new(self.memory, &self.tables, kind, addr)
    }

    /// Returns the address of a static variable of a C++ class.
    ///
    /// # Errors
    /// If the tables have no variable of that name.
    pub fn static_addr(&self, kind: &str, field: &str) -> Result<Addr, VmError> {
        self.tables.static_field(kind, field).map(|f| Addr::new(f.location))
    }

    /// Reads a static pointer.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn static_ptr(&self, kind: &'static str, field: &'static str) -> Result<Addr, VmError> {
        let at = self.static_addr(kind, field)?;
        self.memory.ptr(at).map_err(VmError::fault(kind, field))
    }

    /// Reads a static number, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn static_number(&self, kind: &'static str, field: &'static str) -> Result<u64, VmError> {
        let found = self.tables.static_field(kind, field)?;
        view::number(self.memory, Addr::new(found.location), found.width).map_err(VmError::fault(kind, field))
    }

    /// Returns the address of the first of these static variables that the tables have. Names differ between releases.
    ///
    /// # Errors
    /// The error of the last name, if the tables have none of them.
    pub fn first_static(&self, names: &[(&str, &str)]) -> Result<Addr, VmError> {
        let mut last = VmError::MissingType(String::new());
        for &(kind, field) in names {
            match self.static_addr(kind, field) {
                Ok(found) => return Ok(found),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Returns the first of these C++ types that the tables have. `G1HeapRegion` was `HeapRegion`.
    pub fn first_type<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.tables.has_type(name))
    }

    /// Returns the size of a C++ type in bytes.
    ///
    /// # Errors
    /// If the tables have no type of that name.
    pub fn size_of(&self, kind: &str) -> Result<u64, VmError> {
        self.tables.size_of(kind)
    }

    /// Returns the reserved and the committed range of the VirtualSpace at `at`.
    ///
    /// # Errors
    /// [`VmError`], also if the committed range is outside the reserved one.
    pub fn virtual_space(&self, at: Addr) -> Result<(AddrRange, AddrRange), VmError> {
        let space = self.at("VirtualSpace", at);
        let reserved = AddrRange { start: space.ptr("_low_boundary")?, end: space.ptr("_high_boundary")? };
        let committed = AddrRange { start: space.ptr("_low")?, end: space.ptr("_high")? };
        // An empty one is rejected too, since zero bytes look like that.
        if reserved.start >= reserved.end || committed.start > committed.end || !reserved.covers(&committed) {
            return Err(VmError::Invalid { what: "a memory space outside of its own bounds", at });
        }
        Ok((reserved, committed))
    }

    /// Returns a constant of the VM, such as `markWord::klass_shift`.
    pub fn constant(&self, name: &str) -> Option<i64> {
        self.tables.constant(name)
    }

    /// Whether a flag of the VM is set. `false` if this VM has no such flag.
    pub fn is_set(&self, flag: &str) -> bool {
        self.flags.value(self.memory, flag, 1).is_some_and(|value| value != 0)
    }

    /// Returns the value of a 64-bit flag (`size_t`, `uintx`), such as a number of bytes.
    pub fn flag(&self, name: &str) -> Option<u64> {
        self.flags.value(self.memory, name, 8)
    }

    /// Returns the value of an `int` flag.
    pub fn int_flag(&self, name: &str) -> Option<u64> {
        self.flags.value(self.memory, name, 4)
    }

    /// Returns the name for reports: `HotSpot 17.0.15+6-Debian-1deb12u1`.
    pub fn name(&self) -> String {
        format!("HotSpot {}", self.version)
    }
}
