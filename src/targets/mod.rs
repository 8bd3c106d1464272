//! What is looked at, whatever it came from: an address space with what is known of its
//! process, and a way to its bytes.
//!
//! A core file is one ([`core::open::Core`](crate::core::open::Core)). All rooms above ask
//! a target and know no file format, so that a process that still runs, or a dump of another
//! system, takes no more than another `impl` of [`Target`].
//!
//! | file | holds |
//! |---|---|
//! | `facts` | plain data, known once the target is open |
//! | `space` | its mappings, pieces and files, and which of the bytes are there |
//! | `arch` | machines |
//! | `threads` | threads and their registers |
//! | `producer` | how it was made, and what that means for reading it |
//! | `mapping_name` | what the name of a mapping says that it is |
//! | `residence` | what of it was in RAM, where somebody tells |
//! | `dump_notes` | what of a process that runs its core holds beside memory |
//! | `extents` | which of its bytes are written, where all else is known to be zero |
//! | `byte_set` | a set of bytes, by address |
//! | `reads`, `budget` | what was read, for what, what was lost, and how much is left to spend |
//!
//! Nothing in here may depend on any room above it, nor on `core`.

mod arch;
pub(crate) mod budget;
pub mod byte_set;
pub mod dump_notes;
pub mod extents;
pub mod facts;
pub mod mapping_name;
pub mod producer;
pub mod reads;
pub mod residence;
pub mod space;
pub mod threads;

use std::any::Any;
use std::io;
use std::ops::Range;
use std::time::Duration;

use byteorder::{ByteOrder, LittleEndian};

pub use arch::Arch;
pub use dump_notes::DumpNotes;
pub use extents::Extents;
pub use facts::{Facts, ProcessInfo, SecondView, SignalInfo, Truncation, at};
pub use mapping_name::MappingName;
pub use producer::{DiagPage, Producer};
pub use reads::Reads;
pub use residence::Residence;
pub use space::{AddressSpace, FileMapping, Mapping, Perms, Piece, PieceState};
pub use threads::{Registers, Thread};

use crate::addr::{Addr, AddrRange, WORD};
use reads::Loss;

/// So many tasks before a scan comes to one, it asks for it. At 4 MiB each that is
/// more than disks have under way; the kernel by itself reads 128 KiB ahead.
pub(crate) const AHEAD: usize = 8;

/// An address space that can be looked at: what is known of it, and its bytes.
///
/// Bytes are asked for by *place*: the number that [`PieceState::Dumped`] gives to the first
/// byte of a piece, such as its offset in a core file. What a place means is the target's own
/// affair, but for this: where one piece ends at the address and at the place at which the
/// next begins, both lie in one slice. Places that lie in no piece are not asked for.
///
/// Which read is for what, which failed and how much may be spent is kept by [`Reads`] and
/// not by the target: whoever reads asks there first ([`crate::memory`] and the methods of
/// `dyn Target` do).
pub trait Target: Any + Send + Sync {
    /// What is known of it. It stays the same as long as the target lives.
    fn facts(&self) -> &Facts;

    /// The record of all reads.
    fn reads(&self) -> &Reads;

    /// The bytes at a place, without a copy; `None` where they can be had by
    /// [`Target::copy`] only.
    fn slice(&self, place: Range<u64>) -> Option<&[u8]>;

    /// The same for scans, which look at all there is: a target that has no slices copies a
    /// piece when it is first asked for and keeps the copy. `None`: the bytes can't be had.
    fn kept(&self, place: Range<u64>) -> Option<&[u8]> {
        self.slice(place)
    }

    /// Copy bytes from a place on, without a touch of what [`Target::slice`] would give: for
    /// samples of large memory. Returns how many; 0 where the target ends.
    ///
    /// # Errors
    /// Those of the system, where the bytes can't be read.
    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.slice(place..place.saturating_add(out.len() as u64)).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(out.len())
    }

    /// The words at many places that lie far apart, each in one piece; `None` for one that can't be had. A process that runs gives
    /// them in a few system calls.
    fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        let word = |place: &u64| {
            let mut word = [0; 8];
            let n = self.copy(*place, &mut word).ok()?;
            (n == word.len()).then(|| LittleEndian::read_u64(&word))
        };
        places.iter().map(word).collect()
    }

    /// Which places hold something; all others are zero, and scans pass over them. It may be
    /// found on first use.
    fn extents(&self) -> &Extents;

    /// All bytes are about to be scanned.
    fn expect_scan(&self) {}

    /// The bytes at these places are read next.
    fn fetch(&self, _places: Vec<Range<u64>>) {}

    /// A scan comes to the bytes at this place soon.
    fn fetch_soon(&self, _place: Range<u64>) {}

    /// So many bytes are about to be read again and again, in no order: it is worth to keep them.
    fn expect_random(&self, _bytes: u64) {}

    /// What a core of it is to hold beside its memory; `None`: it was not opened to be dumped.
    fn dump_notes(&self) -> Option<&DumpNotes> {
        None
    }

    /// Structures that belong together are read. What is still to be read are samples, which may be of different moments: a process
    /// that stands still goes on.
    fn let_go(&self) {}

    /// More than one answer is asked for, and all are to be of one moment: [`Target::let_go`] waits for [`Target::finish`].
    fn hold(&self) {}

    /// No more is read for this answer: a process that stands still for it goes on. What follows is read while it runs. How
    /// that went; `None`: it is no process that runs.
    fn finish(&self) -> Option<Stood> {
        None
    }
}

/// How a process that runs was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stood {
    /// How long it stood still.
    pub lasted: Duration,
    /// Whether it was let go before all was read, as that was all the time it was given.
    pub timed_out: bool,
    /// Whether it ran all the while, as that was asked for.
    pub ran: bool,
    /// Whether some of its memory could not be read: it ended, or gave it back.
    pub lost: bool,
    /// Bytes that were read of it.
    pub fetched: u64,
}

/// A run of memory that the target holds.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Addresses.
    pub range: AddrRange,
    /// Place of its first byte ([`Target`]).
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl dyn Target {
    /// Tell the target that the dumped bytes of `ranges` are read next, so that a disk
    /// fetches them side by side and in the file's order: each would be waited for alone
    /// otherwise. Beyond [`limits::MAX_READ_AHEAD`](crate::limits::MAX_READ_AHEAD) none is.
    pub fn expect(&self, ranges: impl Iterator<Item = AddrRange>) {
        self.fetch(ranges.flat_map(|range| self.facts().space.places(range)).collect());
    }

    /// Tell the target that a scan comes to the dumped bytes of `range` soon.
    pub fn expect_soon(&self, range: AddrRange) {
        for data in self.facts().space.places(range).flat_map(|place| self.extents().within(place)) {
            self.fetch_soon(data);
        }
    }

    /// A copy of the dumped bytes of `range`, up to the first that can't be had.
    ///
    /// For samples of large memory: a page touched in the mapping brings up to 2 MiB beside
    /// it into our own, where the page cache has it.
    pub(crate) fn copied(&self, range: AddrRange) -> Vec<u8> {
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

    /// The dumped bytes at `addr`, copied as by `copied`: for a look at the start of each of many mappings,
    /// most of which are not what is looked for. `None`: they can't be had so.
    pub(crate) fn peek<const N: usize>(&self, addr: Addr) -> Option<[u8; N]> {
        let bytes = self.copied(AddrRange::sized(addr, N as u64)).try_into().ok()?;
        self.reads().note_run(addr, N as u64);
        Some(bytes)
    }

    /// The dumped words at `addrs`, as by `peek`, all of them together.
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

    /// Runs of memory that the target holds inside `range`, with their bytes: each of its
    /// places once, whatever pieces claim it. Neighbours that
    /// follow each other in place too are one run. One that can't be read is left out:
    /// together they have fewer bytes than [`AddressSpace::dumped_in`] then.
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
            let bytes = self.kept(offset..offset.saturating_add(range.len()));
            if bytes.is_none() {
                self.reads().lose(range.start, Loss::Failed);
            }
            Some(Run { range, offset, bytes: bytes? })
        };
        out.into_iter().filter_map(with_bytes).collect()
    }
}
