//! Targets: an address space, facts about its process, and access to its bytes.
//!
//! A core file is a target (`core::open::Core`), and so is a running process.
//! All modules above use a target and no file format, so another source of memory needs only another
//! implementation of [`Target`].
//!
//! | file | contents |
//! |---|---|
//! | `facts` | plain data, available once the target is open |
//! | `space` | mappings, their ranges and files, and which bytes are available |
//! | `arch` | machine types |
//! | `threads` | threads and their registers |
//! | `producer` | which program wrote the core, and what that means for reading it |
//! | `mapping_name` | meaning of mapping names |
//! | `residence` | resident memory, if the target has this information |
//! | `dump_notes` | data that a core of a running process stores besides memory |
//! | `extents` | which places were written; all others are zero |
//! | `byte_set` | a set of bytes, by address |
//! | `reads`, `budget` | record of reads by phase, failures, and the remaining budget |
//! | `deadline` | time limit of an analysis |
//!
//! This module depends neither on modules above it nor on `core`.

mod arch;
#[doc(hidden)]
pub mod budget;
pub(crate) mod deadline;

#[doc(hidden)]
pub mod byte_set;
#[doc(hidden)]
pub mod dump_notes;
#[doc(hidden)]
pub mod extents;
#[doc(hidden)]
pub mod facts;
#[doc(hidden)]
pub mod mapping_name;
#[doc(hidden)]
pub mod producer;
#[doc(hidden)]
pub mod reads;
#[doc(hidden)]
pub mod residence;
#[doc(hidden)]
pub mod space;
#[doc(hidden)]
pub mod threads;

use std::any::Any;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Duration;

use byteorder::{ByteOrder, LittleEndian};

pub use crate::range_map::{RangeMap, Ranged};
pub use arch::Arch;
pub use byte_set::ByteSet;
pub use dump_notes::{DumpNotes, DumpStop, Dumped, RegisterSet, ThreadNotes};
pub use extents::Extents;
pub use facts::{Facts, ProcessInfo, SecondView, SignalInfo, Truncation, at};
pub use mapping_name::MappingName;
pub use producer::{DiagPage, Producer};
pub use reads::{NameAt, ReadBytes, Reads, Script};
pub use residence::{
    CgroupFigures, Figure, FigureSet, Figures, FileId, KnownPages, MappingResidence, PageRuns, Pages, Residence,
    StatusFigures, VmFlags,
};
pub use space::{AddressSpace, FileMapping, Mapping, Perms, Piece, PieceState};
pub use threads::{CALL_ARGUMENTS, CpuTime, RecordedCall, Registers, Thread};

use crate::addr::{Addr, AddrRange, WORD};
use reads::Loss;

/// Tasks ahead of a scan that are requested from the disk. At 4 MiB each this exceeds what disks have in
/// flight; the kernel alone reads 128 KiB ahead.
pub(crate) const READ_AHEAD_TASKS: usize = 8;

/// A scan of less than one in this many of the dumped bytes requests its ranges one by one.
const FEW: u64 = 4;

/// An address space that coremap can read: facts about it, and its bytes.
///
/// Bytes are requested by *place*: the number that [`PieceState::Dumped`] gives to the first byte of a
/// piece, such as its offset in a core file. The target defines the meaning of places, with one rule: if
/// two pieces are adjacent by address and by place, one slice contains both. Places outside of all pieces
/// are never requested.
///
/// [`Reads`], not the target, records the purpose of reads, failures and the remaining budget. Readers
/// check it first; [`crate::memory`] and the methods of `dyn Target` do.
pub trait Target: Any + Send + Sync {
    /// Facts about the process. They don't change while the target lives.
    fn facts(&self) -> &Facts;

    /// The record of all reads.
    fn reads(&self) -> &Reads;

    /// The bytes at `place`, without a copy. `None` if only [`Target::copy`] can return them.
    fn slice(&self, place: Range<u64>) -> Option<&[u8]>;

    /// The bytes at `place`, for scans of the whole memory. A target without slices copies a range on first use
    /// and retains the copy. `None` if the bytes can't be read.
    fn cached_slice(&self, place: Range<u64>) -> Option<&[u8]> {
        self.slice(place)
    }

    /// Copies bytes from `place` on, without touching the memory that [`Target::slice`] returns. For samples of
    /// large memory. Returns the number of bytes; 0 at the end of the target.
    ///
    /// # Errors
    /// The system's error, if the bytes can't be read.
    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.slice(place..place.saturating_add(out.len() as u64)).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(out.len())
    }

    /// Reads one word at each of many scattered places. `None` for a word that can't be read. A running process
    /// returns them in a few system calls.
    fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        let word = |place: &u64| {
            let mut word = [0; 8];
            let n = self.copy(*place, &mut word).ok()?;
            (n == word.len()).then(|| LittleEndian::read_u64(&word))
        };
        places.iter().map(word).collect()
    }

    /// The places that contain data. All others are zero and skipped by scans. May be computed on first use.
    fn extents(&self) -> &Extents;

    /// Hint: all bytes are about to be scanned. A running process is copied first, and goes on.
    fn expect_scan(&self) {}

    /// Hint: the bytes at these places are read next.
    fn fetch(&self, _places: Vec<Range<u64>>) {}

    /// Hint: a scan reaches the bytes at this place soon.
    fn fetch_soon(&self, _place: Range<u64>) {}

    /// Hint: the bytes at this place were read, and all are zero. They need not stay in memory.
    fn forget(&self, _place: Range<u64>) {}

    /// Hint: this many bytes are about to be read repeatedly in random order, so caching pays off.
    fn expect_random(&self, _bytes: u64) {}

    /// Data that a core of this process stores besides its memory. `None` unless it was opened to be dumped.
    fn dump_notes(&self) -> Option<&DumpNotes> {
        None
    }

    /// Opens the file that a mapping shows, whatever its path leads to now. `None` if the target has only its path.
    fn mapped_file(&self, _mapping: AddrRange) -> Option<File> {
        None
    }

    /// Ends the consistent part of reading: all related structures are read, and only samples follow. A stopped
    /// process may resume.
    fn release(&self) {}

    /// Several answers must come from the same moment, so [`Target::release`] has no effect until
    /// [`Target::finish`].
    fn pin(&self) {}

    /// Why bytes of the target's file were read as zero, each reason once.
    fn file_losses(&self) -> Vec<FileLoss> {
        Vec::new()
    }

    /// Ends reading for this answer; a stopped process resumes. Later reads see it running. Returns how the
    /// reading went, or `None` if this is not a running process.
    fn finish(&self) -> Option<StopReport> {
        None
    }
}

/// Why bytes of a file were read as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLoss {
    /// The file is shorter than when it was opened.
    Shrank,
    /// Bytes inside the file could not be read: the disk or the network failed.
    Unreadable,
}

/// How a running process was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopReport {
    /// How long it was stopped.
    pub lasted: Duration,
    /// Whether it was resumed before everything was read, because its time limit was reached.
    pub timed_out: bool,
    /// Whether it was never stopped, as requested.
    pub never_stopped: bool,
    /// Whether some of its memory could not be read, because it ended or unmapped it.
    pub lost: bool,
    /// Bytes read from it.
    pub fetched: u64,
}

/// A run of memory whose bytes the target has.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Addresses.
    pub range: AddrRange,
    /// Place of its first byte; see [`Target`].
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl dyn Target {
    /// Hint: the dumped bytes of `ranges` are read next. A disk can then fetch them in parallel and in file
    /// order. Ignored beyond `limits::MAX_READ_AHEAD`.
    pub fn expect(&self, ranges: impl Iterator<Item = AddrRange>) {
        self.fetch(ranges.flat_map(|range| self.facts().space.places(range)).collect());
    }

    /// Hint: so many bytes are about to be scanned. Returns `false` if they are few, which should be requested range by
    /// range: if the kernel expects a scan, it reads megabytes past the end of each range.
    pub(crate) fn expect_scan_of(&self, bytes: u64) -> bool {
        let many = bytes >= self.facts().space.dumped_total() / FEW;
        if many {
            self.expect_scan();
        }
        many
    }

    /// Hint: a scan reaches the dumped bytes of `range` soon.
    pub fn expect_soon(&self, range: AddrRange) {
        for data in self.facts().space.places(range).flat_map(|place| self.extents().within(place)) {
            self.fetch_soon(data);
        }
    }

    /// Copies the dumped bytes of `range`, up to the first unreadable one.
    ///
    /// For samples of large memory: touching a mapped page brings up to 2 MiB around it into this program, if
    /// the page cache has it.
    #[doc(hidden)]
    pub fn copied(&self, range: AddrRange) -> Vec<u8> {
        let Some(place) = self.facts().space.places(range).next() else { return Vec::new() };
        if self.reads().refuses(range.start, range.len()).is_some() {
            return Vec::new();
        }
        let mut out = vec![0; (place.end - place.start) as usize];
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.copy(place.start.saturating_add(done as u64), rest) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) => {
                    self.reads().lose(range.start, Loss::Failed);
                    break;
                }
            }
        }
        out.truncate(done);
        out
    }

    /// Copies the dumped bytes at `addr`, like `copied`. For a look at the start of many mappings, few of which
    /// match. `None` if they can't be read.
    pub(crate) fn peek<const N: usize>(&self, addr: Addr) -> Option<[u8; N]> {
        let bytes = self.copied(AddrRange::sized(addr, N as u64)).try_into().ok()?;
        self.reads().note_run(addr, N as u64);
        Some(bytes)
    }

    /// Copies the dumped words at `addrs`, like `peek`, in one batch.
    pub(crate) fn peek_words(&self, addrs: &[Addr]) -> Vec<Option<u64>> {
        let mut out = vec![None; addrs.len()];
        let wanted = |&(_, addr): &(usize, Addr)| self.reads().refuses(addr, WORD).is_none();
        let place = |(i, addr): (usize, Addr)| {
            let place = self.facts().space.places(AddrRange::sized(addr, WORD)).next()?;
            (place.end - place.start == WORD).then_some((i, addr, place.start))
        };
        let asked: Vec<_> = addrs.iter().copied().enumerate().filter(wanted).filter_map(place).collect();
        let places: Vec<u64> = asked.iter().map(|&(_, _, place)| place).collect();
        for ((i, addr, _), word) in asked.into_iter().zip(self.gather(&places)) {
            self.reads().note_run(addr, WORD);
            if let Some(slot) = out.get_mut(i) {
                *slot = word;
            }
        }
        out
    }

    /// Runs of available memory inside `range`, with their bytes. Each place appears once, even if several
    /// mappings share it. Neighbours that are contiguous in place too are merged. Unreadable runs are skipped,
    /// so that the sum may be below [`AddressSpace::dumped_in`].
    pub fn dumped_runs(&self, range: AddrRange) -> Vec<Run<'_>> {
        let space = &self.facts().space;
        let mut out: Vec<(AddrRange, u64)> = Vec::new();
        for p in space.pieces.overlapping(range) {
            let Some(part) = p.range.intersect(&range) else { continue };
            let PieceState::Dumped(base) = p.state else { continue };
            for part in space.first_of(part) {
                let offset = base.saturating_add(part.start.since(p.range.start));
                match out.last_mut() {
                    Some((last, at)) if last.end == part.start && *at + last.len() == offset => last.end = part.end,
                    _ => out.push((part, offset)),
                }
            }
        }
        let with_bytes = |(range, offset): (AddrRange, u64)| {
            if self.reads().refuses(range.start, range.len()).is_some() {
                return None;
            }
            let bytes = self.cached_slice(offset..offset.saturating_add(range.len()));
            if bytes.is_none() {
                self.reads().lose(range.start, Loss::Failed);
            }
            Some(Run { range, offset, bytes: bytes? })
        };
        out.into_iter().filter_map(with_bytes).collect()
    }
}
