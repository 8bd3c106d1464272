//! Opening a core: plain files are mapped, compressed ones and standard input are
//! inflated to an unlinked temporary file first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::core::elf::{self, HeaderError, Segment};
use crate::core::inflate::{self, Compression, InflateError, Inflated};
use crate::core::mapped::MappedFile;
use crate::core::notes::{self, Notes};
use crate::core::producer;
use crate::diag::{Diagnostics, WarningCode};
use crate::host::{self, FileAt};
use crate::progress::Progress;
use crate::targets::budget::Allowed;
use crate::targets::{AddressSpace, Extents, Facts, Mapping, Reads, Target};

/// Why a core could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The compressed stream can't be decompressed to the temporary file.
    #[error("{path}: can't be unpacked: {source}")]
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

/// An opened core file: a [`Target`] whose places are offsets in the (decompressed) file.
pub struct Core {
    /// What is known of the process and of the file.
    pub facts: Facts,
    /// PT_LOADs in header order.
    pub segments: Vec<Segment>,
    /// File offset and size of each PT_NOTE.
    pub note_segments: Vec<(u64, u64)>,
    /// Which reads failed, and which pages were read where that is recorded.
    pub reads: Reads,
    /// Which parts of the file hold data; asked for by scans only.
    extents: OnceLock<Extents>,
    bytes: MappedFile,
    file: File,
}

impl Core {
    /// All PT_NOTE bytes, one after the other, each padded to 4, at most `room` of them; and whether some are
    /// left out. Found by the mutation run (COREMAP_SEED=43101167 of dotnet31-createdump): segments that each claim the
    /// whole file.
    pub(crate) fn note_bytes(&self, room: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let mut cut = false;
        for &(offset, size) in &self.note_segments {
            let file = self.bytes();
            let start = (offset as usize).min(file.len());
            let end = start.saturating_add(size as usize).min(file.len());
            let room = room.saturating_sub(out.len());
            cut |= end - start > room;
            out.extend_from_slice(&file[start..end.min(start + room)]);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        (out, cut)
    }

    /// Open the core at `path` (`-`: standard input).
    ///
    /// # Errors
    /// [`OpenError`] where there is no core to read. A cut or damaged core
    /// opens, with diagnostics.
    #[cfg(feature = "internals")]
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
        let decompress_error = |source| OpenError::Inflate { path: name.clone(), source };
        if path.as_os_str() == "-" {
            let input = io::stdin().lock();
            let out = inflate::to_temporary_file(input, None, allowed.memory, progress).map_err(decompress_error)?;
            return Core::from_decompressed(name, out, reads, allowed, diag);
        }
        let meta = std::fs::metadata(path).map_err(io_error)?;
        if !meta.is_file() {
            let what = if meta.is_dir() { "a directory" } else { "a device or pipe (a core on standard input is `-`)" };
            return Err(OpenError::NotAFile { path: name, what });
        }
        let file = File::open(path).map_err(io_error)?;
        let mut head = Vec::new();
        (&file).take(16).read_to_end(&mut head).map_err(io_error)?;
        if Compression::detect(&head).is_none() {
            return Core::from_file(name, file, None, &[], reads, allowed, diag);
        }
        (&file).seek(SeekFrom::Start(0)).map_err(io_error)?;
        progress.start(meta.len());
        let out = inflate::to_temporary_file(&file, Some(&file), allowed.memory, progress).map_err(decompress_error)?;
        Core::from_decompressed(name, out, reads, allowed, diag)
    }

    fn from_decompressed(
        path: String,
        out: Inflated,
        reads: Reads,
        allowed: Allowed,
        diag: &Diagnostics,
    ) -> Result<Core, OpenError> {
        if let Some(reason) = out.broken {
            diag.partial(
                WarningCode::Inflate,
                format!(
                    "the compressed core is damaged or cut off ({reason}); everything after \
                                             this point is missing"
                ),
            );
        }
        if out.trailing {
            diag.note(WarningCode::Trailing, "uncompressed bytes follow the compressed core; they are ignored");
        }
        Core::from_file(path, out.file, out.compression, &out.holes, reads, allowed, diag)
    }

    fn from_file(
        path: String,
        file: File,
        compression: Option<Compression>,
        holes: &[Range<u64>],
        reads: Reads,
        allowed: Allowed,
        diag: &Diagnostics,
    ) -> Result<Core, OpenError> {
        let size = file.metadata().map_err(|source| OpenError::Io { path: path.clone(), source })?.len();
        if size == 0 {
            return Err(match compression {
                Some(_) => {
                    let nothing = "unpacking yields no bytes; the file may be cut off";
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
        let space = AddressSpace::new(mappings(&headers.segments), pieces);
        elf::tell_repeated(space.repeated(), diag);
        let mut notes = notes::read(&bytes, &headers.notes, headers.arch, &reads, diag);
        let diag_page = producer::diag_page(&bytes, &space.pieces, &reads, diag);
        let producer = producer::detect(&headers, &notes, diag_page.as_ref());
        if let Some(t) = &headers.truncation {
            diag.partial(
                WarningCode::Truncated,
                format!(
                    "the core is cut off: it has {} of {} bytes, and {} bytes of memory are missing",
                    t.actual, t.expected, t.missing
                ),
            );
        }
        if notes.own.scrubbed {
            let names = if notes.own.scrubbed_names { " and the program's own names replaced" } else { "" };
            diag.note(
                WarningCode::Scrubbed,
                format!(
                    "this core was scrubbed: process data is overwritten{names}. Texts and numbers in it are not real"
                ),
            );
        }
        let dumped = notes.own.dumped(&notes.threads, diag);
        let residence = notes.own.residence(notes.process.as_ref().map_or(0, |process| process.pid));
        let thread_names = std::mem::take(&mut notes.own.names);
        let second_views = notes.own.second_views.take();
        notes.threads_lost |= thread_names.len() > notes.threads.len();
        let Notes { threads, threads_lost, first_thread_lost, process, signal, signal_tid, auxv, files, .. } = notes;
        let space = space.with_files(files);
        let is_shrunk = is_shrunk(&headers.segments, |addr| dumped.is_some() && space.is_listed(addr));
        let facts = Facts {
            path,
            size,
            compression,
            arch: headers.arch,
            producer,
            space,
            threads,
            threads_lost,
            first_thread_lost,
            thread_names,
            process,
            signal,
            signal_tid,
            auxv,
            diag_page,
            truncation: headers.truncation,
            is_shrunk: is_shrunk || dumped.as_ref().is_some_and(|dumped| !dumped.kept.is_empty()),
            dumped,
            second_views,
            residence: residence.map(Arc::new),
        };
        let (segments, note_segments, extents) = (headers.segments, headers.notes, OnceLock::new());
        Ok(Core { facts, segments, note_segments, reads, extents, bytes, file })
    }

    /// All bytes of the (decompressed) file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Target for Core {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }

    fn slice(&self, place: Range<u64>) -> Option<&[u8]> {
        self.bytes.get(place.start as usize..place.end as usize)
    }

    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(out, place) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn extents(&self) -> &Extents {
        self.extents.get_or_init(|| host::extents(&self.file, self.facts.size))
    }

    fn expect_scan(&self) {
        self.bytes.expect_scan();
    }

    fn fetch(&self, places: Vec<Range<u64>>) {
        host::fetch(&self.file, places);
    }

    fn fetch_soon(&self, place: Range<u64>) {
        host::fetch_soon(&self.file, place);
    }
}

/// What each segment says of the process. Those that one mapping was cut into speak for all of it.
fn mappings(segments: &[Segment]) -> Vec<Mapping> {
    let of_one = |a: &Segment, b: &Segment| a.mapping == b.mapping && a.range.end == b.range.start;
    let whole = |cut: &[Segment]| {
        let (start, end) = (cut.first().map(|s| s.range.start), cut.last().map(|s| s.range.end));
        AddrRange::new(start.unwrap_or_default(), end.unwrap_or_default())
    };
    let mapping = |s: &Segment, range| Mapping { range, perms: s.perms, whole: s.mapping };
    segments.chunk_by(of_one).flat_map(|cut| cut.iter().map(|s| mapping(s, whole(cut)))).collect()
}

/// Whether `shrink` wrote it: pieces say in p_paddr which mapping they were cut
/// from, which begins before them. Other producers leave p_paddr 0, but for `dump`, which keeps pages of `files` so.
fn is_shrunk(segments: &[Segment], files: impl Fn(Addr) -> bool) -> bool {
    let cut = |s: &&Segment| s.mapping != s.range.start;
    let cuts = || segments.iter().filter(cut);
    cuts().any(|s| !files(s.range.start)) && cuts().all(|s| s.mapping < s.range.start)
}
