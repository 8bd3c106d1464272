//! Facts about an opened target: plain data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::addr::{Addr, AddrRange};
use crate::targets::Arch;
use crate::targets::dump_notes::Dumped;
use crate::targets::producer::{DiagPage, Producer};
use crate::targets::residence::Residence;
use crate::targets::space::AddressSpace;
use crate::targets::threads::Thread;
use crate::words::Compression;

/// Entries of the auxiliary vector that coremap reads (linux/auxvec.h).
pub mod at {
    /// Program headers of the executable.
    pub const PHDR: u64 = 3;
    /// Number of program headers.
    pub const PHNUM: u64 = 5;
    /// Page size.
    pub const PAGESZ: u64 = 6;
    /// Load address of ld.so.
    pub const BASE: u64 = 7;
    /// Entry point of the executable.
    pub const ENTRY: u64 = 9;
    /// User ID.
    pub const UID: u64 = 11;
    /// Address of 16 random bytes, on the main stack.
    pub const RANDOM: u64 = 25;
    /// Address of the path given to execve, on the main stack.
    pub const EXECFN: u64 = 31;
    /// Address of the vdso.
    pub const SYSINFO_EHDR: u64 = 33;
}

/// Basic data of the process (NT_PRPSINFO in a core).
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Process ID.
    pub pid: u32,
    /// Process ID of the parent.
    pub ppid: u32,
    /// Real user ID.
    pub uid: u32,
    /// Real group ID.
    pub gid: u32,
    /// Up to 15 bytes of the main thread's name.
    pub name: String,
    /// Up to 79 bytes of the command line.
    pub args: String,
}

/// Why the process was dumped (NT_SIGINFO in a core).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInfo {
    /// Signal number.
    pub signo: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`. Meaningful for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP.
    pub addr: Addr,
}

/// How much of the target's file is missing.
#[derive(Clone, Copy, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Truncation {
    /// File size according to the headers, in bytes.
    pub expected: u64,
    /// Actual file size, in bytes.
    pub actual: u64,
    /// Bytes of memory (PT_LOAD) that the headers promise and the file lacks.
    pub missing: u64,
}

/// Everything about a target except its bytes.
pub struct Facts {
    /// Name: the path as given, or `-` for standard input.
    pub path: String,
    /// Size as a file in bytes, after decompression. Limits on work and memory depend on it.
    pub size: u64,
    /// Compression of the file, if any.
    pub compression: Option<Compression>,
    /// Machine type.
    pub arch: Arch,
    /// Which program wrote it.
    pub producer: Producer,
    /// The mappings, which of their bytes are available, and the files.
    pub space: AddressSpace,
    /// Threads. The crashed thread is first, if the producer orders them so.
    pub threads: Vec<Thread>,
    /// Whether threads may be missing, because the list was cut off or a thread could not be read.
    pub threads_lost: bool,
    /// Whether the first thread could not be read. The first entry is then another thread.
    pub first_thread_lost: bool,
    /// Processor time of the whole process, ended threads included. `None` if the target does not record it.
    pub cpu: Option<Duration>,
    /// Thread names (pthread_setname_np) by thread ID. Available for running processes and for cores that
    /// coremap wrote, not for other cores.
    pub thread_names: BTreeMap<u32, String>,
    /// Basic data of the process.
    pub process: Option<ProcessInfo>,
    /// The signal that the process was dumped for.
    pub signal: Option<SignalInfo>,
    /// The thread that received the signal.
    pub signal_tid: Option<u32>,
    /// Auxiliary vector: (type, value), without the final AT_NULL.
    pub auxv: Vec<(u64, u64)>,
    /// Page that the producer added. It is not memory of the process.
    pub diag_page: Option<DiagPage>,
    /// Bytes missing at the end of the file. `None` if it is complete.
    pub truncation: Option<Truncation>,
    /// Whether the core contains only what one command's answer needs (`crate::shrink`).
    pub is_shrunk: bool,
    /// How coremap dumped it, if it did.
    pub dumped: Option<Dumped>,
    /// Pages that are mapped twice, if that is recorded instead of visible in their bytes: in scrubbed cores.
    pub second_views: Option<Vec<SecondView>>,
    /// Resident memory, if the target has this information. Among core files, only those that coremap wrote
    /// have it.
    pub residence: Option<Arc<Residence>>,
}

/// A second mapping of the same pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondView {
    /// Addresses of the second view.
    pub range: AddrRange,
    /// Start of the first view of the same bytes.
    pub first: Addr,
    /// Whether bytes of both views were compared.
    pub compared: bool,
}

impl Facts {
    /// Creates facts with an address space and nothing else.
    pub fn new(path: &str, arch: Arch, space: AddressSpace) -> Facts {
        Facts {
            path: path.to_owned(),
            size: space.dumped_total(),
            compression: None,
            arch,
            producer: Producer::Unknown,
            space,
            threads: Vec::new(),
            threads_lost: false,
            first_thread_lost: false,
            cpu: None,
            thread_names: BTreeMap::new(),
            process: None,
            signal: None,
            signal_tid: None,
            auxv: Vec::new(),
            diag_page: None,
            truncation: None,
            is_shrunk: false,
            dumped: None,
            second_views: None,
            residence: None,
        }
    }

    /// Whether the target lists mapped files. If it doesn't, any memory may be of a file. The kernel omits the list
    /// (NT_FILE) if it is larger than 4 MiB, and had none before Linux 3.7.
    pub fn lists_files(&self) -> bool {
        !self.space.files.is_empty() || self.producer == Producer::Live
    }

    /// A value of the auxiliary vector ([`at`]).
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.auxv.iter().find(|&&(k, _)| k == key).map(|&(_, v)| v)
    }

    /// Page size of the process in bytes.
    pub fn page_size(&self) -> u64 {
        self.auxv(at::PAGESZ).filter(|p| p.is_power_of_two() && (4096..=65536).contains(p)).unwrap_or(4096)
    }
}
