//! Files of other people's viewers.

use super::words;

words! {
    /// What a core is exported to.
    #[derive(Default)]
    pub enum ExportFormat {
        /// A managed heap as a graph, for PerfView, Visual Studio and dotnet-gcdump.
        #[default]
        Gcdump = "gcdump",
        /// A heap of Java, or of .NET, with its contents, for VisualVM, Eclipse MAT and others.
        Hprof = "hprof",
        /// Stacks with weights for speedscope, JSON.
        Speedscope = "speedscope",
        /// The same for the Firefox Profiler, JSON.
        Firefox = "firefox",
        /// The same for pprof, protobuf packed with gzip.
        Pprof = "pprof",
        /// The same as text, a line each: collapsed stacks, for any flame graph.
        Folded = "folded",
        /// Tables for engines that take SQL: a folder of Parquet files.
        Parquet = "parquet",
    }
}

words! {
    /// What stacks with weights are of.
    #[derive(Default)]
    pub enum ExportSubject {
        /// Stacks of threads, by threads and by what their stacks take.
        #[default]
        Threads = "threads",
        /// Live objects of managed heaps, by what dominates them.
        Retained = "retained",
        /// Blocks of malloc that are alike.
        Malloc = "malloc",
        /// Native memory, by types and fields that point at it.
        Holders = "holders",
    }
}

impl ExportFormat {
    /// Whether it has stacks with weights, of one subject.
    pub const fn has_subject(self) -> bool {
        matches!(self, ExportFormat::Speedscope | ExportFormat::Firefox | ExportFormat::Pprof | ExportFormat::Folded)
    }
}
