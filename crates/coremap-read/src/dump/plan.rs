//! Decides which bytes are written, and at which offsets.

use std::time::{SystemTime, UNIX_EPOCH};

use goblin::elf::header::{EM_AARCH64, EM_X86_64};

use crate::addr::AddrRange;
use crate::core::note_bytes;
use crate::core::own_notes;
use crate::core::written::{self, HEADER, Header, Layout, WriteMode};
use crate::dump::Dumped;
use crate::process::Process;
use crate::sums::SaturatingSum;
use crate::targets::dump_notes::{self, DumpNotes};
use crate::targets::{Arch, PieceState};

/// Which memory is written.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// Everything that the kernel would dump.
    Full {
        /// Additional pages of program files, which a dump leaves out otherwise. Sorted and disjoint.
        and: &'a [AddrRange],
        /// Whether all pages of program files are added.
        files: bool,
    },
    /// Only these ranges, which are sorted and disjoint.
    Only(&'a [AddrRange]),
}

/// A range of the process's bytes, and its position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset in the file.
    pub(super) at: u64,
    pub(super) len: u64,
    /// Offset in the target.
    pub(super) place: u64,
}

/// The layout of a core to write.
pub struct Plan {
    layout: Layout,
    parts: Vec<Part>,
    kept: u64,
    of: u64,
    segments: usize,
}

impl Plan {
    /// Plans a core. `kept_for` names the commands whose pages are written; it is empty for a full core.
    pub fn new(process: &Process, keep: Keep<'_>, kept_for: &[&str]) -> Plan {
        let facts = process.facts();
        let space = &facts.space;
        let of = |mapping: u32| {
            let mapping = space.mappings.get(mapping as usize);
            mapping.map_or_else(Default::default, |m| (written::flags(m.perms), m.whole))
        };
        // Memory that the program excludes from dumps (MADV_DONTDUMP): keys, and memory that would be of no use.
        let is_wanted = |range: AddrRange| {
            let known = facts.residence.as_ref().and_then(|residence| residence.mapping_at(range.start));
            !known.is_some_and(|known| known.flags.dont_dump)
        };
        let loads = written::split_loads(space, of, |piece| {
            let take = match (piece.state, keep) {
                (PieceState::Dumped(place), Keep::Full { .. }) => WriteMode::All(place),
                (PieceState::InFile(place), Keep::Full { files: true, .. }) => WriteMode::All(place),
                (PieceState::InFile(place), Keep::Full { and, .. }) => WriteMode::Within(place, and),
                (PieceState::Dumped(place) | PieceState::InFile(place), Keep::Only(these)) => {
                    WriteMode::Within(place, these)
                }
                (PieceState::NotDumped | PieceState::Truncated, _) => WriteMode::Nothing,
            };
            if is_wanted(piece.range) { take } else { WriteMode::Nothing }
        });
        let layout = written::layout_core(header(facts.arch), &notes(process, kept_for), &loads, own_notes::STOP_BYTES);
        let mut parts = Vec::new();
        let mut kept = 0;
        // If few pages are written, reading them costs less than finding out which of all pages are present.
        let extents = matches!(keep, Keep::Full { .. }).then(|| process.target().extents());
        for (load, &at) in loads.iter().zip(&layout.offsets) {
            let Some(place) = load.source else { continue };
            let len = load.range.len();
            kept += len;
            match extents {
                Some(extents) => parts.extend(extents.within(place..place.saturating_add(len)).map(|data| Part {
                    at: at + (data.start - place),
                    len: data.end - data.start,
                    place: data.start,
                })),
                None => parts.push(Part { at, len, place }),
            }
        }
        Plan { layout, parts, kept, of: space.dumped_total(), segments: loads.len() }
    }

    /// Returns the number of bytes copied from the process. Apart from notes, the file takes at most that much on disk.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).saturating_sum()
    }

    /// Headers and notes of the file.
    pub(super) fn head(&self) -> &[u8] {
        &self.layout.head
    }

    /// File offset where the memory ends and the last note begins.
    pub(super) fn end(&self) -> u64 {
        self.layout.end
    }

    /// Ranges to copy, by file offset.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Figures of the written core. `tail` is the length of its last note in bytes.
    pub(super) fn dumped(&self, tail: usize) -> Dumped {
        let size = self.layout.end + tail as u64;
        Dumped { kept: self.kept, of: self.of, segments: self.segments, size }
    }
}

fn header(arch: Arch) -> Header {
    let machine = match arch {
        Arch::X86_64 => EM_X86_64,
        Arch::Aarch64 => EM_AARCH64,
    };
    let mut out: Header = [0; HEADER];
    // ELF64, little endian, version 1, System V; ET_CORE.
    let begin = [&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0][..], &[0; 8], &[4, 0], &machine.to_le_bytes(), &[1, 0, 0, 0]];
    out.iter_mut().zip(begin.concat()).for_each(|(to, from)| *to = from);
    // e_ehsize, e_phentsize
    let sizes = [64u16, 56].map(u16::to_le_bytes);
    out.iter_mut().skip(52).zip(sizes.as_flattened()).for_each(|(to, from)| *to = *from);
    out
}

fn notes(process: &Process, kept_for: &[&str]) -> Vec<u8> {
    let unknown = DumpNotes::default();
    let notes = process.target().dump_notes().unwrap_or(&unknown);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut out = Vec::new();
    own_notes::add_made(
        &mut out,
        &dump_notes::Dumped {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kept: kept_for.iter().map(|&word| word.to_owned()).collect(),
            time: now.as_secs(),
            stop: None,
        },
    );
    note_bytes::of_process(&mut out, process.facts(), notes);
    out
}
