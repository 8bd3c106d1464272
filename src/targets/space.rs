//! Mappings, the pieces of them that are there, and files: an address space without its bytes.

use std::ops::Range;
use std::sync::Arc;

use goblin::elf::program_header::{PF_R, PF_W, PF_X};

use crate::addr::{Addr, AddrRange, union};
use crate::range_map::{RangeMap, Ranged};

/// Access a mapping allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Perms {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// It may be run.
    pub exec: bool,
}

impl Perms {
    /// From the bits of ELF's `p_flags`.
    pub fn from_flags(flags: u32) -> Perms {
        Perms { read: flags & PF_R != 0, write: flags & PF_W != 0, exec: flags & PF_X != 0 }
    }

    /// The first three letters of a line in /proc/PID/maps.
    pub fn letters(self) -> String {
        let pick = |on: bool, c: char| if on { c } else { '-' };
        [pick(self.read, 'r'), pick(self.write, 'w'), pick(self.exec, 'x')].iter().collect()
    }
}

/// One mapping of the process, or what a producer wrote for one (PT_LOAD in a core).
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Addresses: of all of it, where only parts of it were written.
    pub range: AddrRange,
    /// Access.
    pub perms: Perms,
    /// Where the mapping begins that this is a part of; itself, where it was not cut.
    pub whole: Addr,
}

/// A mapping of a file (a line of NT_FILE in a core).
#[derive(Clone, Debug)]
pub struct FileMapping {
    /// Addresses.
    pub range: AddrRange,
    /// Where in the file the mapping begins, in bytes.
    pub offset: u64,
    /// Path, as the producer saw it.
    pub path: Arc<str>,
}

/// What the target holds of a run of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceState {
    /// It is mapped, and the producer left its bytes out.
    NotDumped,
    /// Its bytes should be in the file, but the file ends before them.
    Truncated,
    /// It is as in the file that is mapped there, so that a dump would leave it out, and it is in no sum of what is held. It can
    /// be read from this place on all the same: the process still runs.
    InFile(u64),
    /// Its bytes are there, from this place on ([`Target`](crate::targets::Target)): the
    /// offset in a core file.
    Dumped(u64),
}

impl PieceState {
    /// The place of its first byte, where it can be read.
    pub fn place(self) -> Option<u64> {
        match self {
            PieceState::Dumped(place) | PieceState::InFile(place) => Some(place),
            PieceState::NotDumped | PieceState::Truncated => None,
        }
    }

    /// Of overlapping pieces, the one that has bytes says more.
    pub(crate) fn rank(self) -> u8 {
        match self {
            PieceState::NotDumped => 0,
            PieceState::Truncated => 1,
            PieceState::InFile(_) => 2,
            PieceState::Dumped(_) => 3,
        }
    }
}

/// A run of addresses of one mapping and one state.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Addresses.
    pub range: AddrRange,
    /// Index into [`AddressSpace::mappings`] of the one that speaks for them.
    pub mapping: u32,
    /// Where the bytes are.
    pub state: PieceState,
}

impl Ranged for Piece {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// What a process has mapped.
#[derive(Clone, Default)]
pub struct AddressSpace {
    /// Mappings, in the order of the target.
    pub mappings: Vec<Mapping>,
    /// What is held of each mapped address; sorted, disjoint.
    pub pieces: RangeMap<Piece>,
    /// Mapped files, by address as found.
    pub files: Vec<FileMapping>,
    /// What `files` covers, sorted and joined.
    listed: RangeMap<AddrRange>,
    /// Addresses whose bytes are scanned at another address.
    repeated: RangeMap<AddrRange>,
    /// For each piece, dumped bytes in all pieces before it.
    dumped_before: Vec<u64>,
}

impl AddressSpace {
    /// Of `mappings`, and of `pieces` with indices into them.
    pub fn new(mappings: Vec<Mapping>, pieces: RangeMap<Piece>) -> AddressSpace {
        let mut sum = 0u64;
        let dumped_before = pieces
            .iter()
            .map(|p| {
                let before = sum;
                if matches!(p.state, PieceState::Dumped(_)) {
                    sum += p.range.len();
                }
                before
            })
            .collect();
        let repeated = repeated(&pieces);
        AddressSpace { mappings, pieces, repeated, dumped_before, ..AddressSpace::default() }
    }

    /// The same with the files that are mapped.
    #[must_use]
    pub fn with_files(self, files: Vec<FileMapping>) -> AddressSpace {
        let listed = RangeMap::from_sorted(union(files.iter().map(|f| f.range).collect())).unwrap_or_default();
        AddressSpace { files, listed, ..self }
    }

    /// The mapping that speaks for `addr`.
    pub fn mapping_at(&self, addr: Addr) -> Option<&Mapping> {
        self.mappings.get(self.pieces.at(addr)?.mapping as usize)
    }

    /// Whether a file is listed at `addr`.
    pub fn is_listed(&self, addr: Addr) -> bool {
        self.listed.at(addr).is_some()
    }

    /// Whether a file is listed anywhere in `range`.
    pub(crate) fn is_listed_in(&self, range: AddrRange) -> bool {
        self.listed.overlapping(range).next().is_some()
    }

    /// Addresses whose bytes another address has too.
    pub(crate) fn repeated(&self) -> &RangeMap<AddrRange> {
        &self.repeated
    }

    fn dumped_below(&self, addr: Addr) -> u64 {
        let i = self.pieces.index_at_or_above(addr);
        match self.pieces.get(i) {
            Some(p) if p.range.start < addr && matches!(p.state, PieceState::Dumped(_)) => {
                self.dumped_before[i] + addr.since(p.range.start)
            }
            Some(_) => self.dumped_before[i],
            None => self.dumped_total(),
        }
    }

    /// Bytes of memory the target holds.
    pub fn dumped_total(&self) -> u64 {
        match (self.pieces.last(), self.dumped_before.last()) {
            (Some(p), Some(&before)) if matches!(p.state, PieceState::Dumped(_)) => before + p.range.len(),
            (_, Some(&before)) => before,
            _ => 0,
        }
    }

    /// Bytes of `range` that the target holds.
    pub fn dumped_in(&self, range: AddrRange) -> u64 {
        self.dumped_below(range.end) - self.dumped_below(range.start)
    }

    /// The places of the dumped bytes of `range`.
    pub(crate) fn places(&self, range: AddrRange) -> impl Iterator<Item = Range<u64>> {
        self.pieces.overlapping(range).filter_map(move |p| {
            let part = p.range.intersect(&range)?;
            let PieceState::Dumped(place) = p.state else { return None };
            let from = place.saturating_add(part.start.since(p.range.start));
            Some(from..from.saturating_add(part.len()))
        })
    }

    /// What is left of `range` without the addresses whose bytes are scanned at others.
    pub(crate) fn first_of(&self, range: AddrRange) -> impl Iterator<Item = AddrRange> {
        let ends = AddrRange::new(range.end, range.end);
        let mut at = range.start;
        self.repeated.overlapping(range).copied().chain([ends]).filter_map(move |again| {
            let first = AddrRange::new(at, again.start.min(range.end));
            at = at.max(again.end);
            (!first.is_empty()).then_some(first)
        })
    }
}

/// Where pieces stand on places that a piece before them, by place and then by address, has
/// too: what looks through all bytes looks at the first only, so that it ends with those of
/// the file.
fn repeated(pieces: &RangeMap<Piece>) -> RangeMap<AddrRange> {
    let mut dumped: Vec<(u64, AddrRange)> = pieces
        .iter()
        .filter_map(|p| match p.state {
            PieceState::Dumped(offset) => Some((offset, p.range)),
            _ => None,
        })
        .collect();
    dumped.sort_unstable();
    let mut had = 0;
    let mut found = Vec::new();
    for (offset, range) in dumped {
        if offset < had {
            found.push(AddrRange::sized(range.start, range.len().min(had - offset)));
        }
        had = had.max(offset.saturating_add(range.len()));
    }
    found.sort_unstable();
    RangeMap::from_sorted(found).unwrap_or_default()
}
