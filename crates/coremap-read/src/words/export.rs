//! Export formats for other viewers.

use super::words;

words! {
    /// Format that a core is exported to.
    #[derive(Default)]
    pub enum ExportFormat {
        /// A managed heap as a graph, for PerfView, Visual Studio and dotnet-gcdump.
        #[default]
        Gcdump = "gcdump",
        /// A heap of Java or .NET with its contents, for VisualVM, Eclipse MAT and others.
        Hprof = "hprof",
        /// Weighted stacks for speedscope, as JSON.
        Speedscope = "speedscope",
        /// Weighted stacks for the Firefox Profiler, as JSON.
        Firefox = "firefox",
        /// Weighted stacks for pprof, as gzipped protobuf.
        Pprof = "pprof",
        /// Weighted stacks as text, one line each (collapsed stacks), for any flame graph.
        Folded = "folded",
        /// Tables for SQL engines: a folder of Parquet files.
        Parquet = "parquet",
    }
}

words! {
    /// Subject of weighted stacks.
    #[derive(Default)]
    pub enum ExportSubject {
        /// Thread stacks, weighted by threads and stack memory.
        #[default]
        Threads = "threads",
        /// Live objects of managed heaps, by dominator.
        Retained = "retained",
        /// malloc blocks of equal size and content.
        Malloc = "malloc",
        /// Native memory, by the types and fields that point at it.
        Holders = "holders",
    }
}

impl ExportFormat {
    /// Whether the format has weighted stacks of one subject.
    pub const fn has_subject(self) -> bool {
        matches!(self, ExportFormat::Speedscope | ExportFormat::Firefox | ExportFormat::Pprof | ExportFormat::Folded)
    }
}
