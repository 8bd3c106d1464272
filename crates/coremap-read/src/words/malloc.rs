//! malloc: allocators, and chunks of their heaps.

use super::words;

words! {
    /// An allocator, identified by its library or by its structures in memory.
    pub enum AllocatorName {
        /// malloc of the GNU C library.
        Glibc = "glibc",
        /// malloc of the musl C library.
        Musl = "musl",
        /// libjemalloc
        Jemalloc = "jemalloc",
        /// libtcmalloc, of gperftools or Google's own.
        Tcmalloc = "tcmalloc",
        /// libmimalloc
        Mimalloc = "mimalloc",
        /// libsnmalloc
        Snmalloc = "snmalloc",
        /// LLVM's hardened allocator.
        Scudo = "scudo",
        /// librpmalloc
        Rpmalloc = "rpmalloc",
        /// libhoard
        Hoard = "hoard",
        /// malloc of oneTBB.
        Tbbmalloc = "tbbmalloc",
        /// malloc of the sanitizer's runtime, libasan.
        AddressSanitizer = "AddressSanitizer",
    }
}

words! {
    /// Whether the program uses a chunk.
    #[derive(Default)]
    pub enum ChunkState {
        /// The program uses it.
        Used = "used",
        /// malloc may allocate it.
        Free = "free",
        /// The data that would show it is not in the core.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// List or cache of malloc that contains a chunk.
    #[derive(Default)]
    pub enum ChunkPlace {
        /// None: the program uses it.
        Used = "used",
        /// A thread cache.
        Tcache = "tcache",
        /// A fastbin.
        Fastbin = "fastbin",
        /// Freed, not yet sorted into a bin.
        Unsorted = "unsorted",
        /// A bin of one size.
        Smallbin = "smallbin",
        /// A bin of a size range.
        Largebin = "largebin",
        /// Free according to the next chunk, but in no list.
        Unlisted = "unlisted",
        /// The last chunk of the arena.
        Top = "top",
        /// It has a separate mapping.
        Mmapped = "mmapped",
        /// A free slot of a group of musl's malloc.
        Slot = "slot",
        /// The data that would show it is not in the core.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// Common content of the blocks of a cluster.
    #[derive(Default)]
    pub enum ClusterContent {
        /// All zero.
        Zero = "zero",
        /// Filled with one byte.
        Fill = "fill",
        /// They begin with the same pointer into a module.
        Symbol = "symbol",
        /// They begin with the same word.
        Word = "word",
        /// None besides their size.
        #[default]
        Mixed = "mixed",
    }
}
