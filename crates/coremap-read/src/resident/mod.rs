//! Resident memory: parses the kernel's files about it, and divides the figures of mappings among their parts.
//!
//! | file | contents |
//! |---|---|
//! | `smaps` | /proc/PID/smaps: figures of each mapping, with lines of status if both were saved in one file |
//! | `status` | /proc/PID/status: sums of the process |
//! | `cgroup` | files of the memory controller, versions 1 and 2 |
//! | `saved` | a smaps saved with a core: checks that it is of the same process |
//! | `divide` | divides the figures of mappings among their parts |
//! | `text` | lines and numbers of all three |
//!
//! The data types are in [`targets::residence`](crate::targets::residence), so that a target can supply them.
//! Everything here works on text, on any system, and trusts none of it: a saved file may be cut off or edited.

pub mod cgroup;
pub mod divide;
pub mod saved;
pub mod smaps;
pub mod status;
mod text;
