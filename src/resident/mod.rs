//! What of the memory was in RAM: reads the texts in which Linux tells that of a process, and divides the figures of
//! mappings among what lies in them.
//!
//! | file | holds |
//! |---|---|
//! | `smaps` | /proc/PID/smaps: figures of each mapping; with lines of status where both were saved in one file |
//! | `status` | /proc/PID/status: sums of the process |
//! | `cgroup` | files of the memory controller, versions 1 and 2 |
//! | `saved` | a smaps beside a core: whether it is of that process |
//! | `divide` | the figures of mappings among what lies in them |
//! | `text` | lines and numbers of all three |
//!
//! The data is [`targets::residence`](crate::targets::residence), so that a target can bring it. All of it works on texts,
//! on any system, and trusts none of them: a saved file may be cut or edited.

pub mod cgroup;
pub mod divide;
pub mod saved;
pub mod smaps;
pub mod status;
mod text;
