//! Locates the metadata of a PE file: in memory, flat or by section, and in the file on disk.
//!
//! ECMA-335 II.25.3.3 (the CLI header); src/inc/corhdr.h of CoreCLR for ManagedNativeHeader.

use super::{Metadata, MetadataError};
use crate::addr::Addr;
use crate::bytes::{u16_at, u32_at};
use crate::image::pe::{CLI_DIRECTORY, PeDirectory, PeImage};
use crate::limits;
use crate::memory::Memory;
use crate::targets::reads::Script;

/// Size of IMAGE_COR20_HEADER.
const CLI_HEADER_BYTES: usize = 72;

/// The CLI header of a .NET module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CliHeader {
    /// Required runtime version, major and minor.
    pub version: (u16, u16),
    /// Metadata root.
    pub metadata: PeDirectory,
    /// COMIMAGE_FLAGS: IL only 1, 32 bit 2, IL library 4.
    pub flags: u32,
    /// Token of the entry point; 0 in libraries.
    pub entry_point: u32,
    /// Managed resources.
    pub resources: PeDirectory,
    /// ManagedNativeHeader: the ReadyToRun header. Empty if the module has no precompiled code.
    pub native_header: PeDirectory,
}

/// Reads the CLI header of the image at `base`.
///
/// # Errors
/// Where there is none, or it can't be read.
pub(crate) fn cli_header(
    memory: &dyn Memory,
    base: Addr,
    image: &PeImage,
    flat: bool,
) -> Result<CliHeader, MetadataError> {
    let at = image.directory(CLI_DIRECTORY).and_then(|d| image.rva_to_addr(base, d.rva, flat));
    let bytes = memory.bytes(at.ok_or(MetadataError::NoCliHeader)?, CLI_HEADER_BYTES)?;
    parse_cli_header(&bytes).ok_or(MetadataError::NoCliHeader)
}

fn parse_cli_header(bytes: &[u8]) -> Option<CliHeader> {
    let directory = |at| Some(PeDirectory { rva: u32_at(bytes, at)?, size: u32_at(bytes, at + 4)? });
    Some(CliHeader {
        version: (u16_at(bytes, 4)?, u16_at(bytes, 6)?),
        metadata: directory(8)?,
        flags: u32_at(bytes, 16)?,
        entry_point: u32_at(bytes, 20)?,
        resources: directory(24)?,
        native_header: directory(64)?,
    })
}

/// Returns address and length of the metadata root of the image at `base`.
///
/// # Errors
/// Like [`cli_header`].
pub fn find_root(memory: &dyn Memory, base: Addr, image: &PeImage, flat: bool) -> Result<(Addr, u64), MetadataError> {
    let root = cli_header(memory, base, image, flat)?.metadata;
    let addr = image.rva_to_addr(base, root.rva, flat).filter(|_| !root.is_empty());
    Ok((addr.ok_or(MetadataError::NoCliHeader)?, u64::from(root.size)))
}

/// Whether the assembly is part of .NET, or one that anyone can have. These names are reserved.
fn is_public(assembly: &str) -> bool {
    let first = assembly.split('.').next().unwrap_or(assembly);
    ["System", "Microsoft", "mscorlib", "netstandard", "WindowsBase"].contains(&first)
}

impl<'m> Metadata<'m> {
    /// Reads the metadata root of `len` bytes at `addr`. Borrows it if it is contiguous, else copies it.
    ///
    /// # Errors
    /// Fails if it can't be read or parsed, or is larger than [`limits::MAX_METADATA`].
    pub fn at(memory: &'m dyn Memory, addr: Addr, len: u64) -> Result<Metadata<'m>, MetadataError> {
        let size = usize::try_from(len).ok().filter(|_| len <= limits::MAX_METADATA);
        let size = size.ok_or(MetadataError::TooLarge(len))?;
        let metadata = match memory.borrow_to_look(addr, size) {
            Some(bytes) => Metadata::parse(bytes),
            None => Metadata::parse(memory.look(addr, size)?),
        }?;
        if memory.keeps() {
            metadata.keep_names(memory, addr);
        }
        Ok(metadata)
    }

    /// Declares all of it to `memory` as structure, except values from the program's source.
    fn keep_names(&self, memory: &dyn Memory, addr: Addr) {
        let mut from = 0;
        for literal in self.literals() {
            memory.keep(addr.saturating_add(from), (literal.start as u64).saturating_sub(from));
            from = from.max(literal.end as u64);
        }
        memory.keep(addr.saturating_add(from), (self.size() as u64).saturating_sub(from));
        // Without an Assembly row, nothing shows that it is public.
        let is_public = self.assembly().is_some_and(|assembly| is_public(&assembly.name));
        let script = if is_public { Script::Public } else { Script::Utf8 };
        for name in self.all_names() {
            memory.keep_name(addr.saturating_add(name.start as u64), name.len() as u64, script);
        }
    }
}
