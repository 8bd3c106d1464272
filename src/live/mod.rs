//! A process that still runs, as a target: the same answers as from its core, without one.
//!
//! | file | holds |
//! |---|---|
//! | `open` | stops the process and puts down what is known of it: mappings, threads, names, what is resident |
//! | `stop` | all threads, stopped as long as somebody reads |
//! | `ptrace` | the system calls for that |
//! | `maps` | /proc/PID/maps |
//! | `bytes` | the bytes, without bringing in what is not in the process's memory |
//! | `cgroup` | what its control group counts |
//! | `refused` | why it may not be looked at, and the way out |
//!
//! Nothing is copied before it is asked for. Structures are read a page at a time; scans and walks of heaps see a mirror
//! (`core/mapped/mirror.rs`) of which a bounded number of pieces is there at once.

mod bytes;
mod cgroup;
mod maps;
mod open;
mod ptrace;
mod refused;
mod stop;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::core::mapped::mirror::Mirror;
use crate::limits;
use crate::targets::{DumpNotes, Extents, Facts, Reads, Stood, Target};
use bytes::Bytes;
pub(crate) use open::named;
use stop::{Ended, Stop};

/// Why a process can't be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is none of that number.
    #[error("no process {pid} here; inside and outside a container, a process has different IDs")]
    NoProcess {
        /// Process id asked for.
        pid: u32,
    },
    /// It ended and waits for its parent (a zombie): it has no memory any more.
    #[error("process {pid} has ended (it is a zombie) and has no memory")]
    Ended {
        /// Process id.
        pid: u32,
    },
    /// A thread of the kernel.
    #[error("process {pid} has no memory: it is a kernel thread or is just ending")]
    NoMemory {
        /// Process id.
        pid: u32,
    },
    /// Our own process: who reads can't stand still.
    #[error("process {pid} is coremap itself; it can't stop and read itself")]
    Itself {
        /// Process id.
        pid: u32,
    },
    /// A program of 32 bits.
    #[error("process {pid} is a 32-bit program; coremap reads 64-bit programs")]
    Bits32 {
        /// Process id.
        pid: u32,
    },
    /// A program of a machine that is not read.
    #[error("process {pid} is a program for machine type {machine} (ELF e_machine); coremap reads x86_64 and aarch64")]
    Machine {
        /// Process id.
        pid: u32,
        /// `e_machine`
        machine: u16,
    },
    /// The system does not allow it.
    #[error("{why}")]
    Denied {
        /// Why most likely, and the way out.
        why: String,
    },
    /// Another failure of the system.
    #[error("process {pid}: {source}")]
    Io {
        /// Process id.
        pid: u32,
        /// The system's reason.
        source: io::Error,
    },
}

/// How a process is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct How {
    /// Let it run while it is read.
    pub(crate) no_stop: bool,
    /// Let it go after so long, whatever is still to be read.
    pub(crate) at_most: Option<Duration>,
    /// It is to be dumped: keep what a core holds beside memory.
    pub(crate) to_dump: bool,
}

/// A process that runs: a [`Target`] whose places number the bytes of its mappings, one behind the other.
pub(crate) struct Live {
    facts: Facts,
    reads: Reads,
    bytes: Arc<Bytes>,
    extents: OnceLock<Extents>,
    mirror: OnceLock<Option<Mirror>>,
    /// Bytes of the mirror that may be there at once.
    most: u64,
    stop: Mutex<Option<Stop>>,
    ended: OnceLock<Ended>,
    how: How,
    notes: Option<DumpNotes>,
    /// Whether it was let go by [`Target::let_go`]: what is gone by now is no loss.
    goes_on: Arc<AtomicBool>,
    /// Whether [`Target::let_go`] waits for [`Target::finish`].
    held: AtomicBool,
}

impl Live {
    fn new(facts: Facts, reads: Reads, bytes: Arc<Bytes>, stop: Option<Stop>, how: How, memory: Option<u64>) -> Live {
        let (extents, mirror, ended, goes_on) = Default::default();
        // What is dumped is of one moment.
        let held = AtomicBool::new(how.to_dump);
        let most = memory.unwrap_or(limits::MIRROR);
        Live {
            facts,
            reads,
            bytes,
            extents,
            mirror,
            most,
            stop: Mutex::new(stop),
            ended,
            how,
            goes_on,
            held,
            notes: None,
        }
    }

    fn mirror(&self) -> Option<&Mirror> {
        let make = || {
            let (bytes, goes_on) = (self.bytes.clone(), self.goes_on.clone());
            let fill =
                Box::new(move |place: u64, out: &mut [u8]| bytes.fill(place, out) || goes_on.load(Ordering::Relaxed));
            Mirror::new(self.bytes.len(), self.most, fill).ok()
        };
        self.mirror.get_or_init(make).as_ref()
    }

    fn end(&self) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = stop.and_then(Stop::end) {
            let _ = self.ended.set(ended);
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

    /// None: single reads are copies of kept pages, which is cheaper than a piece of the mirror.
    fn slice(&self, _: Range<u64>) -> Option<&[u8]> {
        None
    }

    fn kept(&self, place: Range<u64>) -> Option<&[u8]> {
        let end = usize::try_from(place.end).ok().filter(|_| place.end <= self.bytes.len())?;
        self.mirror()?.bytes().get(usize::try_from(place.start).ok()?..end)
    }

    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        match self.bytes.copy(place, out) {
            Err(_) if self.goes_on.load(Ordering::Relaxed) => {
                out.fill(0);
                Ok(out.len())
            }
            copied => copied,
        }
    }

    fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        self.bytes.gather(places)
    }

    fn extents(&self) -> &Extents {
        self.extents.get_or_init(|| self.bytes.extents())
    }

    fn expect_random(&self, bytes: u64) {
        if let Some(mirror) = self.mirror() {
            mirror.hold(bytes.min(crate::machine::spare() / 2));
        }
    }

    fn dump_notes(&self) -> Option<&DumpNotes> {
        self.notes.as_ref()
    }

    fn let_go(&self) {
        if self.held.load(Ordering::Relaxed) {
            return;
        }
        self.end();
        self.goes_on.store(true, Ordering::Relaxed);
    }

    fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    fn finish(&self) -> Option<Stood> {
        self.end();
        let ended = self.ended.get();
        Some(Stood {
            lasted: ended.map_or(Duration::ZERO, |ended| ended.lasted),
            timed_out: ended.is_some_and(|ended| ended.timed_out),
            ran: self.how.no_stop,
            lost: self.mirror.get().and_then(Option::as_ref).is_some_and(Mirror::lost),
            fetched: self.bytes.fetched(),
        })
    }
}
