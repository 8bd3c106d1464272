//! Opens a core. Plain files are mapped. Compressed files and standard input are first decompressed to an unlinked
//! temporary file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::core::elf::{self, HeaderError, Segment};
use crate::core::inflate::{self, Compression, InflateError, Inflated};
use crate::core::mapped::{Losses, MappedFile};
use crate::core::notes::{self, Notes};
use crate::core::producer;
use crate::core::prstatus;
use crate::diag::{Diagnostics, WarningCode};
use crate::host::{self, FileAt};
use crate::progress::Progress;
use crate::targets::budget::UserLimits;
use crate::targets::{AddressSpace, Extents, Facts, FileLoss, Mapping, Reads, Target};

/// Why a core could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file can't be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// Path as given.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path is a directory, device or socket.
    #[error("{path}: {what}, not a file")]
    NotAFile {
        /// Path as given.
        path: String,
        /// Kind of file.
        what: &'static str,
    },
    /// The file is empty.
    #[error("{path}: empty file")]
    Empty {
        /// Path as given.
        path: String,
    },
    /// The compressed stream can't be decompressed to the temporary file.
    #[error("{path}: can't be unpacked: {source}")]
    Inflate {
        /// Path as given.
        path: String,
        /// The reason, such as a full disk in $TMPDIR.
        source: InflateError,
    },
    /// The file is not a supported core.
    #[error("{path}: {source}")]
    Header {
        /// Path as given.
        path: String,
        /// Reason, with a guess at the format.
        source: HeaderError,
    },
}

/// An opened core file: a [`Target`] whose places are offsets in the (decompressed) file.
pub struct Core {
    /// Facts about the process and the file.
    pub facts: Facts,
    /// PT_LOADs in header order.
    pub segments: Vec<Segment>,
    /// File offset and size of each PT_NOTE.
    pub note_segments: Vec<(u64, u64)>,
    /// Failed reads, and the pages that were read if that is recorded.
    pub reads: Reads,
    /// The data extents of the file. Computed when a scan needs them.
    extents: OnceLock<Extents>,
    bytes: MappedFile,
    file: File,
    losses: Arc<Losses>,
}

impl Core {
    /// The bytes of all PT_NOTE segments in sequence, each padded to 4, at most `room` bytes. The flag says whether
    /// some were left out. The limit was needed in a mutation run (COREMAP_SEED=43101167 of dotnet31-createdump), where
    /// each segment claims the whole file.
    pub fn note_bytes(&self, room: usize) -> (Vec<u8>, bool) {
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

    /// Opens the core at `path` (`-`: standard input).
    ///
    /// # Errors
    /// [`OpenError`] where there is no core to read. A cut or damaged core
    /// opens, with diagnostics.
    #[doc(hidden)]
    pub fn open(path: &Path, diag: &Diagnostics, progress: &Progress) -> Result<Core, OpenError> {
        Core::open_with(path, Reads::default(), UserLimits::default(), diag, progress)
    }

    /// Opens the core with a record of reads, which includes headers and notes, and with limits for the answer.
    pub(crate) fn open_with(
        path: &Path,
        reads: Reads,
        allowed: UserLimits,
        diag: &Diagnostics,
        progress: &Progress,
    ) -> Result<Core, OpenError> {
        let name = path.to_string_lossy().into_owned();
        let io_error = |source| OpenError::Io { path: name.clone(), source };
        let decompress_error = |source| OpenError::Inflate { path: name.clone(), source };
        if path.as_os_str() == "-" {
            let input = io::stdin().lock();
            let out = inflate::to_temporary_file(input, None, allowed.memory, elf::begins_as_core, progress)
                .map_err(decompress_error)?;
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
            let own = Inflated {
                file,
                holes: Vec::new(),
                compression: None,
                broken: None,
                trailing: false,
                losses: Arc::default(),
            };
            return Core::from_file(name, own, reads, allowed, diag);
        }
        (&file).seek(SeekFrom::Start(0)).map_err(io_error)?;
        progress.start(meta.len());
        let out = inflate::to_temporary_file(&file, Some(&file), allowed.memory, elf::begins_as_core, progress)
            .map_err(decompress_error)?;
        Core::from_decompressed(name, out, reads, allowed, diag)
    }

    fn from_decompressed(
        path: String,
        out: Inflated,
        reads: Reads,
        allowed: UserLimits,
        diag: &Diagnostics,
    ) -> Result<Core, OpenError> {
        if let Some(reason) = &out.broken {
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
        Core::from_file(path, out, reads, allowed, diag)
    }

    fn from_file(
        path: String,
        Inflated { file, holes, compression, losses, .. }: Inflated,
        reads: Reads,
        allowed: UserLimits,
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
        let bytes = MappedFile::with_holes(&file, &holes, &losses)
            .map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let reads = reads.within(size, allowed);
        let headers = elf::read_headers(&bytes, &reads, diag)
            .map_err(|source| OpenError::Header { path: path.clone(), source })?;
        let pieces = elf::pieces(&headers.segments, diag);
        let space = AddressSpace::new(mappings(&headers.segments), pieces);
        elf::warn_repeated(space.repeated(), diag);
        let mut notes = notes::read(&bytes, &headers.notes, headers.arch, &reads, diag);
        if let Some(system) = notes.foreign {
            return Err(OpenError::Header { path, source: HeaderError::Foreign(system) });
        }
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
        let pid = notes.process.as_ref().map_or(0, |process| process.pid);
        let residence = notes.own.residence(pid, diag);
        let thread_names = std::mem::take(&mut notes.own.names);
        let second_views = notes.own.second_views.take();
        notes.threads_lost |= thread_names.len() > notes.threads.len();
        let cpu = prstatus::settle_times(&mut notes.threads, pid, producer);
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
            cpu,
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
        Ok(Core { facts, segments, note_segments, reads, extents, bytes, file, losses })
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
                Err(e) => {
                    self.losses.note(FileLoss::Unreadable);
                    return Err(e);
                }
                read => return read,
            }
        }
    }

    fn file_losses(&self) -> Vec<FileLoss> {
        // A short file does not always raise SIGBUS: the rest of its last page reads as zero, and system calls
        // return fewer bytes.
        if self.file.metadata().is_ok_and(|meta| meta.len() < self.facts.size) {
            self.losses.note(FileLoss::Shrank);
        }
        self.losses.all()
    }

    fn extents(&self) -> &Extents {
        self.extents.get_or_init(|| host::extents(&self.file, self.facts.size))
    }

    fn expect_scan(&self) {
        self.bytes.expect_scan();
    }

    fn forget(&self, place: Range<u64>) {
        self.bytes.forget(place);
    }

    fn fetch(&self, places: Vec<Range<u64>>) {
        host::fetch(&self.file, places);
    }

    fn fetch_soon(&self, place: Range<u64>) {
        host::fetch_soon(&self.file, place);
    }
}

/// Mappings of the segments. Segments that one mapping was cut into get the range of all of it.
fn mappings(segments: &[Segment]) -> Vec<Mapping> {
    let of_one = |a: &Segment, b: &Segment| a.mapping == b.mapping && a.range.end == b.range.start;
    let whole = |cut: &[Segment]| {
        let (start, end) = (cut.first().map(|s| s.range.start), cut.last().map(|s| s.range.end));
        AddrRange::new(start.unwrap_or_default(), end.unwrap_or_default())
    };
    let mapping = |s: &Segment, range| Mapping { range, perms: s.perms, whole: s.mapping };
    segments.chunk_by(of_one).flat_map(|cut| cut.iter().map(|s| mapping(s, whole(cut)))).collect()
}

/// Whether `shrink` wrote the core. Its pieces have the start of their original mapping in p_paddr, which is before
/// them. Other producers leave p_paddr 0, except `dump` for pages of `files`.
fn is_shrunk(segments: &[Segment], files: impl Fn(Addr) -> bool) -> bool {
    let cut = |s: &&Segment| s.mapping != s.range.start;
    let cuts = || segments.iter().filter(cut);
    cuts().any(|s| !files(s.range.start)) && cuts().all(|s| s.mapping < s.range.start)
}
