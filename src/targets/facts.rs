//! What is known of a target once it is open: plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::targets::Arch;
use crate::targets::dump_notes::Dumped;
use crate::targets::producer::{DiagPage, Producer};
use crate::targets::residence::Residence;
use crate::targets::space::AddressSpace;
use crate::targets::threads::Thread;
use crate::words::Compression;

/// Entries of the auxiliary vector that are read (linux/auxvec.h).
pub mod at {
    /// Program headers of the executable.
    pub const PHDR: u64 = 3;
    /// Number of those.
    pub const PHNUM: u64 = 5;
    /// Page size.
    pub const PAGESZ: u64 = 6;
    /// Where ld.so is loaded.
    pub const BASE: u64 = 7;
    /// Entry point of the executable.
    pub const ENTRY: u64 = 9;
    /// User id.
    pub const UID: u64 = 11;
    /// Address of 16 random bytes, on the main stack.
    pub const RANDOM: u64 = 25;
    /// Address of the path given to execve, on the main stack.
    pub const EXECFN: u64 = 31;
    /// Where the vdso is mapped.
    pub const SYSINFO_EHDR: u64 = 33;
}

/// What is known of the process by itself (NT_PRPSINFO in a core).
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// Real group id.
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
    /// `si_code`
    pub code: i32,
    /// `si_addr`; means something for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP.
    pub addr: Addr,
}

/// How much of the target's file is missing.
#[derive(Clone, Copy, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Truncation {
    /// File size the headers call for, in bytes.
    pub expected: u64,
    /// File size found, in bytes.
    pub actual: u64,
    /// Bytes of memory (PT_LOAD) that the headers promise and the file lacks.
    pub missing: u64,
}

/// All that is known of a target but its bytes.
pub struct Facts {
    /// What to call it: a path as given, `-` for standard input.
    pub path: String,
    /// Bytes that it takes as a file, after decompression; what an answer may take is
    /// reckoned by it.
    pub size: u64,
    /// The compression it came in, if any.
    pub compression: Option<Compression>,
    /// Machine.
    pub arch: Arch,
    /// How it was made.
    pub producer: Producer,
    /// Its mappings, which of their bytes are there, and files.
    pub space: AddressSpace,
    /// Threads, the one that crashed first where the producer has that habit.
    pub threads: Vec<Thread>,
    /// Whether threads may be missing: the list was cut, or one could not be read.
    pub threads_lost: bool,
    /// Whether the first thread could not be read: the first that is known is another then.
    pub first_thread_lost: bool,
    /// What threads call themselves (pthread_setname_np), by thread id: known of a process that runs, and of a core that
    /// coremap wrote. Other cores have no such names.
    pub thread_names: BTreeMap<u32, String>,
    /// The process by itself.
    pub process: Option<ProcessInfo>,
    /// The signal it was dumped for.
    pub signal: Option<SignalInfo>,
    /// The thread that got it.
    pub signal_tid: Option<u32>,
    /// Auxiliary vector: (type, value), without the closing AT_NULL.
    pub auxv: Vec<(u64, u64)>,
    /// A page that the producer added: no memory of the process.
    pub diag_page: Option<DiagPage>,
    /// What is missing at the end.
    pub truncation: Option<Truncation>,
    /// Whether most of what was dumped is left out, so that one command's answer stays
    /// the same ([`crate::shrink`]).
    pub is_shrunk: bool,
    /// How it was dumped, where coremap did that.
    pub dumped: Option<Dumped>,
    /// Pages that are mapped twice, where that is known without a look at their bytes: of a core that was scrubbed.
    pub second_views: Option<Vec<SecondView>>,
    /// What of its memory was in RAM, where the target knows; of core files, those that coremap wrote do.
    pub residence: Option<Arc<Residence>>,
}

/// Memory that has the pages of another part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondView {
    /// Where it is.
    pub range: AddrRange,
    /// Where the first view of the same bytes begins.
    pub first: Addr,
    /// Whether bytes of both were compared.
    pub compared: bool,
}

impl Facts {
    /// Nothing but an address space.
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

    /// A value of the auxiliary vector ([`at`]).
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.auxv.iter().find(|&&(k, _)| k == key).map(|&(_, v)| v)
    }

    /// Page size of the process in bytes.
    pub fn page_size(&self) -> u64 {
        self.auxv(at::PAGESZ).filter(|p| p.is_power_of_two() && (4096..=65536).contains(p)).unwrap_or(4096)
    }
}
