//! Checks whether an ELF file is the one that a module without headers maps.
//!
//! A kernel core with `coredump_filter` bit 4 clear has no header page, hence no build id. Without bit 2 it also lacks
//! code and constants. It still has every page that the process wrote, since such a page is anonymous memory. The
//! dynamic linker writes two parts whose contents follow from the file and its load bias:
//!
//! * PT_GNU_RELRO: each relative relocation makes one word the bias plus a constant of the file. The linker then makes
//!   the pages read-only.
//! * `.dynamic`: glibc before 2.36 adds the bias to the addresses in it. Nobody changes sizes, flags and offsets.
//!   DT_DEBUG is the one entry that differs.
//!
//! Two builds that differ by 32 bytes of code differ in few of these words (9 of 1,979 between two updates of Debian's
//! libssl 3.0). So one word that differs refuses the file. Other words of these pages are no evidence: variables may
//! be set before the pages become read-only, and symbols depend on other modules.

use goblin::elf::dynamic as dy;
use goblin::elf::header as eh;
use goblin::elf::program_header as ph;
use goblin::elf::reloc;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::image::elf::{self, ElfImage};
use crate::image::modules::{Module, page_size};
use crate::sums::SaturatingSum;
use crate::targets::{Arch, FileMapping, Run, Target};

/// The evidence for a file, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// Each mapping has the location and length of a segment of the file.
    Segments,
    /// Like `Segments`, and the words that the dynamic linker wrote follow from the file.
    Relocated,
    /// Like `Segments`, and bytes that both have are equal.
    Bytes,
}

/// Words that the dynamic linker wrote, needed as evidence. A single word can agree by chance; eight addresses can't.
const MIN_WORDS: usize = 8;

/// Maximum number of load biases tried. In a linker's output, at most two segments share a page of the file.
const MAX_BIASES: usize = 4;

/// Returns the evidence for the file. `None` if anything contradicts it.
pub(super) fn compare(target: &dyn Target, module: &Module, file: &[u8]) -> Option<Evidence> {
    let (elf, _) = FileImage::of(target, module, file)?;
    let same = elf.same_constants(target)?;
    let words = elf.dynamic_words(target)?.saturating_add(elf.relative_words(target)?);
    Some(match (same, words) {
        (1.., _) => Evidence::Bytes,
        (0, MIN_WORDS..) => Evidence::Relocated,
        (0, _) => Evidence::Segments,
    })
}

/// Returns the image of the file, placed where the module maps it. It has no sections.
pub(super) fn placed(target: &dyn Target, module: &Module, file: &[u8]) -> Option<ElfImage> {
    FileImage::of(target, module, file).map(|(_, image)| image)
}

/// An ELF file, and where a module maps it.
struct FileImage<'a> {
    file: &'a [u8],
    programs: Vec<ph::ProgramHeader>,
    bias: u64,
    /// The module's mappings, each with the index of its PT_LOAD in `programs`.
    mappings: Vec<(&'a FileMapping, usize)>,
    relative: u32,
}

impl<'a> FileImage<'a> {
    /// `None` if the file is for another machine, or if its segments don't fit the mappings.
    fn of(target: &'a dyn Target, module: &Module, file: &'a [u8]) -> Option<(FileImage<'a>, ElfImage)> {
        let (machine, programs) = elf::file_headers(file)?;
        let (own, relative) = match target.facts().arch {
            Arch::X86_64 => (eh::EM_X86_64, reloc::R_X86_64_RELATIVE),
            Arch::Aarch64 => (eh::EM_AARCH64, reloc::R_AARCH64_RELATIVE),
        };
        if machine != own {
            return None;
        }
        let page = page_size(target.facts());
        let files: Vec<&FileMapping> =
            module.mappings.iter().filter_map(|&m| target.facts().space.files.get(m as usize)).collect();
        let lowest = files.iter().copied().min_by_key(|f| f.range.start)?;
        let segments = Segment::all(&programs, page);
        // One page of the file can be the end of one segment and the start of the next.
        let mut biases: Vec<u64> = segments.iter().filter_map(|s| s.bias(lowest)).collect();
        biases.truncate(MAX_BIASES);
        let (bias, mappings) = biases.into_iter().find_map(|bias| {
            let fits = |f: &&'a FileMapping| {
                let segment = segments.iter().find(|s| s.bias(f) == Some(bias))?;
                Some((*f, segment.index))
            };
            Some((bias, files.iter().map(fits).collect::<Option<Vec<_>>>()?))
        })?;
        let image = elf::without_sections(&programs, bias, page)?;
        Some((FileImage { file, programs, bias, mappings, relative }, image))
    }

    fn at(&self, vaddr: u64) -> Addr {
        Addr::new(self.bias.wrapping_add(vaddr))
    }

    fn segment(&self, kind: u32) -> Option<&ph::ProgramHeader> {
        self.programs.iter().find(|p| p.p_type == kind)
    }

    /// Bytes of the file at these addresses of its own.
    fn bytes(&self, vaddr: u64, len: u64) -> Option<&'a [u8]> {
        let contains = |p: &&ph::ProgramHeader| p.p_type == ph::PT_LOAD && vaddr.wrapping_sub(p.p_vaddr) < p.p_filesz;
        let p = self.programs.iter().find(contains)?;
        let offset = p.p_offset.checked_add(vaddr - p.p_vaddr)?;
        bytes::get(self.file, usize::try_from(offset).ok()?, usize::try_from(len).ok()?)
    }

    /// Value of an entry of the file's dynamic section.
    fn dynamic(&self, tag: u64) -> Option<u64> {
        self.entries().find(|e| e.1 == tag).map(|e| e.2)
    }

    /// Entries of the file's dynamic section up to DT_NULL: address in the file, tag, value.
    fn entries(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let section = self.segment(ph::PT_DYNAMIC);
        let table = section.and_then(|p| Some((p.p_vaddr, self.bytes(p.p_vaddr, p.p_filesz)?)));
        let (vaddr, table) = table.unwrap_or_default();
        let entry = move |(i, words): (usize, &[u8])| {
            let vaddr = vaddr.checked_add(16 * i as u64)?;
            Some((vaddr, bytes::u64_at(words, 0)?, bytes::u64_at(words, 8)?))
        };
        table.chunks_exact(16).enumerate().map_while(entry).take_while(|e| e.1 != dy::DT_NULL)
    }

    /// Number of dumped bytes in read-only segments, all equal to the file's. `None` if any differs.
    fn same_constants(&self, target: &dyn Target) -> Option<usize> {
        // The dynamic linker writes to the code of such a file.
        if self.dynamic(dy::DT_TEXTREL).is_some()
            || self.dynamic(dy::DT_FLAGS).is_some_and(|flags| flags & dy::DF_TEXTREL != 0)
        {
            return Some(0);
        }
        let mut compared = 0;
        for (mapping, segment) in &self.mappings {
            let Some(p) = self.programs.get(*segment).filter(|p| p.p_flags & ph::PF_W == 0) else { continue };
            // The rest of its last page is the next segment's.
            let own = AddrRange::sized(self.at(p.p_vaddr), p.p_filesz);
            let Some(range) = own.intersect(&mapping.range) else { continue };
            for run in readable(target, range)? {
                let offset = mapping.offset.checked_add(run.range.start.since(mapping.range.start))?;
                let Some(other) = usize::try_from(offset).ok().and_then(|at| self.file.get(at..)) else { continue };
                let n = other.len().min(run.bytes.len());
                if run.bytes[..n] != other[..n] {
                    return None;
                }
                compared += n;
            }
        }
        Some(compared)
    }

    /// Number of words in the dumped dynamic section that follow from the file. `None` if any does not.
    fn dynamic_words(&self, target: &dyn Target) -> Option<usize> {
        let Some(section) = self.segment(ph::PT_DYNAMIC) else { return Some(0) };
        let words = Words::read(target, AddrRange::sized(self.at(section.p_vaddr), section.p_filesz))?;
        let mut agreed = 0;
        for (vaddr, tag, value) in self.entries() {
            let (Some(own_tag), Some(own)) = (words.at(self.at(vaddr)), words.at(self.at(vaddr.wrapping_add(8))))
            else {
                continue;
            };
            // The dynamic linker leaves the address of its own list here for debuggers.
            if own_tag == tag && tag == dy::DT_DEBUG {
                continue;
            }
            let is_same = own == value || (value != 0 && own == value.wrapping_add(self.bias));
            if own_tag != tag || !is_same {
                return None;
            }
            agreed += usize::from(value != 0);
        }
        Some(agreed)
    }

    /// Number of relatively relocated words in dumped PT_GNU_RELRO pages. `None` if any is not what the file makes it.
    fn relative_words(&self, target: &dyn Target) -> Option<usize> {
        let Some(section) = self.segment(ph::PT_GNU_RELRO) else { return Some(0) };
        let words = Words::read(target, AddrRange::sized(self.at(section.p_vaddr), section.p_memsz))?;
        let mut agreed = 0;
        let mut check = |vaddr: u64, addend: u64| match words.at(self.at(vaddr)) {
            Some(word) if word == self.bias.wrapping_add(addend) => {
                agreed += 1;
                Some(())
            }
            Some(_) => None,
            None => Some(()),
        };
        let table = |at, size| self.bytes(self.dynamic(at)?, self.dynamic(size)?);
        for entry in table(dy::DT_RELA, dy::DT_RELASZ).unwrap_or_default().chunks_exact(RELA) {
            let (vaddr, info, addend) = (bytes::u64_at(entry, 0)?, bytes::u64_at(entry, 8)?, bytes::u64_at(entry, 16)?);
            if info as u32 == self.relative {
                check(vaddr, addend)?;
            }
        }
        // Here the addend is the word in the file.
        let mut check_packed = |vaddr: u64| match self.bytes(vaddr, 8).and_then(|w| bytes::u64_at(w, 0)) {
            Some(addend) => check(vaddr, addend),
            None => Some(()),
        };
        let mut next = 0u64;
        for entry in table(DT_RELR, DT_RELRSZ).unwrap_or_default().as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*entry);
            if entry & 1 == 0 {
                check_packed(entry)?;
                next = entry.wrapping_add(8);
            } else {
                for bit in (1..64).filter(|bit| entry >> bit & 1 == 1) {
                    check_packed(next.wrapping_add(8 * (bit - 1)))?;
                }
                next = next.wrapping_add(8 * 63);
            }
        }
        Some(agreed)
    }
}

/// Size in bytes of an `Elf64_Rela`.
const RELA: usize = 24;

/// Packed relative relocations (generic ABI, 2022): an even word is an address, an odd one a bitmap of the 63 words
/// that follow.
const DT_RELR: u64 = 36;
const DT_RELRSZ: u64 = 35;

/// A PT_LOAD, in pages.
#[derive(Clone, Copy)]
struct Segment {
    /// Index in the table of program headers.
    index: usize,
    offset: u64,
    vaddr: u64,
    /// Start of the next PT_LOAD. For the last one, the end of what comes from the file.
    next: u64,
}

impl Segment {
    fn all(programs: &[ph::ProgramHeader], page: u64) -> Vec<Segment> {
        let down = |v: u64| v - v % page;
        let loads = programs.iter().enumerate().filter(|(_, p)| p.p_type == ph::PT_LOAD && p.p_filesz > 0);
        let segment = |(index, p): (usize, &ph::ProgramHeader)| {
            let next = p.p_vaddr.checked_add(p.p_filesz)?.checked_next_multiple_of(page)?;
            Some(Segment { index, offset: down(p.p_offset), vaddr: down(p.p_vaddr), next })
        };
        let mut out: Vec<Segment> = loads.filter_map(segment).collect();
        out.sort_by_key(|s| s.vaddr);
        for i in 1..out.len() {
            let start = out[i].vaddr;
            let before = &mut out[i - 1];
            before.next = before.next.max(start);
        }
        out
    }

    /// Returns the load bias if the mapping shows a part of this segment. The mapping may continue to the next one,
    /// since the dynamic linker maps all of the file first and the other segments over it.
    fn bias(&self, mapping: &FileMapping) -> Option<u64> {
        let vaddr = self.vaddr.checked_add(mapping.offset.checked_sub(self.offset)?)?;
        let is_within = vaddr.checked_add(mapping.range.len())? <= self.next;
        is_within.then(|| mapping.range.start.offset_from(Addr::new(vaddr)).cast_unsigned())
    }
}

/// Returns the dumped bytes of `range`. `None` if some could not be read, since these prove nothing.
pub(super) fn readable<'a>(target: &'a dyn Target, range: AddrRange) -> Option<Vec<Run<'a>>> {
    let runs = target.dumped_runs(range);
    let read = runs.iter().map(|run| run.range.len()).saturating_sum();
    (read >= target.facts().space.dumped_in(range)).then_some(runs)
}

/// Dumped words of a range.
struct Words<'a>(Vec<Run<'a>>);

impl<'a> Words<'a> {
    fn read(target: &'a dyn Target, range: AddrRange) -> Option<Words<'a>> {
        readable(target, range).map(Words)
    }

    fn at(&self, addr: Addr) -> Option<u64> {
        let i = self.0.partition_point(|run| run.range.end <= addr);
        let run = self.0.get(i).filter(|run| run.range.contains(addr))?;
        bytes::u64_at(run.bytes, usize::try_from(addr.since(run.range.start)).ok()?)
    }
}
