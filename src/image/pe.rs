//! A PE file in memory, mapped flat (as a file) or by section (as .NET's own
//! PE loader does on Linux).
//!
//! Structure: Microsoft PE/COFF specification.

use byteorder::{ByteOrder, LittleEndian};
use goblin::pe::header::Header;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::section::Section;
use crate::memory::Memory;

/// Bytes read for headers: section tables of real files end within a page.
const HEADER_BYTES: u64 = 4096;

/// One section, as the table states it.
#[derive(Clone, Debug)]
pub struct PeSection {
    /// Name.
    pub name: String,
    /// Where it belongs in memory, from the image's base.
    pub rva: u64,
    /// Length in memory, in bytes.
    pub virtual_size: u64,
    /// Where it is in the file.
    pub file_offset: u64,
    /// Length in the file, in bytes.
    pub file_size: u64,
    /// IMAGE_SCN_MEM_WRITE
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

/// A data directory: where a structure of the image is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeDirectory {
    /// Place, from the image's base; 0 where there is none.
    pub rva: u32,
    /// Length in bytes.
    pub size: u32,
}

impl PeDirectory {
    /// Whether it says that there is nothing.
    pub fn is_empty(&self) -> bool {
        self.rva == 0 || self.size == 0
    }
}

/// Data directory of base relocations (PE/COFF, optional header).
const RELOCATION_DIRECTORY: usize = 5;

/// Data directory of debug entries (PE/COFF, optional header).
pub const DEBUG_DIRECTORY: usize = 6;

/// Data directory of the CLI header (PE/COFF, optional header; ECMA-335 II.25.2.3.3).
pub const CLI_DIRECTORY: usize = 14;

/// IMAGE_SCN_MEM_WRITE (PE/COFF, section flags).
const MEM_WRITE: u32 = 0x8000_0000;

/// Read PE headers at `base`; `None` where there are none.
pub fn read(memory: &dyn Memory, base: Addr) -> Option<PeImage> {
    let len = memory.readable(base, HEADER_BYTES) as usize;
    let bytes = memory.look(base, len).ok()?;
    let image = parse(&bytes)?;
    // Of a small file what the headers describe begins within these bytes.
    memory.keep(base, headers_len(&bytes).min(len as u64));
    Some(image)
}

/// Read PE headers from a file.
pub fn of_file(file: &[u8]) -> Option<PeImage> {
    parse(file.get(..HEADER_BYTES as usize).unwrap_or(file))
}

/// SizeOfHeaders: bytes of all headers, the table of sections among them.
fn headers_len(bytes: &[u8]) -> u64 {
    let header = Header::parse(bytes).ok().and_then(|header| header.optional_header);
    header.map_or(0, |optional| optional.windows_fields.size_of_headers.into())
}

/// Parse PE headers from the first bytes of a file.
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
    // Section table: after the optional header.
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

/// The bytes of a file that a loader changes where it loads it elsewhere than at its ImageBase.
#[derive(Default)]
pub struct Relocated {
    /// Offsets in the file, sorted.
    at: Vec<u64>,
}

/// Bytes that a relocation changes, at most (IMAGE_REL_BASED_DIR64).
const RELOCATION_BYTES: u64 = 8;

impl Relocated {
    /// What the file's table of base relocations names (PE/COFF, the .reloc section): blocks
    /// of a page each, {u32 RVA of the page, u32 size of the block, u16 entries whose low
    /// 12 bits are an offset}.
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

    /// Whether one of `len` bytes at an offset in the file is among them.
    pub fn touches(&self, offset: u64, len: u64) -> bool {
        let i = self.at.partition_point(|&a| a.saturating_add(RELOCATION_BYTES) <= offset);
        self.at.get(i).is_some_and(|&a| a < offset.saturating_add(len))
    }
}

impl PeImage {
    /// A data directory, if it says that there is something.
    pub fn directory(&self, number: usize) -> Option<PeDirectory> {
        self.directories.get(number).copied().filter(|d| !d.is_empty())
    }

    /// How far from the image's base the byte of that RVA is: by file offset
    /// where it is mapped flat, by RVA where by section.
    ///
    /// `None` is an RVA that is in no section and not in the headers, or one
    /// that the file has no byte of.
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

    /// Where the byte of that RVA is in memory, for an image at `base`.
    pub fn rva_to_addr(&self, base: Addr, rva: u32, flat: bool) -> Option<Addr> {
        base.checked_add(self.rva_to_offset(rva, flat)?)
    }

    /// Sections placed for an image at `base`, by file offset or by RVA.
    pub fn placed(&self, base: Addr, flat: bool) -> Vec<Section> {
        let headers = Section { range: AddrRange::sized(base, self.size_of_headers), name: "headers".into() };
        let rest = self.sections.iter().map(|s| {
            let (from, len) = if flat { (s.file_offset, s.file_size) } else { (s.rva, s.virtual_size) };
            Section { range: AddrRange::sized(base.saturating_add(from), len), name: s.name.clone() }
        });
        std::iter::once(headers).chain(rest).collect()
    }
}
