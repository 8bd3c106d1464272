//! Reads a runtime's description of its own structs: the export `DotNetRuntimeContractDescriptor` (.NET 9 and later).
//!
//! The format is in dotnet/runtime, docs/design/datacontracts/contract-descriptor.md: u64 magic, u32 flags, u32
//! descriptor_size, char *descriptor, u32 pointer_data_count, u32 pad, uintptr_t *pointer_data.

use crate::addr::Addr;
use crate::layout::{Layout, LayoutError};
use crate::limits;
use crate::memory::{Fault, Memory};

/// "DNCCDAC\0", little-endian.
const MAGIC: u64 = 0x0043_4144_4343_4e44;

/// Offsets of the header's fields in bytes.
mod header {
    pub(super) const SIZE: u64 = 12;
    pub(super) const JSON: u64 = 16;
    pub(super) const COUNT: u64 = 24;
    pub(super) const POINTERS: u64 = 32;
}

/// Why a descriptor can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// Part of the descriptor is not in the core.
    #[error("contract descriptor: {0}")]
    Fault(#[from] Fault),
    /// Not a descriptor, or a corrupt one.
    #[error("contract descriptor: {0}")]
    Form(String),
    /// The descriptor's JSON is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Reads the descriptor at `addr`. Returns its layout and its table of pointers.
///
/// # Errors
/// [`DescriptorError`]
pub fn read_descriptor(memory: &dyn Memory, addr: Addr) -> Result<(Layout, Vec<Addr>), DescriptorError> {
    let at = |off| addr.saturating_add(off);
    let magic = memory.u64(addr)?;
    if magic != MAGIC {
        return Err(DescriptorError::Form(format!("wrong magic {magic:#x} at {addr}")));
    }
    let (size, count) = (memory.u32(at(header::SIZE))?, memory.u32(at(header::COUNT))?);
    if size > limits::MAX_DESCRIPTOR || count > limits::MAX_DESCRIPTOR_POINTERS {
        return Err(DescriptorError::Form(format!("implausible sizes ({size} bytes of JSON, {count} pointers)")));
    }
    let table = memory.ptr(at(header::POINTERS))?;
    let pointers =
        (0..u64::from(count)).map(|i| memory.ptr(table.saturating_add(8 * i))).collect::<Result<Vec<_>, _>>()?;
    let json = memory.bytes(memory.ptr(at(header::JSON))?, size as usize)?;
    let mut layout = Layout::parse_from(&String::from_utf8_lossy(&json), true)?;
    layout.id = "the runtime's own descriptor".to_owned();
    Ok((layout, pointers))
}
