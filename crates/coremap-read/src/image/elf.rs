//! An ELF image in memory: program headers, load bias, build id, link map, and sections
//! as far as they can be determined.
//!
//! Structures: System V ABI and its x86_64 and aarch64 supplements; `r_debug` and
//! `link_map` from glibc's and musl's link.h (the same in both).

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::dynamic as dy;
use goblin::elf::header as eh;
use goblin::elf::program_header as ph;
use goblin::elf::section_header as sh;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::section::Section;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::targets::Perms;

/// NT_GNU_BUILD_ID (elf.h).
const NT_GNU_BUILD_ID: u32 = 3;

/// A PT_LOAD of an image, placed in memory.
#[derive(Clone, Debug)]
pub struct ImageSegment {
    /// Addresses, rounded out to pages.
    pub range: AddrRange,
    /// Offset of its first page in the file, in bytes.
    pub file_offset: u64,
    /// End of the part that comes from the file, rounded up to a page. The rest is .bss.
    pub file_end: Addr,
    /// Access.
    pub perms: Perms,
}

/// The headers of an ELF image, placed in memory.
#[derive(Clone, Debug)]
pub struct ElfImage {
    /// Load bias: the difference between each address and its `p_vaddr`.
    pub bias: u64,
    /// Addresses from the lowest PT_LOAD to the highest.
    pub range: AddrRange,
    /// PT_LOADs.
    pub segments: Vec<ImageSegment>,
    /// Named parts, from program headers and tables.
    pub sections: Vec<Section>,
    /// GNU build id.
    pub build_id: Option<Vec<u8>>,
    /// PT_DYNAMIC, placed.
    pub dynamic: Option<AddrRange>,
    /// Whether it has PT_INTERP. Programs have one, libraries seldom.
    pub has_interpreter: bool,
    /// Bytes of its thread-local variables (PT_TLS), with what alignment may add.
    pub thread_local: u64,
}

/// Divisor of the bytes of initialized variables: with fewer bytes than that, they are missing.
const MISSING: u64 = 8;

impl ElfImage {
    /// Returns the readable parts of its writable segments, at most
    /// [`limits::MAX_IMAGE_DATA`] bytes of each.
    pub fn writable_parts(&self, memory: &dyn Memory) -> Vec<AddrRange> {
        let longest = limits::MAX_IMAGE_DATA;
        let writable = self.segments.iter().filter(|s| s.perms.write);
        writable
            .map(|s| AddrRange::sized(s.range.start, s.range.len().min(longest)))
            .flat_map(|range| memory.readable_parts(range, longest))
            .collect()
    }

    /// Whether its initialized variables are missing from the memory that can be read. Its file has only their first
    /// values. createdump's heap dumps leave them out, but for a page or two beside other memory.
    pub(crate) fn lacks_variables(&self, memory: &dyn Memory) -> bool {
        let writable = self.segments.iter().filter(|s| s.perms.write);
        let (mut all, mut there) = (0_u64, 0_u64);
        for segment in writable {
            let range = AddrRange::new(segment.range.start, segment.file_end.max(segment.range.start));
            let range = AddrRange::sized(range.start, range.len().min(limits::MAX_IMAGE_DATA));
            all = all.saturating_add(range.len());
            let parts = memory.readable_parts(range, limits::MAX_IMAGE_DATA);
            there = parts.iter().map(AddrRange::len).fold(there, u64::saturating_add);
        }
        there < all / MISSING
    }

    /// Returns the words of its writable parts, each part with its address.
    pub(crate) fn writable_words(&self, memory: &dyn Memory) -> impl Iterator<Item = (Addr, Vec<u64>)> {
        self.writable_parts(memory).into_iter().filter_map(move |part| {
            let bytes = memory.look(part.start, part.len() as usize).ok()?;
            Some((part.start, bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()))
        })
    }

    /// Returns the address in an entry of its dynamic section.
    ///
    /// glibc stores the placed address if the section is writable. musl and the kernel's
    /// vdso keep the file's address.
    pub fn dynamic_addr(&self, memory: &dyn Memory, tag: u64) -> Option<Addr> {
        let value = dynamic_entry(memory, self.dynamic?, tag)?;
        let placed = self.range.contains(Addr::new(value));
        Some(if placed { Addr::new(value) } else { Addr::new(self.bias.wrapping_add(value)) })
    }
}

/// Reads an ELF image whose header is at `base`. `None` if there is no valid one.
pub fn read(memory: &dyn Memory, base: Addr, page: u64) -> Option<ElfImage> {
    let (programs, kept) = programs(memory, base)?;
    let image = place(memory, &programs, base, base, page)?;
    // An image may also be read as data. These bytes prove what it is.
    kept.iter().for_each(|range| memory.keep(range.start, range.len()));
    Some(image)
}

/// Reads an ELF image at `base` from a copy of its header page at `copy`.
///
/// Old linkers on x86_64, and all linkers for pages of 64 KiB, place segments further apart in memory than in the
/// file. So the page with the headers may also be the first page of a data segment. That page is written, so it is in
/// the core when the headers' own page is not. `None` if no segment of the image shows it there.
pub(super) fn read_copy(memory: &dyn Memory, base: Addr, copy: Addr, page: u64) -> Option<ElfImage> {
    let (programs, kept) = programs(memory, copy)?;
    let image = place(memory, &programs, base, copy, page)?;
    let shows_headers = |s: &ImageSegment| s.file_offset == 0 && s.range.start == copy;
    if copy == base || !image.segments.iter().any(shows_headers) {
        return None;
    }
    kept.iter().for_each(|range| memory.keep(range.start, range.len()));
    Some(image)
}

/// Reads the program headers of the ELF header at `at`. Also returns the ranges of header and table.
fn programs(memory: &dyn Memory, at: Addr) -> Option<(Vec<ph::ProgramHeader>, [AddrRange; 2])> {
    // A file with the name of a program may begin with anything.
    let raw: [u8; eh::header64::SIZEOF_EHDR] = memory.look(at, eh::header64::SIZEOF_EHDR).ok()?.try_into().ok()?;
    let header = header(&raw)?;
    let count = usize::from(header.e_phnum).min(limits::MAX_IMAGE_HEADERS);
    let table_at = at.checked_add(header.e_phoff)?;
    let table = memory.look(table_at, count * ph::program_header64::SIZEOF_PHDR).ok()?;
    let programs = ph::ProgramHeader::parse(&table, 0, count, ctx()).ok()?;
    Some((programs, [AddrRange::sized(at, raw.len() as u64), AddrRange::sized(table_at, table.len() as u64)]))
}

fn ctx() -> Ctx {
    Ctx::new(Container::Big, Endian::Little)
}

fn header(raw: &[u8; eh::header64::SIZEOF_EHDR]) -> Option<eh::Header> {
    if raw.get(..4) != Some(eh::ELFMAG) || raw[eh::EI_CLASS] != eh::ELFCLASS64 || raw[eh::EI_DATA] != eh::ELFDATA2LSB {
        return None;
    }
    let header: eh::Header = goblin::elf::Elf::parse_header(raw).ok()?;
    let plausible = matches!(header.e_type, eh::ET_EXEC | eh::ET_DYN)
        && usize::from(header.e_phentsize) == ph::program_header64::SIZEOF_PHDR
        && header.e_phnum > 0;
    plausible.then_some(header)
}

/// Whether a file begins like an ELF file.
pub(super) fn is_elf(file: &[u8]) -> bool {
    file.starts_with(eh::ELFMAG)
}

/// Returns `e_machine` and the program headers of an ELF program or library on disk.
pub(crate) fn file_headers(file: &[u8]) -> Option<(u16, Vec<ph::ProgramHeader>)> {
    let raw: [u8; eh::header64::SIZEOF_EHDR] = file.get(..eh::header64::SIZEOF_EHDR)?.try_into().ok()?;
    let header = header(&raw)?;
    Some((header.e_machine, file_programs(file, &header)?))
}

/// Returns the build id of an ELF file on disk.
pub fn file_build_id(file: &[u8]) -> Option<Vec<u8>> {
    file_headers(file)?.1.iter().filter(|p| p.p_type == ph::PT_NOTE).find_map(|p| {
        let size = p.p_filesz.min(limits::MAX_IMAGE_NOTES) as usize;
        build_id(bytes::get(file, usize::try_from(p.p_offset).ok()?, size)?)
    })
}

fn file_programs(file: &[u8], header: &eh::Header) -> Option<Vec<ph::ProgramHeader>> {
    let count = usize::from(header.e_phnum).min(limits::MAX_IMAGE_HEADERS);
    let at = usize::try_from(header.e_phoff).ok()?;
    bytes::get(file, at, count * ph::program_header64::SIZEOF_PHDR)?;
    ph::ProgramHeader::parse(file, at, count, ctx()).ok()
}

/// A section of an ELF file on disk.
#[derive(Clone, Debug)]
pub(crate) struct FileSection {
    pub(crate) header: sh::SectionHeader,
    pub(crate) name: String,
}

impl FileSection {
    /// Bytes of the section in the file. `None` if the file has none: .bss, compressed
    /// sections, and all but the symbols in a debug file.
    pub(crate) fn bytes<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        file.get(self.range()?)
    }

    /// Offsets of those bytes in the file.
    pub(crate) fn range(&self) -> Option<std::ops::Range<usize>> {
        let packed = self.header.sh_flags & u64::from(sh::SHF_COMPRESSED) != 0;
        if self.header.sh_type == sh::SHT_NOBITS || packed {
            return None;
        }
        let at = usize::try_from(self.header.sh_offset).ok()?;
        Some(at..at.checked_add(usize::try_from(self.header.sh_size).ok()?)?)
    }
}

/// Reads the section table of an ELF file on disk, in file order.
pub(crate) fn section_table(file: &[u8]) -> Option<Vec<FileSection>> {
    let raw: [u8; eh::header64::SIZEOF_EHDR] = file.get(..eh::header64::SIZEOF_EHDR)?.try_into().ok()?;
    let header = header(&raw)?;
    let count = usize::from(header.e_shnum).min(limits::MAX_IMAGE_HEADERS);
    let at = usize::try_from(header.e_shoff).ok()?;
    bytes::get(file, at, count.checked_mul(sh::section_header64::SIZEOF_SHDR)?)?;
    let sections = sh::SectionHeader::parse(file, at, count, ctx()).ok()?;
    let names = sections.get(usize::from(header.e_shstrndx))?;
    let names = bytes::get(file, usize::try_from(names.sh_offset).ok()?, usize::try_from(names.sh_size).ok()?)?;
    let name =
        |s: &sh::SectionHeader| names.get(s.sh_name..).map(|n| bytes::text(n.get(..limits::MAX_NAME).unwrap_or(n)));
    Some(sections.into_iter().map(|s| FileSection { name: name(&s).unwrap_or_default(), header: s }).collect())
}

/// Returns the section names and addresses of an ELF file on disk, placed by `bias`.
pub fn file_sections(file: &[u8], bias: u64) -> Option<Vec<Section>> {
    let placed = section_table(file)?
        .into_iter()
        .filter(|FileSection { header: s, .. }| s.sh_flags & u64::from(sh::SHF_ALLOC) != 0 && s.sh_size > 0)
        .filter(|FileSection { header: s, .. }| s.sh_type != sh::SHT_NOBITS || s.sh_flags & u64::from(sh::SHF_TLS) == 0)
        .filter_map(|FileSection { header: s, name }| {
            Some(Section { range: AddrRange::sized(Addr::new(bias.checked_add(s.sh_addr)?), s.sh_size), name })
        })
        .collect();
    Some(placed)
}

fn loads(programs: &[ph::ProgramHeader]) -> impl Iterator<Item = &ph::ProgramHeader> {
    programs.iter().filter(|p| p.p_type == ph::PT_LOAD && p.p_memsz > 0)
}

/// Places the segments of an image. Sections and build id are left out.
pub(super) fn without_sections(programs: &[ph::ProgramHeader], bias: u64, page: u64) -> Option<ElfImage> {
    let placed = |p: &ph::ProgramHeader| AddrRange::sized(Addr::new(bias.wrapping_add(p.p_vaddr)), p.p_memsz);
    let mut segments = Vec::new();
    for p in loads(programs) {
        let range = placed(p);
        let file_end = range.start.saturating_add(p.p_filesz.min(p.p_memsz));
        segments.push(ImageSegment {
            range: AddrRange::new(range.start.align_down(page), range.end.align_up(page)),
            file_offset: p.p_offset & !(page - 1),
            file_end: if p.p_filesz == 0 { range.start.align_down(page) } else { file_end.align_up(page) },
            perms: Perms::from_flags(p.p_flags),
        });
    }
    // The ABI requires ascending segments. No linker produces overlapping ones.
    segments.sort_by_key(|s| (s.range.start, s.range.end));
    segments.dedup_by(|next, last| next.range.start < last.range.end);
    segments.truncate(limits::MAX_IMAGE_SEGMENTS);
    segments.shrink_to_fit();
    let low = segments.iter().map(|s| s.range.start).min()?;
    let high = segments.iter().map(|s| s.range.end).max()?;
    if high.since(low) > limits::MAX_IMAGE_SPAN {
        return None;
    }
    Some(ElfImage {
        bias,
        range: AddrRange::new(low, high),
        segments,
        sections: Vec::new(),
        build_id: None,
        dynamic: programs.iter().find(|p| p.p_type == ph::PT_DYNAMIC).map(placed),
        has_interpreter: programs.iter().any(|p| p.p_type == ph::PT_INTERP),
        thread_local: programs
            .iter()
            .find(|p| p.p_type == ph::PT_TLS)
            .map_or(0, |p| p.p_memsz.saturating_add(p.p_align)),
    })
}

/// Places an image at `base`. Its first page is also at `headers`.
fn place(
    memory: &dyn Memory,
    programs: &[ph::ProgramHeader],
    base: Addr,
    headers: Addr,
    page: u64,
) -> Option<ElfImage> {
    // The header is at file offset 0, so the segment that starts there has the vaddr of
    // `base`.
    let first = loads(programs).find(|p| p.p_offset & !(page - 1) == 0)?;
    let bias = base.offset_from(Addr::new(first.p_vaddr).align_down(page)).cast_unsigned();
    let mut image = without_sections(programs, bias, page)?;
    let placed = |p: &ph::ProgramHeader| AddrRange::sized(Addr::new(bias.wrapping_add(p.p_vaddr)), p.p_memsz);
    for p in programs {
        if image.sections.len() >= limits::MAX_IMAGE_SEGMENTS {
            break;
        }
        let range = placed(p);
        let name = match p.p_type {
            ph::PT_NOTE => {
                let size = range.len().min(limits::MAX_IMAGE_NOTES) as usize;
                let in_headers = p.p_offset.checked_add(size as u64).filter(|&end| end <= page).map(|_| p.p_offset);
                let copy = in_headers.and_then(|offset| headers.checked_add(offset));
                let at = copy.filter(|_| headers != base).unwrap_or(range.start);
                let note = memory.bytes(at, size).ok();
                image.build_id = image.build_id.or_else(|| note.and_then(|n| build_id(&n)));
                ".note"
            }
            ph::PT_INTERP => ".interp",
            ph::PT_DYNAMIC => ".dynamic",
            ph::PT_GNU_RELRO => ".data.rel.ro",
            ph::PT_GNU_EH_FRAME => {
                if let Some(start) = eh_frame(memory, range) {
                    // The header has no end for it. It is within its segment.
                    let end = image.segments.iter().find(|s| s.range.contains(start)).map(|s| s.range.end);
                    let range = AddrRange::new(start, end.unwrap_or(start));
                    image.sections.push(Section { range, name: ".eh_frame".into() });
                }
                ".eh_frame_hdr"
            }
            _ => continue,
        };
        image.sections.push(Section { range, name: name.into() });
    }
    Some(image)
}

/// Returns the start of .eh_frame, from .eh_frame_hdr (LSB core specification).
fn eh_frame(memory: &dyn Memory, range: AddrRange) -> Option<Addr> {
    let bytes = memory.bytes(range.start, range.len().min(64) as usize).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(range.start.get());
    let parsed = EhFrameHdr::new(&bytes, LittleEndian).parse(&bases, 8).ok()?;
    match parsed.eh_frame_ptr() {
        gimli::Pointer::Direct(addr) => Some(Addr::new(addr)),
        gimli::Pointer::Indirect(addr) => memory.ptr(Addr::new(addr)).ok(),
    }
}

fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let name_len = bytes::u32_at(notes, 0)? as usize;
        let desc_len = bytes::u32_at(notes, 4)? as usize;
        let kind = bytes::u32_at(notes, 8)?;
        let desc_at = 12 + name_len.checked_next_multiple_of(4)?;
        let desc = bytes::get(notes, desc_at, desc_len)?;
        if kind == NT_GNU_BUILD_ID && bytes::get(notes, 12, name_len)?.starts_with(b"GNU") {
            return (1..=limits::MAX_BUILD_ID).contains(&desc_len).then(|| desc.to_vec());
        }
        notes = notes.get(desc_at + desc_len.checked_next_multiple_of(4)?..)?;
    }
}

/// A module in the dynamic linker's list.
#[derive(Clone, Debug)]
pub struct LinkedModule {
    /// Load bias: `l_addr`.
    pub bias: u64,
    /// Path: `l_name`. Empty for the program itself.
    pub name: String,
}

/// Offset of `r_map` in `struct r_debug`.
const R_DEBUG_MAP: u64 = 8;

/// Size of `struct r_debug` in bytes, up to `r_ldbase`.
const R_DEBUG: u64 = 40;

/// Offsets in `struct link_map`.
mod link_map {
    pub(super) const ADDR: u64 = 0;
    pub(super) const NAME: u64 = 8;
    pub(super) const NEXT: u64 = 24;
    /// Size in bytes of the public part, up to `l_prev`.
    pub(super) const SIZE: u64 = 40;
}

/// Reads the dynamic linker's list of modules, through DT_DEBUG of the program.
pub fn link_map(memory: &dyn Memory, dynamic: AddrRange) -> Vec<LinkedModule> {
    let mut out = Vec::new();
    let Some(r_debug) = dynamic_entry(memory, dynamic, dy::DT_DEBUG) else { return out };
    let Ok(first) = memory.ptr(Addr::new(r_debug).saturating_add(R_DEBUG_MAP)) else { return out };
    memory.keep(Addr::new(r_debug), R_DEBUG);
    let end = Walks::new(Phase::Modules, limits::MAX_MODULES).begin().follow(first, |node| {
        let field = |off| memory.ptr(node.saturating_add(off));
        let bias = field(link_map::ADDR)?;
        memory.keep(node, link_map::SIZE);
        let name = field(link_map::NAME).and_then(|p| memory.text(p, limits::MAX_NAME));
        out.push(LinkedModule { bias: bias.get(), name: name.unwrap_or_default() });
        field(link_map::NEXT)
    });
    // The list only adds to NT_FILE and the mappings, so an incomplete one is no error.
    end.ok();
    out
}

/// Returns the value of the first entry with tag `tag` in a dynamic section.
pub fn dynamic_entry(memory: &dyn Memory, dynamic: AddrRange, tag: u64) -> Option<u64> {
    let count = (dynamic.len() / 16).min(limits::MAX_IMAGE_HEADERS as u64);
    for i in 0..count {
        let at = dynamic.start.checked_add(16 * i)?;
        match memory.u64(at).ok()? {
            dy::DT_NULL => return None,
            t if t == tag => return memory.u64(at.checked_add(8)?).ok(),
            _ => {}
        }
    }
    None
}

/// Returns the DT_SONAME of an image.
pub fn soname(memory: &dyn Memory, image: &ElfImage) -> Option<String> {
    let offset = dynamic_entry(memory, image.dynamic?, dy::DT_SONAME)?;
    let table = image.dynamic_addr(memory, dy::DT_STRTAB)?;
    let name = memory.text(table.checked_add(offset)?, limits::MAX_NAME).ok()?;
    (!name.is_empty()).then_some(name)
}
