//! A smaller core that still answers: headers, notes, and only those pages that
//! some commands read.
//!
//! Each PT_LOAD is cut into runs that are kept and runs that are not dumped;
//! `p_paddr`, which means nothing in a core and is 0 from every producer, then
//! holds the start of the mapping that a piece was cut from, so that the map
//! read back has the same mappings.

use std::io::{self, Seek, SeekFrom, Write};

use crate::addr::{Addr, AddrRange};
use crate::core::open::Core;
use crate::limits;
use crate::process::Process;
use crate::targets::PieceState;

/// Sizes and offsets of ELF64 structures (System V ABI).
mod elf64 {
    pub(super) const EHDR: u64 = 64;
    pub(super) const PHDR: u64 = 56;
    pub(super) const SHDR: u64 = 64;
    pub(super) const E_PHOFF: usize = 32;
    pub(super) const E_SHOFF: usize = 40;
    pub(super) const E_PHNUM: usize = 56;
    pub(super) const E_SHNUM: usize = 60;
    pub(super) const E_SHSTRNDX: usize = 62;
    pub(super) const SH_INFO: usize = 44;
    pub(super) const PT_LOAD: u32 = 1;
    pub(super) const PT_NOTE: u32 = 4;
    pub(super) const PN_XNUM: u16 = 0xffff;
    pub(super) const PAGE: u64 = 4096;
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shrunk {
    /// Bytes of memory kept.
    pub kept: u64,
    /// Bytes of memory that the original holds.
    pub of: u64,
    /// Segments written.
    pub segments: usize,
    /// Size of the file written.
    pub size: u64,
    /// Whether notes were left out: more bytes than any process has.
    pub notes_cut: bool,
}

struct Piece {
    range: AddrRange,
    flags: u32,
    /// Start of the mapping it was cut from.
    mapping: Addr,
    /// Where its bytes are in the original; `None`: not dumped.
    source: Option<u64>,
}

/// Write a core with the pages in `keep` (sorted, disjoint) to `out`.
///
/// # Errors
/// Those of writing, and `Unsupported` where the process was not read from a core file.
pub fn write<W: Write + Seek>(process: &Process, keep: &[AddrRange], out: &mut W) -> io::Result<Shrunk> {
    let core = process.core().ok_or(io::ErrorKind::Unsupported)?;
    let pieces = cut(core, keep);
    let (notes, notes_cut) = note_bytes(core);
    let count = pieces.len() + 1;
    let extended = count >= usize::from(elf64::PN_XNUM);
    let table = elf64::EHDR + elf64::PHDR * count as u64;
    let notes_at = table + if extended { elf64::SHDR } else { 0 };
    let mut offset = (notes_at + notes.len() as u64).next_multiple_of(elf64::PAGE);
    let mut header = core.bytes()[..elf64::EHDR as usize].to_vec();
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(elf64::E_PHOFF, &elf64::EHDR.to_le_bytes());
    put(elf64::E_SHOFF, &(if extended { table } else { 0 }).to_le_bytes());
    let phnum = if extended { elf64::PN_XNUM } else { count as u16 };
    put(elf64::E_PHNUM, &phnum.to_le_bytes());
    put(elf64::E_SHNUM, &u16::from(extended).to_le_bytes());
    put(elf64::E_SHSTRNDX, &0u16.to_le_bytes());
    out.write_all(&header)?;
    out.write_all(&program(elf64::PT_NOTE, 0, notes_at, Addr::NULL, Addr::NULL, notes.len() as u64, 0, 4))?;
    let mut shrunk =
        Shrunk { of: core.facts.space.dumped_total(), segments: pieces.len(), notes_cut, ..Shrunk::default() };
    let mut copies = Vec::new();
    for p in &pieces {
        let len = p.range.len();
        let file_size = if p.source.is_some() { len } else { 0 };
        out.write_all(&program(
            elf64::PT_LOAD,
            p.flags,
            offset,
            p.range.start,
            p.mapping,
            file_size,
            len,
            elf64::PAGE,
        ))?;
        if let Some(source) = p.source {
            copies.push((source, offset, len));
            shrunk.kept += len;
            offset = (offset + len).next_multiple_of(elf64::PAGE);
        }
    }
    if extended {
        let mut section = vec![0; elf64::SHDR as usize];
        section[elf64::SH_INFO..elf64::SH_INFO + 4].copy_from_slice(&(count as u32).to_le_bytes());
        out.write_all(&section)?;
    }
    out.write_all(&notes)?;
    for (source, to, len) in copies {
        out.seek(SeekFrom::Start(to))?;
        out.write_all(&core.bytes()[source as usize..(source + len) as usize])?;
        shrunk.size = to + len;
    }
    out.flush()?;
    Ok(shrunk)
}

/// All PT_NOTE bytes, one after the other, each padded to 4; and whether some are
/// left out. Found by the mutation run (COREMAP_SEED=43101167 of
/// dotnet31-createdump): segments that each claim the whole file.
fn note_bytes(core: &Core) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut cut = false;
    for &(offset, size) in &core.note_segments {
        let file = core.bytes();
        let start = (offset as usize).min(file.len());
        let end = start.saturating_add(size as usize).min(file.len());
        let room = limits::MAX_SHRUNK_NOTES.saturating_sub(out.len());
        cut |= end - start > room;
        out.extend_from_slice(&file[start..end.min(start + room)]);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    (out, cut)
}

/// Cut the core's pieces along the pages to keep.
fn cut(core: &Core, keep: &[AddrRange]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for p in core.facts.space.pieces.iter() {
        let segment = &core.segments[p.mapping as usize];
        let (flags, mapping) = (segment.flags, segment.mapping);
        let mut push = |range: AddrRange, source: Option<u64>| match out.last_mut() {
            Some(last)
                if last.range.end == range.start
                    && last.mapping == mapping
                    && last.source.is_none()
                    && source.is_none() =>
            {
                last.range.end = range.end;
            }
            _ if range.is_empty() => {}
            _ => out.push(Piece { range, flags, mapping, source }),
        };
        let PieceState::Dumped(base) = p.state else {
            push(p.range, None);
            continue;
        };
        let mut at = p.range.start;
        let first = keep.partition_point(|k| k.end <= p.range.start);
        for k in keep[first..].iter().take_while(|k| k.start < p.range.end) {
            let Some(kept) = k.intersect(&p.range) else { continue };
            for kept in core.facts.space.first_of(kept) {
                push(AddrRange::new(at, kept.start), None);
                push(kept, Some(base + kept.start.since(p.range.start)));
                at = kept.end;
            }
        }
        push(AddrRange::new(at, p.range.end), None);
    }
    out
}

#[allow(clippy::too_many_arguments, reason = "the fields of Elf64_Phdr, in its order")]
fn program(
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: Addr,
    paddr: Addr,
    file_size: u64,
    mem_size: u64,
    align: u64,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(elf64::PHDR as usize);
    out.extend(kind.to_le_bytes());
    out.extend(flags.to_le_bytes());
    for word in [offset, vaddr.get(), paddr.get(), file_size, mem_size, align] {
        out.extend(word.to_le_bytes());
    }
    out
}
