//! Machine types.

use crate::words::words;

words! {
    /// Machine type of the process.
    pub enum Arch {
        /// x86_64
        X86_64 = "x86_64",
        /// aarch64
        Aarch64 = "aarch64",
    }
}
