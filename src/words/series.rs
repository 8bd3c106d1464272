//! Rows of looks at a process, and what becomes of a figure in them.

use super::words;

words! {
    /// What becomes of a figure from look to look.
    #[derive(Default)]
    pub enum Verdict {
        /// It rises, in the last half of the time too, and more than noise or a random walk would make it.
        Grows = "grows",
        /// It falls in the same way.
        Shrinks = "shrinks",
        /// One step, and flat on either side of it.
        Jumped = "jumped",
        /// It rose or fell, and has stopped doing so: a warm-up looks so.
        Settled = "settled",
        /// It stays where it is, or goes up and down about the same lows.
        Steady = "steady",
        /// Growth can't be told from noise here; the reason says what would help.
        #[default]
        Unclear = "unclear",
    }
}

words! {
    /// What a figure is of. Several tell of the same bytes in different ways: they are not to be added.
    #[derive(Default)]
    pub enum SeriesOf {
        /// All memory.
        #[default]
        Total = "total",
        /// A kind of region.
        Kind = "kind",
        /// A type on a managed heap.
        Type = "type",
        /// What malloc holds, all together.
        Malloc = "malloc",
        /// Used blocks of malloc up to one size: powers of two.
        MallocClass = "malloc class",
        /// Used blocks of malloc of exactly one size.
        MallocSize = "malloc size",
        /// What a finding is about.
        Finding = "finding",
        /// The number of threads.
        Threads = "threads",
    }
}

words! {
    /// What of something is measured.
    #[derive(Default)]
    pub enum Measure {
        /// Resident pages, as the kernel counts them.
        Rss = "rss",
        /// Bytes in pages that are not all zero.
        Written = "written",
        /// Bytes that can be read: all of a mapping in most cases, touched or not.
        Readable = "readable",
        /// Address space.
        #[default]
        Size = "size",
        /// Bytes of objects or blocks in use, or that a finding is about.
        Bytes = "bytes",
        /// Bytes that malloc has and nobody uses.
        Free = "free",
        /// A number of things.
        Count = "count",
    }
}

words! {
    /// What a look at a process can take in beside the kinds of its memory, which it always does.
    pub enum Part {
        /// Objects on managed heaps by type.
        Types = "types",
        /// Blocks of malloc by size.
        Malloc = "malloc",
        /// Pages that are not all zero, by kind: all memory is read.
        Written = "written",
    }
}

words! {
    /// Why a recording ended.
    pub enum RecordingEnd {
        /// It has as many looks, or is as long, as was asked for.
        Done = "done",
        /// The process ended.
        ProcessEnded = "process ended",
        /// Whoever started it has ended it, as by Ctrl-C.
        Interrupted = "interrupted",
        /// It is of a core, which does not change: one look is all there is.
        OneLook = "one look",
    }
}

words! {
    /// By what the looks of a row are apart.
    #[derive(Default)]
    pub enum SeriesClock {
        /// Times that were recorded.
        Recorded = "recorded",
        /// Times at which the files of cores were last written to.
        Modified = "modified",
        /// A time from core to core that was given.
        Given = "given",
        /// Their order alone: there are no rates.
        #[default]
        Order = "order",
    }
}
