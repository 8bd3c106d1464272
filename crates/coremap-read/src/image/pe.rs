//! A PE file in memory, mapped flat (as a file) or by section (as .NET's own PE loader does on
//! Linux).
//!
//! Structure: Microsoft PE/COFF specification.

use byteorder::{ByteOrder, LittleEndian};
use goblin::pe::header::Header;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::section::Section;
use crate::memory::Memory;

/// Number of bytes read for headers. The section tables of real files end within a page.
const HEADER_BYTES: u64 = 4096;

/// An entry of the section table.
#[derive(Clone, Debug)]
pub struct PeSection {
    /// Name.
    pub name: String,
    /// Offset from the image's base, in bytes.
    pub rva: u64,
    /// Length in memory, in bytes.
    pub virtual_size: u64,
    /// Offset in the file, in bytes.
    pub file_offset: u64,
    /// Length in the file, in bytes.
    pub file_size: u64,
    /// Whether it has IMAGE_SCN_MEM_WRITE.
    pub writable: bool,
}

/// Headers of a PE file.
#[derive(Clone, Debug)]
pub struct PeImage {
    /// SizeOfImage, in bytes.
    pub size_of_image: u64,
    /// SizeOfHeaders, in bytes.
    pub size_of_headers: u64,
    /// Sections.
    pub sections: Vec<PeSection>,
    /// Data directories, by number.
    pub directories: [PeDirectory; 16],
}

/// A data directory: the location of a structure in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeDirectory {
    /// Offset from the image's base, in bytes. 0 if there is none.
    pub rva: u32,
    /// Length in bytes.
    pub size: u32,
}

impl PeDirectory {
    /// Whether the structure is absent.
    pub fn is_empty(&self) -> bool {
        self.rva == 0 || self.size == 0
    }
}

/// Number of the data directory of base relocations (PE/COFF, optional header).
const RELOCATION_DIRECTORY: usize = 5;

/// Number of the data directory of debug entries (PE/COFF, optional header).
pub const DEBUG_DIRECTORY: usize = 6;

/// Number of the data directory of the CLI header (PE/COFF, optional header; ECMA-335
/// II.25.2.3.3).
pub const CLI_DIRECTORY: usize = 14;

/// IMAGE_SCN_MEM_WRITE (PE/COFF, section flags).
const MEM_WRITE: u32 = 0x8000_0000;

/// Reads PE headers at `base`. `None` if there are none.
pub fn read(memory: &dyn Memory, base: Addr) -> Option<PeImage> {
    let len = memory.readable(base, HEADER_BYTES) as usize;
    let bytes = memory.look(base, len).ok()?;
    let image = parse(&bytes)?;
    // Only the headers are structure. In a small file, section contents begin within these
    // bytes.
    memory.keep(base, headers_len(&bytes).min(len as u64));
    Some(image)
}

/// Reads PE headers from a file.
pub fn of_file(file: &[u8]) -> Option<PeImage> {
    parse(file.get(..HEADER_BYTES as usize).unwrap_or(file))
}

/// Returns SizeOfHeaders: bytes of all headers, including the section table.
fn headers_len(bytes: &[u8]) -> u64 {
    let header = Header::parse(bytes).ok().and_then(|header| header.optional_header);
    header.map_or(0, |optional| optional.windows_fields.size_of_headers.into())
}

/// Parses PE headers from the first bytes of a file.
pub fn parse(bytes: &[u8]) -> Option<PeImage> {
    if !bytes.starts_with(b"MZ") {
        return None;
    }
    let header = Header::parse(bytes).ok()?;
    let optional = header.optional_header?;
    let mut directories = [PeDirectory::default(); 16];
    for (to, from) in directories.iter_mut().zip(optional.data_directories.data_directories) {
        if let Some((_, d)) = from {
            *to = PeDirectory { rva: d.virtual_address, size: d.size };
        }
    }
    let optional = optional.windows_fields;
    // The section table follows the optional header.
    let mut offset = header.dos_header.pe_pointer as usize
        + goblin::pe::header::SIZEOF_PE_MAGIC
        + goblin::pe::header::SIZEOF_COFF_HEADER
        + usize::from(header.coff_header.size_of_optional_header);
    let sections = header.coff_header.sections(bytes, &mut offset).ok()?;
    Some(PeImage {
        size_of_image: u64::from(optional.size_of_image),
        size_of_headers: u64::from(optional.size_of_headers),
        sections: sections
            .iter()
            .map(|s| PeSection {
                name: s.name().unwrap_or("?").to_owned(),
                rva: u64::from(s.virtual_address),
                virtual_size: u64::from(s.virtual_size),
                file_offset: u64::from(s.pointer_to_raw_data),
                file_size: u64::from(s.size_of_raw_data),
                writable: s.characteristics & MEM_WRITE != 0,
            })
            .collect(),
        directories,
    })
}

/// The bytes of a file that a loader changes if it does not load the file at its ImageBase.
#[derive(Default)]
pub struct Relocated {
    /// Offsets in the file, sorted.
    at: Vec<u64>,
}

/// Maximum number of bytes that a relocation changes (IMAGE_REL_BASED_DIR64).
const RELOCATION_BYTES: u64 = 8;

impl Relocated {
    /// Reads the file's table of base relocations (PE/COFF, the .reloc section). It has one
    /// block per page: {u32 RVA of the page, u32 size of the block, u16 entries whose low 12
    /// bits are an offset}.
    pub fn of(image: &PeImage, file: &[u8]) -> Relocated {
        let mut at = Vec::new();
        let table = image.directory(RELOCATION_DIRECTORY).and_then(|d| {
            let from = usize::try_from(image.rva_to_offset(d.rva, true)?).ok()?;
            let table = file.get(from..)?;
            Some(table.get(..d.size as usize).unwrap_or(table))
        });
        let mut rest = table.unwrap_or_default();
        while let (Some(page), Some(size)) = (bytes::u32_at(rest, 0), bytes::u32_at(rest, 4)) {
            let size = (size as usize).max(8).min(rest.len());
            let (block, after) = rest.split_at(size);
            rest = after;
            for entry in block.get(8..).unwrap_or_default().as_chunks::<2>().0 {
                let offset = u32::from(LittleEndian::read_u16(entry) & 0xfff);
                at.extend(page.checked_add(offset).and_then(|rva| image.rva_to_offset(rva, true)));
            }
        }
        at.sort_unstable();
        Relocated { at }
    }

    /// Whether a relocation changes any of the `len` bytes at `offset` in the file.
    pub fn touches(&self, offset: u64, len: u64) -> bool {
        let i = self.at.partition_point(|&a| a.saturating_add(RELOCATION_BYTES) <= offset);
        self.at.get(i).is_some_and(|&a| a < offset.saturating_add(len))
    }
}

impl PeImage {
    /// Returns a data directory, if its structure is present.
    pub fn directory(&self, number: usize) -> Option<PeDirectory> {
        self.directories.get(number).copied().filter(|d| !d.is_empty())
    }

    /// Converts an RVA to the offset from the image's base: the file offset if it is mapped
    /// flat, the RVA itself if by section.
    ///
    /// `None` if the RVA is in no section and not in the headers, or the file has no byte for
    /// it.
    pub fn rva_to_offset(&self, rva: u32, flat: bool) -> Option<u64> {
        let rva = u64::from(rva);
        if !flat {
            return (rva < self.size_of_image).then_some(rva);
        }
        let section = self.sections.iter().find_map(|s| {
            let at = rva.checked_sub(s.rva)?;
            (at < s.file_size).then(|| s.file_offset.saturating_add(at))
        });
        section.or((rva < self.size_of_headers).then_some(rva))
    }

    /// Returns the address of an RVA, for an image at `base`.
    pub fn rva_to_addr(&self, base: Addr, rva: u32, flat: bool) -> Option<Addr> {
        base.checked_add(self.rva_to_offset(rva, flat)?)
    }

    /// Returns the sections of an image at `base`, placed by file offset or by RVA.
    pub fn placed(&self, base: Addr, flat: bool) -> Vec<Section> {
        let headers = Section { range: AddrRange::sized(base, self.size_of_headers), name: "headers".into() };
        let rest = self.sections.iter().map(|s| {
            let (from, len) = if flat { (s.file_offset, s.file_size) } else { (s.rva, s.virtual_size) };
            Section { range: AddrRange::sized(base.saturating_add(from), len), name: s.name.clone() }
        });
        std::iter::once(headers).chain(rest).collect()
    }
}
