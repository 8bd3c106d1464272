//! What HotSpot says of itself: libjvm exports tables of its own C++ types, their fields with offsets, constants
//! and static variables (vmStructs.cpp), made for its serviceability agent. Nothing here knows a version's offset.

mod detect;
mod flags;
mod tables;
mod view;

pub use detect::{Detection, detect};
pub use tables::{Field, Tables, VmError};
pub use view::VmStruct;

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, ProcessMemory};
use crate::process::Process;
use flags::Flags;

/// A HotSpot VM in the process, with what it says of itself.
pub struct Vm<'p> {
    /// The process it runs in.
    pub process: &'p Process,
    /// Its memory.
    pub memory: &'p ProcessMemory,
    /// Index of libjvm among the process's modules.
    pub module: usize,
    /// Path of libjvm.
    pub path: String,
    /// Where libjvm is loaded.
    pub range: AddrRange,
    /// Major version of the JDK: 11, 17, 21.
    pub major: u32,
    /// Version of the VM, as `java -version` tells it: `17.0.15+6-Debian-1deb12u1`.
    pub version: String,
    /// Its tables.
    pub tables: Tables,
    flags: Flags,
}

impl<'p> Vm<'p> {
    /// The struct of the C++ type `kind` at `addr`.
    pub fn at<'v>(&'v self, kind: &'v str, addr: Addr) -> VmStruct<'v> {
        VmStruct::new(self.memory, &self.tables, kind, addr)
    }

    /// Where a static variable of a C++ class stands.
    ///
    /// # Errors
    /// Where the tables have none of that name.
    pub fn static_addr(&self, kind: &str, field: &str) -> Result<Addr, VmError> {
        self.tables.static_field(kind, field).map(|f| Addr::new(f.place))
    }

    /// What a static pointer holds.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn static_ptr(&self, kind: &'static str, field: &'static str) -> Result<Addr, VmError> {
        let at = self.static_addr(kind, field)?;
        self.memory.ptr(at).map_err(VmError::fault(kind, field))
    }

    /// What a static number holds, by the width of its type.
    ///
    /// # Errors
    /// [`VmError`]
    pub fn static_number(&self, kind: &'static str, field: &'static str) -> Result<u64, VmError> {
        let found = self.tables.static_field(kind, field)?;
        view::number(self.memory, Addr::new(found.place), found.width).map_err(VmError::fault(kind, field))
    }

    /// The first of these static variables that the tables have: names change from release to release.
    ///
    /// # Errors
    /// That of the last, where there is none.
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

    /// The first of these C++ types that the tables have: `G1HeapRegion` was `HeapRegion`.
    pub fn first_type<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.tables.has_type(name))
    }

    /// Size of a C++ type in bytes.
    ///
    /// # Errors
    /// Where the tables have none of that name.
    pub fn size_of(&self, kind: &str) -> Result<u64, VmError> {
        self.tables.size_of(kind)
    }

    /// The VirtualSpace at `at`: what is reserved, and what of it is committed.
    ///
    /// # Errors
    /// [`VmError`], also where it is not in its own bounds.
    pub fn virtual_space(&self, at: Addr) -> Result<(AddrRange, AddrRange), VmError> {
        let space = self.at("VirtualSpace", at);
        let reserved = AddrRange { start: space.ptr("_low_boundary")?, end: space.ptr("_high_boundary")? };
        let committed = AddrRange { start: space.ptr("_low")?, end: space.ptr("_high")? };
        // One of no bytes is what zeros look like, too.
        if reserved.start >= reserved.end || committed.start > committed.end || !reserved.covers(&committed) {
            return Err(VmError::Nonsense { what: "a memory space outside of its own bounds", at });
        }
        Ok((reserved, committed))
    }

    /// A constant of the VM, `markWord::klass_shift` for one.
    pub fn constant(&self, name: &str) -> Option<i64> {
        self.tables.constant(name)
    }

    /// Whether a flag of the VM is set; `false` where this VM has none of that name.
    pub fn is_set(&self, flag: &str) -> bool {
        self.flags.value(self.memory, flag, 1).is_some_and(|value| value != 0)
    }

    /// A flag that is a number of bytes or objects (`size_t`, `uintx`).
    pub fn flag(&self, name: &str) -> Option<u64> {
        self.flags.value(self.memory, name, 8)
    }

    /// A flag that is an `int`.
    pub fn int_flag(&self, name: &str) -> Option<u64> {
        self.flags.value(self.memory, name, 4)
    }

    /// `HotSpot 17.0.15+6-Debian-1deb12u1`
    pub fn name(&self) -> String {
        format!("HotSpot {}", self.version)
    }
}
