//! Machines.

use crate::words::words;

words! {
    /// Machine the process ran on.
    pub enum Arch {
        /// x86_64
        X86_64 = "x86_64",
        /// aarch64
        Aarch64 = "aarch64",
    }
}
