//! Files of other people's viewers.

use super::words;

words! {
    /// What a core is exported to.
    #[derive(Default)]
    pub enum ExportFormat {
        /// A managed heap as a graph, for PerfView, Visual Studio and dotnet-gcdump.
        #[default]
        Gcdump = "gcdump",
    }
}
