//! Producers: how a target was captured, and what that means for reading it.

use crate::addr::{Addr, AddrRange};
use crate::targets::space::FileMapping;
use crate::words::words;

words! {
    /// Program that wrote the core.
    #[derive(Default)]
    pub enum Producer {
        /// The Linux kernel.
        Kernel = "kernel",
        /// gdb's generate-core-file.
        Gcore = "gcore",
        /// .NET's createdump.
        Createdump = "createdump",
        /// `coremap dump`.
        Coremap = "coremap",
        /// None: a running process, read in place.
        Live = "live",
        /// Another program (qemu, a JVM's or Go's own writer, a shrunk core, …).
        #[default]
        Unknown = "unknown",
    }
}

impl Producer {
    /// Whether PT_LOAD flags distinguish PROT_NONE from read-only. gdb writes reservations as `R`.
    pub fn flags_show_no_access(self) -> bool {
        self != Producer::Gcore
    }

    /// Whether NT_FILE lists every file mapping. Some createdump versions leave
    /// out "(deleted)" files and memfds (10.0.14 does, 8.0.33 does not), so where
    /// none is listed an anonymous label may hide one.
    pub fn lists_all_files(self, files: &[FileMapping]) -> bool {
        match self {
            Producer::Createdump => files.iter().any(|f| f.path.ends_with(" (deleted)")),
            _ => !files.is_empty(),
        }
    }

    /// Name of the source that lists mappings and files.
    pub fn lists(self) -> &'static str {
        match self {
            Producer::Live => "/proc/PID/maps",
            _ => "PT_LOAD and NT_FILE",
        }
    }
}

/// Contents of createdump's diagnostic page.
#[derive(Clone, Copy, Debug)]
pub struct DiagPage {
    /// Addresses of the page; not memory of the process.
    pub range: AddrRange,
    /// Version of the header.
    pub version: i32,
    /// Address of the exception record the runtime passed, if any.
    pub exception_record: Option<Addr>,
    /// Base of the runtime's module (version 2 and later).
    pub runtime_base: Option<Addr>,
}
