//! A sample of a process: plain data.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::report::Name;
use crate::targets::{Arch, Producer};
use crate::words::Part;

/// A process at one moment. Sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Number of the sample, from 1.
    pub look: u64,
    /// Time of the sample. For a core, the time its file was last written to. `None` if unknown.
    pub time: Option<SystemTime>,
    /// Seconds since the recording began, by a monotonic clock.
    pub seconds: f64,
    /// Number of threads.
    pub threads: u64,
    /// Figures of the kernel.
    pub kernel: KernelFigures,
    /// Memory by kind of region.
    pub kinds: BTreeMap<Name, KindFigures>,
    /// Bytes per finding id. `None` if the finding has no size.
    pub findings: BTreeMap<Name, Option<u64>>,
    /// Objects on managed heaps. `None` if not sampled.
    pub types: Option<Objects>,
    /// Blocks of malloc. `None` if not sampled.
    pub malloc: Option<Blocks>,
    /// Cost of the sample.
    pub cost: Cost,
    /// Codes of the warnings. With warnings, figures may be incomplete.
    pub warnings: Vec<Name>,
}

/// Figures that the kernel counts for the process and its control group, in bytes. `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFigures {
    /// Resident memory (VmRSS).
    pub rss: Option<u64>,
    /// Swapped memory (VmSwap).
    pub swap: Option<u64>,
    /// Page tables (VmPTE).
    pub page_tables: Option<u64>,
    /// Memory charged to its control group, including other processes in the group.
    pub charged: Option<u64>,
    /// Memory limit of the control group.
    pub limit: Option<u64>,
}

/// Regions of one kind. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// Number of regions.
    pub count: u64,
    /// Size of the address space.
    pub size: u64,
    /// Size of the readable part.
    pub readable: u64,
    /// Bytes in pages that are not all zero. `None` if not counted.
    pub written: Option<u64>,
    /// Resident bytes. `None` if unknown.
    pub rss: Option<u64>,
    /// Swapped bytes. `None` if unknown.
    pub swap: Option<u64>,
}

impl KindFigures {
    /// Adds the figures of other regions. A figure that either side lacks is unknown.
    #[must_use]
    pub fn plus(self, other: KindFigures) -> KindFigures {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        KindFigures {
            count: self.count.saturating_add(other.count),
            size: self.size.saturating_add(other.size),
            readable: self.readable.saturating_add(other.readable),
            written: both(self.written, other.written),
            rss: both(self.rss, other.rss),
            swap: both(self.swap, other.swap),
        }
    }
}

/// Number and size of some items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of items.
    pub count: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl Sum {
    /// Adds another sum.
    #[must_use]
    pub fn plus(self, other: Sum) -> Sum {
        Sum { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// Rows that a list leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Number of rows.
    pub rows: u64,
    /// Sum of their items.
    pub sum: Sum,
    /// Bytes of the largest row. No row that is left out has more.
    pub largest: u64,
}

/// Objects on managed heaps.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// All objects, including free space.
    pub total: Sum,
    /// Objects by type. A type that is missing is in the rest.
    pub types: BTreeMap<Name, Sum>,
    /// Types that are not listed.
    pub rest: Rest,
}

/// Used blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize {
    /// Size of the chunk in bytes.
    pub size: u64,
    /// Whether each has a mapping of its own.
    pub mmapped: bool,
}

/// Blocks of malloc.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Allocator of the blocks. Sizes of different allocators can't be compared.
    pub allocator: Name,
    /// Blocks in use.
    pub used: Sum,
    /// Free blocks, except top chunks.
    pub free: Sum,
    /// Used blocks by power of two. The key is the largest chunk of the class. All blocks are included.
    pub classes: BTreeMap<u64, Sum>,
    /// Used blocks by exact size. A size that is missing is in the rest.
    pub sizes: BTreeMap<BlockSize, Sum>,
    /// Sizes that are not listed.
    pub rest: Rest,
}

/// Cost of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time that the process was stopped, in milliseconds. `None` for a core.
    pub stopped_ms: Option<f64>,
    /// Duration of the sample, in milliseconds.
    pub wall_ms: f64,
    /// Part of it for [`Part::Types`].
    pub types_ms: f64,
    /// Part of it for [`Part::Malloc`].
    pub malloc_ms: f64,
    /// Processor time of coremap, in milliseconds. `None` if the system does not provide it.
    pub processor_ms: Option<f64>,
    /// Bytes read from the process's memory. `None` if not counted.
    pub read: Option<u64>,
}

/// The subject of a recording.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Sampled path: `/proc/4711`, or the path of a core.
    pub path: String,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: String,
    /// Start time of the process, in clock ticks since the machine started (proc(5), starttime). No other process with
    /// its id has the same. `None` if unknown.
    pub start_ticks: Option<u64>,
    /// Machine.
    pub arch: Arch,
    /// Producer of the samples.
    pub producer: Producer,
    /// Managed runtimes: name and version.
    pub runtimes: Vec<(String, Option<String>)>,
    /// Whether a collector frees unused objects, so that garbage counts until it is collected.
    pub collected: bool,
}

/// A series of samples of one process.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Subject of the recording.
    pub subject: Subject,
    /// Version of coremap that made the recording.
    pub coremap: String,
    /// Requested interval in seconds. `None` if there is only one sample.
    pub every: Option<f64>,
    /// Data requested in addition to kinds.
    pub parts: Vec<Part>,
    /// Samples, by time.
    pub moments: Vec<Moment>,
}
