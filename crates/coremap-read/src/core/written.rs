//! The layout of a core file to write: its segments, and the file offset of each part.
//!
//! A mapping that is written in part is cut into runs that are dumped and runs that are not. `p_paddr` then contains
//! the start of the original mapping, so that the map read back has the same mappings. This field has no meaning in a
//! core, and is 0 from every other producer.

use goblin::elf::program_header::{PF_R, PF_W, PF_X};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::targets::{AddressSpace, Perms, Piece};

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
    /// Alignment of notes and their parts.
    pub(super) const NOTE: u64 = 4;
}

/// An ELF header (Elf64_Ehdr).
pub type Header = [u8; HEADER];

/// Length of an ELF header in bytes.
pub const HEADER: usize = elf64::EHDR as usize;

/// The part of a piece of the address space that is written.
pub enum WriteMode<'a> {
    Nothing,
    /// The whole piece. Its bytes start at this offset.
    All(u64),
    /// These ranges of the piece, sorted and disjoint. The piece's bytes start at this offset.
    Within(u64, &'a [AddrRange]),
}

/// A PT_LOAD.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub range: AddrRange,
    pub(crate) flags: u32,
    /// Start of the mapping it was cut from.
    pub(crate) mapping: Addr,
    /// Place of its bytes in the source. `None` if it is not dumped.
    pub source: Option<u64>,
}

/// `p_flags` for access rights.
pub(crate) fn flags(perms: Perms) -> u32 {
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    bit(perms.read, PF_R) | bit(perms.write, PF_W) | bit(perms.exec, PF_X)
}

/// Cuts the pieces of `space` as `write_mode` says. `of` returns the flags and the start of the mapping with this
/// number.
pub fn split_loads<'a>(
    space: &AddressSpace,
    of: impl Fn(u32) -> (u32, Addr),
    write_mode: impl Fn(&Piece) -> WriteMode<'a>,
) -> Vec<Load> {
    let mut out: Vec<Load> = Vec::new();
    for piece in space.pieces.iter() {
        let (flags, mapping) = of(piece.mapping);
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
            _ => out.push(Load { range, flags, mapping, source }),
        };
        let (base, keep) = match write_mode(piece) {
            WriteMode::Nothing => {
                push(piece.range, None);
                continue;
            }
            WriteMode::All(place) => {
                push(piece.range, Some(place));
                continue;
            }
            WriteMode::Within(place, keep) => (place, keep),
        };
        let mut at = piece.range.start;
        let first = keep.partition_point(|k| k.end <= piece.range.start);
        for kept in keep.get(first..).unwrap_or_default().iter().take_while(|k| k.start < piece.range.end) {
            let Some(kept) = kept.intersect(&piece.range) else { continue };
            for kept in space.first_of(kept) {
                push(AddrRange::new(at, kept.start), None);
                push(kept, Some(base.saturating_add(kept.start.since(piece.range.start))));
                at = kept.end;
            }
        }
        push(AddrRange::new(at, piece.range.end), None);
    }
    out
}

/// The layout of a file.
pub struct Layout {
    /// The start of the file: headers and notes.
    pub head: Vec<u8>,
    /// File offset of each load's bytes.
    pub offsets: Vec<u64>,
    /// File offset of the end of the last load.
    pub end: u64,
}

/// Lays out a core with `notes`. If `tail` is not 0, a second note segment of that many bytes follows the memory.
pub fn layout_core(mut header: Header, notes: &[u8], loads: &[Load], tail: u64) -> Layout {
    let count = loads.len() + 1 + usize::from(tail > 0);
    let extended = count >= usize::from(elf64::PN_XNUM);
    let table = elf64::EHDR + elf64::PHDR * count as u64;
    let notes_at = table + if extended { elf64::SHDR } else { 0 };
    let first = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
    let mut put = |at: usize, bytes: &[u8]| {
        header.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    put(elf64::E_PHOFF, &elf64::EHDR.to_le_bytes());
    put(elf64::E_SHOFF, &(if extended { table } else { 0 }).to_le_bytes());
    let phnum = if extended { elf64::PN_XNUM } else { count as u16 };
    put(elf64::E_PHNUM, &phnum.to_le_bytes());
    put(elf64::E_SHNUM, &u16::from(extended).to_le_bytes());
    put(elf64::E_SHSTRNDX, &0u16.to_le_bytes());
    let mut head = Vec::with_capacity(notes_at as usize + notes.len());
    head.extend_from_slice(&header);
    head.extend(note_segment(notes_at, notes.len() as u64));
    let mut offsets = Vec::with_capacity(loads.len());
    let (mut offset, mut end) = (first, notes_at + notes.len() as u64);
    for load in loads {
        let len = load.range.len();
        let file_size = if load.source.is_some() { len } else { 0 };
        head.extend(program([
            u64::from(elf64::PT_LOAD) | u64::from(load.flags) << 32,
            offset,
            load.range.start.get(),
            load.mapping.get(),
            file_size,
            len,
            PAGE,
        ]));
        offsets.push(offset);
        if load.source.is_some() {
            end = offset + len;
            offset = end.next_multiple_of(PAGE);
        }
    }
    end = end.next_multiple_of(elf64::NOTE);
    if tail > 0 {
        head.extend(note_segment(end, tail));
    }
    if extended {
        let mut section = [0u8; elf64::SHDR as usize];
        let count = (count as u32).to_le_bytes();
        section.iter_mut().skip(elf64::SH_INFO).zip(count).for_each(|(to, from)| *to = from);
        head.extend(section);
    }
    head.extend_from_slice(notes);
    Layout { head, offsets, end }
}

fn note_segment(at: u64, len: u64) -> impl Iterator<Item = u8> {
    program([u64::from(elf64::PT_NOTE), at, 0, 0, len, 0, elf64::NOTE])
}

/// An Elf64_Phdr: type and flags in one word, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align.
fn program(words: [u64; 7]) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u64::to_le_bytes)
}
