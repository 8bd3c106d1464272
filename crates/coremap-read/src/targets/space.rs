//! An address space without its bytes: mappings, the pieces of them that are available, and files.

use std::ops::Range;
use std::sync::Arc;

use goblin::elf::program_header::{PF_R, PF_W, PF_X};

use crate::addr::{Addr, AddrRange, union};
use crate::range_map::{RangeMap, Ranged};

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Perms {
    /// Whether it is readable.
    pub read: bool,
    /// Whether it is writable.
    pub write: bool,
    /// Whether it is executable.
    pub exec: bool,
}

impl Perms {
    /// Converts ELF's `p_flags`.
    pub fn from_flags(flags: u32) -> Perms {
        Perms { read: flags & PF_R != 0, write: flags & PF_W != 0, exec: flags & PF_X != 0 }
    }

    /// The access rights as in /proc/PID/maps: `rwx`, with `-` for a missing one.
    pub fn letters(self) -> String {
        let pick = |on: bool, c: char| if on { c } else { '-' };
        [pick(self.read, 'r'), pick(self.write, 'w'), pick(self.exec, 'x')].iter().collect()
    }
}

/// A mapping of the process (a PT_LOAD in a core).
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Address range. Covers the whole mapping even if only parts of it were written.
    pub range: AddrRange,
    /// Access.
    pub perms: Perms,
    /// Start of the mapping that this is a part of. Its own start if the mapping was not cut.
    pub whole: Addr,
}

/// A file mapping (an entry of NT_FILE in a core).
#[derive(Clone, Debug)]
pub struct FileMapping {
    /// Addresses.
    pub range: AddrRange,
    /// Offset of the mapping in the file, in bytes.
    pub offset: u64,
    /// Path of the file, as the producer saw it.
    pub path: Arc<str>,
}

/// State of a piece's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceState {
    /// Mapped, but the producer left its bytes out.
    NotDumped,
    /// The file ends before the bytes.
    Truncated,
    /// The bytes are unmodified bytes of the mapped file, readable from this place on, because the process still runs.
    /// A dump would leave them out, so no sum counts them.
    InFile(u64),
    /// The bytes are available from this place on ([`Target`](crate::targets::Target)). For a core, this is the file
    /// offset.
    Dumped(u64),
}

impl PieceState {
    /// The place of its first byte, if it is readable.
    pub fn place(self) -> Option<u64> {
        match self {
            PieceState::Dumped(place) | PieceState::InFile(place) => Some(place),
            PieceState::NotDumped | PieceState::Truncated => None,
        }
    }

    /// Precedence among overlapping pieces: one with bytes wins.
    pub(crate) fn rank(self) -> u8 {
        match self {
            PieceState::NotDumped => 0,
            PieceState::Truncated => 1,
            PieceState::InFile(_) => 2,
            PieceState::Dumped(_) => 3,
        }
    }
}

/// A range of addresses of one mapping, all in one state.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address range.
    pub range: AddrRange,
    /// Index of its mapping in [`AddressSpace::mappings`].
    pub mapping: u32,
    /// State of its bytes.
    pub state: PieceState,
}

impl Ranged for Piece {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// The mappings and files of a process.
#[derive(Clone, Default)]
pub struct AddressSpace {
    /// Mappings, in the order of the target.
    pub mappings: Vec<Mapping>,
    /// State of each mapped address; sorted, disjoint.
    pub pieces: RangeMap<Piece>,
    /// Mapped files, by address, in the order found.
    pub files: Vec<FileMapping>,
    /// Ranges covered by `files`, sorted and joined.
    listed: RangeMap<AddrRange>,
    /// Addresses whose bytes are scanned at another address.
    repeated: RangeMap<AddrRange>,
    /// For each piece, dumped bytes in all pieces before it.
    dumped_before: Vec<u64>,
}

impl AddressSpace {
    /// Creates an address space from `mappings` and from `pieces`, which have indices into them.
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

    /// Adds the mapped files.
    #[must_use]
    pub fn with_files(self, files: Vec<FileMapping>) -> AddressSpace {
        let listed = RangeMap::from_sorted(union(files.iter().map(|f| f.range).collect())).unwrap_or_default();
        AddressSpace { files, listed, ..self }
    }

    /// The mapping of the piece at `addr`.
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

    /// Addresses whose bytes are also at another address.
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

    /// Total bytes of memory in the target.
    pub fn dumped_total(&self) -> u64 {
        match (self.pieces.last(), self.dumped_before.last()) {
            (Some(p), Some(&before)) if matches!(p.state, PieceState::Dumped(_)) => before + p.range.len(),
            (_, Some(&before)) => before,
            _ => 0,
        }
    }

    /// Bytes of `range` in the target.
    pub fn dumped_in(&self, range: AddrRange) -> u64 {
        self.dumped_below(range.end) - self.dumped_below(range.start)
    }

    /// The places of the dumped bytes of `range`.
    #[doc(hidden)]
    pub fn places(&self, range: AddrRange) -> impl Iterator<Item = Range<u64>> {
        self.pieces.overlapping(range).filter_map(move |p| {
            let part = p.range.intersect(&range)?;
            let PieceState::Dumped(place) = p.state else { return None };
            let from = place.saturating_add(part.start.since(p.range.start));
            Some(from..from.saturating_add(part.len()))
        })
    }

    /// The parts of `range` whose bytes are not scanned at another address.
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

/// Pieces whose places occur in an earlier piece too, in order of place and then address. Scans visit only the first,
/// so that they end after the bytes of the file.
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
