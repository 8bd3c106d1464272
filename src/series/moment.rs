//! What a look at a process keeps: plain data.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::report::Name;
use crate::targets::{Arch, Producer};
use crate::words::Part;

/// A process at one moment. Sizes in bytes.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The number of the look, from 1 on.
    pub look: u64,
    /// When it was taken; of a core, when its file was last written to. `None`: not known.
    pub time: Option<SystemTime>,
    /// Seconds since the recording began, by a clock that nobody sets.
    pub seconds: f64,
    /// Number of threads.
    pub threads: u64,
    /// What the kernel counts.
    pub kernel: KernelFigures,
    /// Its memory by the names of kinds.
    pub kinds: BTreeMap<Name, KindFigures>,
    /// What findings are about, by their names; `None`: about no bytes.
    pub findings: BTreeMap<Name, Option<u64>>,
    /// Objects on managed heaps; `None`: not looked at.
    pub types: Option<Objects>,
    /// Blocks of malloc; `None`: not looked at.
    pub malloc: Option<Blocks>,
    /// What the look cost.
    pub cost: Cost,
    /// Codes of the warnings: figures may be short then.
    pub warnings: Vec<Name>,
}

/// What the kernel counts of the process and its control group. Bytes; `None`: not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFigures {
    /// Resident memory (VmRSS).
    pub rss: Option<u64>,
    /// In swap (VmSwap).
    pub swap: Option<u64>,
    /// Page tables (VmPTE).
    pub page_tables: Option<u64>,
    /// Charged to its control group, with all else that is in it.
    pub charged: Option<u64>,
    /// The limit of the control group.
    pub limit: Option<u64>,
}

/// Regions of one kind. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// Number of regions.
    pub count: u64,
    /// Address space.
    pub size: u64,
    /// Of that, what can be read.
    pub readable: u64,
    /// In pages that are not all zero; `None`: nobody looked.
    pub written: Option<u64>,
    /// Resident; `None`: not known.
    pub rss: Option<u64>,
    /// In swap; `None`: not known.
    pub swap: Option<u64>,
}

impl KindFigures {
    /// With those of other regions; what one of them does not know is not known.
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

/// A number of things and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sum {
    /// With more of them.
    #[must_use]
    pub fn plus(self, other: Sum) -> Sum {
        Sum { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// What a list leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// Bytes of the largest of them: what is not listed has no more.
    pub largest: u64,
}

/// Objects on managed heaps.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// All of them, free space too.
    pub total: Sum,
    /// By type. A type that is not here is in the rest.
    pub types: BTreeMap<Name, Sum>,
    /// What is not listed.
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
    /// Whose blocks they are: sizes of different allocators are no use beside each other.
    pub allocator: Name,
    /// Blocks in use.
    pub used: Sum,
    /// Free ones, tops excepted.
    pub free: Sum,
    /// Used blocks by power of two: the largest chunk of each class. All are here.
    pub classes: BTreeMap<u64, Sum>,
    /// Used blocks by exact size. A size that is not here is in the rest.
    pub sizes: BTreeMap<BlockSize, Sum>,
    /// What is not listed.
    pub rest: Rest,
}

/// What a look cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// How long the process stood still, in milliseconds; `None`: it is a core.
    pub stopped_ms: Option<f64>,
    /// How long the look took, in milliseconds.
    pub wall_ms: f64,
    /// Of these, what was for [`Part::Types`].
    pub types_ms: f64,
    /// What was for [`Part::Malloc`].
    pub malloc_ms: f64,
    /// Time of our own on processors, in milliseconds; `None` where the system does not tell.
    pub processor_ms: Option<f64>,
    /// Bytes that were read of the process's memory; `None`: not counted.
    pub read: Option<u64>,
}

/// What a recording is of.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What was looked at: `/proc/4711`, or the path of a core.
    pub path: String,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: String,
    /// When it was started, in ticks of the clock since the machine was (proc(5), starttime): no other process with its number has the
    /// same. `None`: not known.
    pub start_ticks: Option<u64>,
    /// Machine.
    pub arch: Arch,
    /// How it was captured.
    pub producer: Producer,
    /// Managed runtimes: name and version.
    pub runtimes: Vec<(String, Option<String>)>,
    /// Whether a collector frees objects that are not used any more, so that garbage counts until it comes.
    pub collected: bool,
}

/// A row of looks at one process.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What it is of.
    pub subject: Subject,
    /// Version of coremap that made it.
    pub coremap: String,
    /// Seconds from look to look that were asked for; `None` where there is but one.
    pub every: Option<f64>,
    /// What was asked for beside kinds.
    pub parts: Vec<Part>,
    /// The looks, in the order of their times.
    pub moments: Vec<Moment>,
}
