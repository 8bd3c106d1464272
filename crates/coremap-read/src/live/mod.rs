//! A running process as a target. It gives the same answers as its core would.
//!
//! | file | contents |
//! |---|---|
//! | `open` | stops the process and collects its facts: mappings, threads, names, residence |
//! | `stop` | all threads, stopped while the process is read |
//! | `stops` | which processes are stopped now |
//! | `ptrace` | system calls |
//! | `maps` | /proc/PID/maps |
//! | `bytes` | memory, read without faulting in absent pages |
//! | `pages` | which pages are in memory |
//! | `snapshot` | a copy of all memory that can change, so that the process goes on |
//! | `cgroup` | figures of the control group |
//! | `refused` | why access was denied, and the remedy |
//!
//! Nothing is copied before it is needed. Structures are read a page at a time. Scans and heap walks use a mirror
//! (`core/mapped/mirror.rs`). A command that scans all memory copies it to the mirror first, and resumes the process.
//! If that would take too much memory, the process stays stopped, and a bounded number of pieces is in memory at once.

mod bytes;
mod cgroup;
mod maps;
mod open;
mod pages;
mod ptrace;
mod refused;
mod snapshot;
mod stop;
pub mod stops;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::addr::{AddrRange, WORD};
use crate::core::mapped::mirror::Mirror;
use crate::limits;
use crate::targets::{DumpNotes, Extents, Facts, Reads, StopReport, Target};
use bytes::Bytes;
use open::MappedFiles;
pub(crate) use open::named;
use stop::{Stop, StopSummary};

/// Why a process can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is no process with this ID.
    #[error("no process {pid} here; inside and outside a container, a process has different IDs")]
    NoProcess {
        /// The requested process ID.
        pid: u32,
    },
    /// The process has ended and waits for its parent (a zombie). It has no memory any more.
    #[error("process {pid} has ended (it is a zombie) and has no memory")]
    Ended {
        /// Process ID.
        pid: u32,
    },
    /// The process is a kernel thread, which has no memory.
    #[error("process {pid} has no memory: it is a kernel thread or is just ending")]
    NoMemory {
        /// Process ID.
        pid: u32,
    },
    /// The process is coremap itself, which can't read while it is stopped.
    #[error("process {pid} is coremap itself; it can't stop and read itself")]
    Itself {
        /// Process ID.
        pid: u32,
    },
    /// The program is a 32-bit program.
    #[error("process {pid} is a 32-bit program; coremap reads 64-bit programs")]
    Bits32 {
        /// Process ID.
        pid: u32,
    },
    /// The program is for an unsupported machine.
    #[error("process {pid} is a program for machine type {machine} (ELF e_machine); coremap reads x86_64 and aarch64")]
    Machine {
        /// Process ID.
        pid: u32,
        /// `e_machine`
        machine: u16,
    },
    /// The system denies access.
    #[error("{why}")]
    Denied {
        /// The most likely reason, and the remedy.
        why: String,
    },
    /// Another system error.
    #[error("process {pid}: {source}")]
    Io {
        /// Process ID.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
}

/// Options for reading a running process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttachOptions {
    /// Whether to read the process without stopping it.
    pub(crate) no_stop: bool,
    /// Time after which the process is resumed, whatever is still unread.
    pub(crate) max_stop: Option<Duration>,
    /// Whether the process will be dumped. Then data that a core contains besides memory is stored.
    pub(crate) to_dump: bool,
}

/// A running process. Its target offsets number the bytes of its mappings in order, without gaps.
pub(crate) struct Live {
    facts: Facts,
    reads: Reads,
    bytes: Arc<Bytes>,
    extents: OnceLock<Extents>,
    mirror: OnceLock<Option<Mirror>>,
    /// Maximum bytes of memory to use (`--memory`).
    memory: Option<u64>,
    stop: Mutex<Option<Stop>>,
    summary: OnceLock<StopSummary>,
    attach: AttachOptions,
    notes: Option<DumpNotes>,
    /// Opens the file of a mapping.
    files: Option<MappedFiles>,
    /// Whether [`Target::release`] resumed the process. Memory that disappears afterwards does not count as lost.
    resumed: Arc<AtomicBool>,
    /// Whether [`Target::release`] waits for [`Target::finish`].
    pinned: AtomicBool,
}

impl Live {
    fn new(
        facts: Facts,
        reads: Reads,
        bytes: Arc<Bytes>,
        stop: Option<Stop>,
        attach: AttachOptions,
        memory: Option<u64>,
    ) -> Live {
        let (extents, mirror, summary, resumed) = Default::default();
        // A dump must show a single moment.
        let pinned = AtomicBool::new(attach.to_dump);
        Live {
            facts,
            reads,
            bytes,
            extents,
            mirror,
            memory,
            stop: Mutex::new(stop),
            summary,
            attach,
            resumed,
            pinned,
            notes: None,
            files: None,
        }
    }

    fn mirror(&self) -> Option<&Mirror> {
        let make = || {
            let (bytes, resumed) = (self.bytes.clone(), self.resumed.clone());
            let fill =
                Box::new(move |place: u64, out: &mut [u8]| bytes.fill(place, out) || resumed.load(Ordering::Relaxed));
            Mirror::new(self.bytes.len(), self.memory.unwrap_or(limits::MIRROR), fill).ok()
        };
        self.mirror.get_or_init(make).as_ref()
    }

    fn is_resumed(&self) -> bool {
        self.summary.get().is_some()
    }

    fn end(&self) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(summary) = stop.and_then(Stop::end) {
            let _ = self.summary.set(summary);
        }
    }
}

impl Target for Live {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Always returns `None`: a copy from the page cache is cheaper than a part of the mirror.
    fn slice(&self, _: Range<u64>) -> Option<&[u8]> {
        None
    }

    fn cached_slice(&self, place: Range<u64>) -> Option<&[u8]> {
        let end = usize::try_from(place.end).ok().filter(|_| place.end <= self.bytes.len())?;
        self.mirror()?.bytes().get(usize::try_from(place.start).ok()?..end)
    }

    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        if self.bytes.at_copy().is_some() {
            let bytes = self.cached_slice(place..place.saturating_add(out.len() as u64));
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            return Ok(out.len());
        }
        match self.bytes.copy(place, out) {
            Err(_) if self.resumed.load(Ordering::Relaxed) => {
                out.fill(0);
                Ok(out.len())
            }
            copied => copied,
        }
    }

    fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        if self.bytes.at_copy().is_none() {
            return self.bytes.gather(places);
        }
        let word = |place: &u64| {
            let word = self.cached_slice(*place..place.checked_add(WORD)?)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        places.iter().map(word).collect()
    }

    fn extents(&self) -> &Extents {
        self.extents.get_or_init(|| self.bytes.extents())
    }

    fn expect_scan(&self) {
        self.copy_and_resume();
    }

    fn expect_random(&self, bytes: u64) {
        if let Some(mirror) = self.mirror() {
            mirror.hold(bytes.min(crate::machine::available_memory() / 2));
        }
    }

    fn mapped_file(&self, mapping: AddrRange) -> Option<File> {
        self.files.as_ref()?.open(mapping)
    }

    fn dump_notes(&self) -> Option<&DumpNotes> {
        self.notes.as_ref()
    }

    fn release(&self) {
        if self.pinned.load(Ordering::Relaxed) {
            return;
        }
        self.end();
        self.resumed.store(true, Ordering::Relaxed);
    }

    fn pin(&self) {
        self.pinned.store(true, Ordering::Relaxed);
    }

    fn finish(&self) -> Option<StopReport> {
        self.end();
        let summary = self.summary.get();
        Some(StopReport {
            lasted: summary.map_or(Duration::ZERO, |summary| summary.lasted),
            timed_out: summary.is_some_and(|summary| summary.timed_out),
            never_stopped: self.attach.no_stop,
            lost: self.mirror.get().and_then(Option::as_ref).is_some_and(Mirror::lost),
            fetched: self.bytes.fetched(),
        })
    }
}
