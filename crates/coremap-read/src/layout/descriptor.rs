//! Reads a runtime's description of its own structs: the export `DotNetRuntimeContractDescriptor` (.NET 9 and later).
//!
//! The format is in dotnet/runtime, docs/design/datacontracts/contract-descriptor.md: u64 magic, u32 flags, u32
//! descriptor_size, char *descriptor, u32 pointer_data_count, u32 pad, uintptr_t *pointer_data.

use crate::addr::Addr;
use crate::layout::tables::BUILT_IN_DESCRIPTORS;
use crate::layout::{Global, Layout, LayoutError};
use crate::limits;
use crate::memory::{Fault, Memory};

/// "DNCCDAC\0", the first bytes of a descriptor.
pub const DESCRIPTOR_MAGIC: &[u8; 8] = b"DNCCDAC\0";

/// Name under which a runtime exports its descriptor.
pub const DESCRIPTOR_SYMBOL: &str = "DotNetRuntimeContractDescriptor";

/// Prefix of globals that lead to a further descriptor, in a layout that was read from one.
pub const SUB_DESCRIPTOR: &str = "subDescriptor.";

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

/// A descriptor without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorHead {
    /// Bytes of the text.
    pub size: u32,
    /// Address of the text.
    pub json: Addr,
    /// Pointers that the text refers to by index.
    pub pointers: Vec<Addr>,
}

impl DescriptorHead {
    /// Reads the head at `addr`, and its table of pointers.
    ///
    /// # Errors
    /// [`DescriptorError`]
    pub fn read(memory: &dyn Memory, addr: Addr) -> Result<DescriptorHead, DescriptorError> {
        let at = |off| addr.saturating_add(off);
        let magic = memory.u64(addr)?;
        if magic.to_le_bytes() != *DESCRIPTOR_MAGIC {
            return Err(DescriptorError::Form(format!("wrong magic {magic:#x} at {addr}")));
        }
        let (size, count) = (memory.u32(at(header::SIZE))?, memory.u32(at(header::COUNT))?);
        if size > limits::MAX_DESCRIPTOR || count > limits::MAX_DESCRIPTOR_POINTERS {
            return Err(DescriptorError::Form(format!("implausible sizes ({size} bytes of JSON, {count} pointers)")));
        }
        let table = memory.ptr(at(header::POINTERS))?;
        let pointers =
            (0..u64::from(count)).map(|i| memory.ptr(table.saturating_add(8 * i))).collect::<Result<Vec<_>, _>>()?;
        Ok(DescriptorHead { size, json: memory.ptr(at(header::JSON))?, pointers })
    }

    /// The layout by the text in memory.
    ///
    /// # Errors
    /// [`DescriptorError`]
    pub fn own_layout(&self, memory: &dyn Memory) -> Result<Layout, DescriptorError> {
        let json = memory.bytes(self.json, self.size as usize)?;
        let mut layout = Layout::parse_from(&String::from_utf8_lossy(&json), true)?;
        layout.id = "the runtime's own descriptor".to_owned();
        Ok(layout)
    }

    /// The layout by the bundled text that has as many bytes and refers to as many pointers. A core may lack the
    /// program's constants.
    pub fn built_in_layout(&self) -> Option<Layout> {
        let fits = |count: usize, text: &str| count == self.pointers.len() && text.len() == self.size as usize;
        let mut texts = BUILT_IN_DESCRIPTORS.iter().map(|&(count, text)| (count, text.trim_end()));
        let (_, text) = texts.find(|&(count, text)| fits(count, text))?;
        let mut layout = Layout::parse_from(text, true).ok()?;
        layout.id = "a bundled copy of the runtime's descriptor".to_owned();
        Some(layout)
    }

    /// The pointer that a global of the layout refers to. `None` if there is none, or it is 0.
    pub fn pointer(&self, layout: &Layout, name: &str) -> Option<Addr> {
        let Ok(Global::Pointer(index)) = layout.global(name) else { return None };
        self.pointers.get(*index).copied().filter(|at| !at.is_null())
    }
}

/// Reads the descriptor at `addr`. Returns its layout and its table of pointers.
///
/// # Errors
/// [`DescriptorError`]
pub fn read_descriptor(memory: &dyn Memory, addr: Addr) -> Result<(Layout, Vec<Addr>), DescriptorError> {
    let head = DescriptorHead::read(memory, addr)?;
    Ok((head.own_layout(memory)?, head.pointers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundled_text_is_chosen_by_its_size_and_its_pointers() {
        let of = |size, count| {
            let head = DescriptorHead { size, json: Addr::NULL, pointers: vec![Addr::new(8); count] };
            head.built_in_layout()
        };
        // Sizes and counts of the release 11.0.0.
        let x64 = of(2235, 9);
        assert_eq!(x64.as_ref().and_then(|l| l.text("RuntimeFlavor")), Some("NativeAot"));
        assert_eq!(x64.as_ref().and_then(|l| l.field("Thread", "ExceptionTracker").ok()), Some(120));
        assert_eq!(of(2240, 9).and_then(|l| l.field("Thread", "ExceptionTracker").ok()), Some(128));
        for (size, count, server) in [(2280, 25, false), (2134, 12, true)] {
            let layout = of(size, count);
            assert_eq!(layout.as_ref().and_then(|l| l.contract("GC")), Some("c1"));
            assert_eq!(layout.is_some_and(|l| l.global("NumHeaps").is_ok()), server);
        }
        assert!(of(2235, 10).is_none());
        assert!(of(2236, 9).is_none());
    }

    #[test]
    fn a_further_descriptor_is_a_pointer() {
        let layout = Layout::parse_from(r#"{"subDescriptors":{"GC":[[1],"pointer"]}}"#, true).unwrap_or_default();
        let head = DescriptorHead { size: 0, json: Addr::NULL, pointers: vec![Addr::NULL, Addr::new(0x40)] };
        assert_eq!(head.pointer(&layout, "subDescriptor.GC"), Some(Addr::new(0x40)));
        assert_eq!(head.pointer(&layout, "GC"), None);
    }
}
