//! Opening a core: plain files are mapped, packed ones and standard input are
//! inflated to an unlinked temporary file first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use crate::addr::{Addr, AddrRange, union};
use crate::core::budget::Allowed;
use crate::core::elf::{self, Arch, HeaderError, Piece, PieceState, Segment, Truncation};
use crate::core::extents::Extents;
use crate::core::inflate::{self, InflateError, Inflated, Packing};
use crate::core::mapped::MappedFile;
use crate::core::notes::{self, Notes};
use crate::core::producer::{self, DiagPage, Producer};
use crate::core::readahead;
use crate::core::reads::{Loss, Reads};
use crate::diag::Diagnostics;
use crate::progress::Progress;
use crate::range_map::RangeMap;

/// Why a core could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file can't be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// As given.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory, device or socket.
    #[error("{path}: {what}, not a file")]
    NotAFile {
        /// As given.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// No bytes.
    #[error("{path}: empty file")]
    Empty {
        /// As given.
        path: String,
    },
    /// The packed stream can't be unpacked to the temporary file.
    #[error("{path}: unpacking: {source}")]
    Inflate {
        /// As given.
        path: String,
        /// The reason (a full disk in $TMPDIR, say).
        source: InflateError,
    },
    /// Not a core that can be read.
    #[error("{path}: {source}")]
    Header {
        /// As given.
        path: String,
        /// What it is instead.
        source: HeaderError,
    },
}

/// An opened core file.
pub struct Core {
    /// Path as given, `-` for standard input.
    pub path: String,
    /// How it was packed, if it was.
    pub packing: Option<Packing>,
    /// Size of the (unpacked) core file in bytes.
    pub size: u64,
    /// Machine.
    pub arch: Arch,
    /// Program that wrote it.
    pub producer: Producer,
    /// PT_LOADs in header order.
    pub segments: Vec<Segment>,
    /// What the file holds of each mapped address; sorted, disjoint.
    pub pieces: RangeMap<Piece>,
    /// File offset and size of each PT_NOTE.
    pub note_segments: Vec<(u64, u64)>,
    /// Which reads failed, and which pages were read where that is recorded.
    pub reads: Reads,
    /// Notes.
    pub notes: Notes,
    /// createdump's diagnostic page, if there.
    pub diag_page: Option<DiagPage>,
    /// What is missing at the end of the file.
    pub truncation: Option<Truncation>,
    /// Which parts of the file hold data; asked for by scans only.
    extents: std::sync::OnceLock<Extents>,
    /// Addresses whose bytes of the file are scanned at another address.
    repeated: RangeMap<AddrRange>,
    /// For each piece, dumped bytes in all pieces before it.
    dumped_before: Vec<u64>,
    /// What NT_FILE lists, sorted and joined.
    listed: RangeMap<AddrRange>,
    bytes: MappedFile,
    file: File,
}

impl Core {
    /// Open the core at `path` (`-`: standard input).
    ///
    /// # Errors
    /// [`OpenError`] where there is no core to read. A cut or damaged core
    /// opens, with diagnostics.
    pub fn open(path: &Path, diag: &Diagnostics, progress: &Progress) -> Result<Core, OpenError> {
        Core::open_with(path, Reads::default(), Allowed::default(), diag, progress)
    }

    /// The same, with a record of reads that headers and notes count in, and what the answer
    /// may take.
    pub(crate) fn open_with(
        path: &Path,
        reads: Reads,
        allowed: Allowed,
        diag: &Diagnostics,
        progress: &Progress,
    ) -> Result<Core, OpenError> {
        let name = path.to_string_lossy().into_owned();
        let io_error = |source| OpenError::Io { path: name.clone(), source };
        let unpack_error = |source| OpenError::Inflate { path: name.clone(), source };
        if path.as_os_str() == "-" {
            let input = io::stdin().lock();
            let out = inflate::to_temporary_file(input, None, allowed.memory, progress).map_err(unpack_error)?;
            return Core::from_unpacked(name, out, reads, allowed, diag);
        }
        let meta = std::fs::metadata(path).map_err(io_error)?;
        if !meta.is_file() {
            let what = if meta.is_dir() { "a directory" } else { "a device or pipe (a core on standard input is `-`)" };
            return Err(OpenError::NotAFile { path: name, what });
        }
        let file = File::open(path).map_err(io_error)?;
        let mut head = Vec::new();
        (&file).take(16).read_to_end(&mut head).map_err(io_error)?;
        if Packing::detect(&head).is_none() {
            return Core::from_file(name, file, None, &[], reads, allowed, diag);
        }
        (&file).seek(SeekFrom::Start(0)).map_err(io_error)?;
        progress.start(meta.len());
        let out = inflate::to_temporary_file(&file, Some(&file), allowed.memory, progress).map_err(unpack_error)?;
        Core::from_unpacked(name, out, reads, allowed, diag)
    }

    fn from_unpacked(
        path: String,
        out: Inflated,
        reads: Reads,
        allowed: Allowed,
        diag: &Diagnostics,
    ) -> Result<Core, OpenError> {
        if let Some(reason) = out.broken {
            diag.partial("inflate", format!("the packed stream breaks off: {reason}"));
        }
        if out.trailing {
            diag.note("trailing", "behind the packed core the file goes on with bytes that are not packed: left out");
        }
        Core::from_file(path, out.file, out.packing, &out.holes, reads, allowed, diag)
    }

    fn from_file(
        path: String,
        file: File,
        packing: Option<Packing>,
        holes: &[Range<u64>],
        reads: Reads,
        allowed: Allowed,
        diag: &Diagnostics,
    ) -> Result<Core, OpenError> {
        let size = file.metadata().map_err(|source| OpenError::Io { path: path.clone(), source })?.len();
        if size == 0 {
            return Err(match packing {
                Some(_) => {
                    let nothing = "nothing comes out of it: is it cut off?";
                    let source = InflateError::Input(io::Error::new(io::ErrorKind::UnexpectedEof, nothing));
                    OpenError::Inflate { path, source }
                }
                None => OpenError::Empty { path },
            });
        }
        let bytes =
            MappedFile::with_holes(&file, holes).map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let reads = reads.within(size, allowed);
        let headers = elf::read_headers(&bytes, &reads, diag)
            .map_err(|source| OpenError::Header { path: path.clone(), source })?;
        let pieces = elf::pieces(&headers.segments, diag);
        let repeated = elf::repeated(&pieces, diag);
        let notes = notes::read(&bytes, &headers.notes, headers.arch, &reads, diag);
        let diag_page = producer::diag_page(&bytes, &pieces, &reads, diag);
        let producer = producer::detect(&headers, &notes, diag_page.as_ref());
        if let Some(t) = &headers.truncation {
            diag.partial(
                "truncated",
                format!(
                    "the core is cut off: {} of {} bytes are there, {} bytes of memory are missing",
                    t.actual, t.expected, t.missing
                ),
            );
        }
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
        let listed = RangeMap::from_sorted(union(notes.files.iter().map(|f| f.range).collect())).unwrap_or_default();
        Ok(Core {
            path,
            packing,
            size,
            arch: headers.arch,
            producer,
            segments: headers.segments,
            pieces,
            note_segments: headers.notes,
            reads,
            notes,
            diag_page,
            truncation: headers.truncation,
            extents: std::sync::OnceLock::new(),
            repeated,
            dumped_before,
            listed,
            bytes,
            file,
        })
    }

    /// Whether `shrink` wrote it: pieces say in p_paddr which mapping they were cut
    /// from, which begins before them. Other producers leave p_paddr 0.
    pub fn is_shrunk(&self) -> bool {
        let cut = |s: &Segment| s.mapping != s.range.start;
        self.segments.iter().any(cut) && self.segments.iter().filter(|s| cut(s)).all(|s| s.mapping < s.range.start)
    }

    /// All bytes of the (unpacked) file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Tell the kernel that all bytes are about to be scanned.
    pub fn expect_scan(&self) {
        self.bytes.expect_scan();
    }

    /// Tell the kernel that the dumped bytes of `ranges` are read next, so that it
    /// fetches them side by side and in the file's order: each would be waited
    /// for alone otherwise. Beyond [`limits::MAX_READ_AHEAD`](crate::limits::MAX_READ_AHEAD)
    /// none is.
    pub fn expect(&self, ranges: impl Iterator<Item = AddrRange>) {
        readahead::fetch(&self.file, ranges.flat_map(|range| self.places(range)).collect());
    }

    /// Tell the kernel that a scan comes to the dumped bytes of `range` soon.
    pub fn expect_soon(&self, range: AddrRange) {
        for data in self.places(range).flat_map(|place| self.extents().within(place)) {
            readahead::fetch_soon(&self.file, data);
        }
    }

    /// Where in the file the dumped bytes of `range` are.
    fn places(&self, range: AddrRange) -> impl Iterator<Item = Range<u64>> {
        self.pieces.overlapping(range).filter_map(move |p| {
            let part = p.range.intersect(&range)?;
            let PieceState::Dumped(offset) = p.state else { return None };
            let from = offset.saturating_add(part.start.since(p.range.start));
            Some(from..from.saturating_add(part.len()))
        })
    }

    /// Which parts of the file hold data (found on first use).
    pub fn extents(&self) -> &Extents {
        self.extents.get_or_init(|| Extents::of(&self.file, self.size))
    }

    /// A copy of the dumped bytes of `range`, up to the first that can't be had.
    ///
    /// For samples of large memory: a page touched in the mapping brings up to 2 MiB beside
    /// it into our own, where the page cache has it.
    pub(crate) fn copied(&self, range: AddrRange) -> Vec<u8> {
        let Some(place) = self.places(range).next() else { return Vec::new() };
        if self.reads.refuses(range.start, range.len()).is_some() {
            return Vec::new();
        }
        let mut out = vec![0; (place.end - place.start) as usize];
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.file, rest, place.start.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.reads.lose(range.start, Loss::Failed);
                    break;
                }
            }
        }
        out.truncate(done);
        out
    }

    /// The dumped bytes at `addr`, copied as by [`Core::copied`]: for a look at the start of each of many mappings,
    /// most of which are not what is looked for. `None`: they can't be had so.
    pub(crate) fn peek<const N: usize>(&self, addr: Addr) -> Option<[u8; N]> {
        let bytes = self.copied(AddrRange::sized(addr, N as u64)).try_into().ok()?;
        self.reads.note(addr, N as u64);
        Some(bytes)
    }

    /// Whether NT_FILE lists a file at `addr`.
    pub fn is_listed(&self, addr: Addr) -> bool {
        self.listed.at(addr).is_some()
    }

    /// Where the mapping starts that a segment at `addr` is a piece of.
    pub(crate) fn mapping_at(&self, addr: Addr) -> Option<Addr> {
        let piece = self.pieces.at(addr)?;
        self.segments.get(piece.segment as usize).map(|s| s.mapping)
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

    /// Bytes of memory the core holds.
    pub fn dumped_total(&self) -> u64 {
        match (self.pieces.last(), self.dumped_before.last()) {
            (Some(p), Some(&before)) if matches!(p.state, PieceState::Dumped(_)) => before + p.range.len(),
            (_, Some(&before)) => before,
            _ => 0,
        }
    }

    /// Bytes of `range` that the core holds.
    pub fn dumped_in(&self, range: AddrRange) -> u64 {
        self.dumped_below(range.end) - self.dumped_below(range.start)
    }

    /// Runs of memory that the core holds inside `range`, with their bytes: each byte of
    /// the file once, whatever segments claim it ([`elf::repeated`]). Neighbours that
    /// follow each other in the file too are one run. One that can't be read is left out:
    /// together they have fewer bytes than [`Core::dumped_in`] then.
    pub fn dumped_runs(&self, range: AddrRange) -> Vec<Run<'_>> {
        let mut out: Vec<Run<'_>> = Vec::new();
        for p in self.pieces.overlapping(range) {
            let Some(part) = p.range.intersect(&range) else { continue };
            let PieceState::Dumped(base) = p.state else { continue };
            for part in self.first_of(part) {
                let offset = base + part.start.since(p.range.start);
                let end = offset + part.len();
                match out.last_mut() {
                    Some(last) if last.range.end == part.start && last.offset + last.range.len() == offset => {
                        last.range.end = part.end;
                        last.bytes = &self.bytes[last.offset as usize..end as usize];
                    }
                    _ => out.push(Run { range: part, offset, bytes: &self.bytes[offset as usize..end as usize] }),
                }
            }
        }
        out.retain(|run| self.reads.refuses(run.range.start, run.range.len()).is_none());
        out
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

/// A run of dumped memory.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Addresses.
    pub range: AddrRange,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}
