//! Series of samples, and trends of their figures.

use super::words;

words! {
    /// How a figure changes over the samples.
    #[derive(Default)]
    pub enum Verdict {
        /// It rises, also in the second half of the time, and more than noise or a random walk would explain.
        Grows = "grows",
        /// It falls in the same way.
        Shrinks = "shrinks",
        /// One step, flat before and after.
        Jumped = "jumped",
        /// It rose or fell and then stopped, as after a warm-up.
        Settled = "settled",
        /// It stays constant, or returns to the same minimum.
        Steady = "steady",
        /// Growth and noise cannot be separated; the reason says what would help.
        #[default]
        Unclear = "unclear",
    }
}

words! {
    /// Subject of a figure. Figures of different subjects overlap; don't add them up.
    #[derive(Default)]
    pub enum SeriesOf {
        /// All memory.
        #[default]
        Total = "total",
        /// A kind of region.
        Kind = "kind",
        /// A type on a managed heap.
        Type = "type",
        /// All memory of malloc.
        Malloc = "malloc",
        /// Used malloc blocks of one size class (powers of two).
        MallocClass = "malloc class",
        /// Used malloc blocks of one size.
        MallocSize = "malloc size",
        /// Bytes of a finding.
        Finding = "finding",
        /// Number of threads.
        Threads = "threads",
    }
}

words! {
    /// What is measured.
    #[derive(Default)]
    pub enum Measure {
        /// Resident pages, as the kernel counts them.
        Rss = "rss",
        /// Bytes in pages that are not all zero.
        Written = "written",
        /// Readable bytes: usually the whole mapping, touched or not.
        Readable = "readable",
        /// Address space.
        #[default]
        Size = "size",
        /// Bytes of used objects or blocks, or of a finding.
        Bytes = "bytes",
        /// Free bytes of malloc.
        Free = "free",
        /// A number of items.
        Count = "count",
    }
}

words! {
    /// Optional part of a sample. The kinds of memory are always included.
    pub enum Part {
        /// Objects on managed heaps by type.
        Types = "types",
        /// malloc blocks by size.
        Malloc = "malloc",
        /// Pages that are not all zero, by kind: reads all memory.
        Written = "written",
    }
}

words! {
    /// Why a recording ended.
    pub enum RecordingEnd {
        /// It has the requested number of samples or length.
        Done = "done",
        /// The process ended.
        ProcessEnded = "process ended",
        /// The user ended it, for example with Ctrl-C.
        Interrupted = "interrupted",
        /// It is of a core, which does not change, so one sample is enough.
        SingleSample = "one look",
    }
}

words! {
    /// How the samples of a series are spaced.
    #[derive(Default)]
    pub enum SeriesClock {
        /// By recorded times.
        Recorded = "recorded",
        /// By modification times of the core files.
        Modified = "modified",
        /// By the interval given on the command line.
        Given = "given",
        /// By order only: there are no rates.
        #[default]
        Order = "order",
    }
}
