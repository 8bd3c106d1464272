//! malloc: allocators, and chunks of their heaps.

use super::words;

words! {
    /// An allocator that is known by its library, or by what it left in memory.
    pub enum AllocatorName {
        /// That of the GNU C library.
        Glibc = "glibc",
        /// That of the musl C library.
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
        /// That of oneTBB.
        Tbbmalloc = "tbbmalloc",
        /// That of the sanitizer's runtime, libasan.
        AddressSanitizer = "AddressSanitizer",
    }
}

words! {
    /// Whether a chunk is the program's.
    #[derive(Default)]
    pub enum ChunkState {
        /// The program holds it.
        Used = "used",
        /// malloc may give it away.
        Free = "free",
        /// What tells is not in the core.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// Where malloc keeps a chunk.
    #[derive(Default)]
    pub enum ChunkPlace {
        /// Nowhere: the program holds it.
        Used = "used",
        /// In a thread's cache.
        Tcache = "tcache",
        /// In a fastbin.
        Fastbin = "fastbin",
        /// Freed, not yet sorted into a bin.
        Unsorted = "unsorted",
        /// In a bin of one size.
        Smallbin = "smallbin",
        /// In a bin of a range of sizes.
        Largebin = "largebin",
        /// Free by the chunk behind, but in no list.
        Unlisted = "unlisted",
        /// The arena's last chunk.
        Top = "top",
        /// It has a mapping of its own.
        Mmapped = "mmapped",
        /// In a slot of a group of musl's malloc that is free.
        Slot = "slot",
        /// What tells is not in the core.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// What blocks of a cluster have in common.
    #[derive(Default)]
    pub enum ClusterContent {
        /// All zero.
        Zero = "zero",
        /// All one byte.
        Fill = "fill",
        /// They begin with the same pointer into a module.
        Symbol = "symbol",
        /// They begin with the same word.
        Word = "word",
        /// No more than their size.
        #[default]
        Mixed = "mixed",
    }
}
