//! Java's threads: the VM's list of them.

mod list;

pub use list::{JavaThread, java_threads};
