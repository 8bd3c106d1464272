//! The core file, the process and its modules.

use super::words;

words! {
    /// Compression format of a core, by the usual file extension.
    pub enum Compression {
        /// zstd frames, RFC 8878.
        Zstd = "zst",
        /// gzip members, RFC 1952.
        Gzip = "gz",
        /// The .xz container.
        Xz = "xz",
        /// The lz4 frame format (`lz4 -9 core`), not bare blocks.
        Lz4 = "lz4",
    }
}

words! {
    /// The form of a program file.
    pub enum ImageFormat {
        /// ELF
        Elf = "elf",
        /// PE: an assembly of .NET.
        Pe = "pe",
    }
}

words! {
    /// What a fact about the operating system is about.
    pub enum OsSubject {
        /// The kernel.
        Kernel = "kernel",
        /// The C library.
        Libc = "libc",
        /// The family of distributions.
        Distribution = "distribution",
    }
}
