//! The lines of a recording, as JSON. docs/trend.md describes the format.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::bytes::printable;
use crate::report::Name;
use crate::series::moment::{
    BlockSize, Blocks, Cost, KernelFigures, KindFigures, Moment, Objects, Recording, Rest, Subject, Sum,
};
use crate::targets::{Arch, Producer};
use crate::words::Part;

/// Version of the format. New fields don't need a new version.
pub(crate) const VERSION: u64 = 1;

/// The first line: the subject of the recording.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`VERSION`]. The first field, which identifies such a file.
    pub(super) coremap_recording: u64,
    coremap: String,
    path: String,
    pid: Option<u32>,
    name: String,
    start_ticks: Option<u64>,
    arch: String,
    producer: String,
    runtimes: Vec<(String, Option<String>)>,
    collected: bool,
    every_s: Option<f64>,
    with: Vec<String>,
}

/// Regions of a kind: count, size, readable, written, resident, swapped.
type KindLine = (u64, u64, u64, Option<u64>, Option<u64>, Option<u64>);

/// Count and bytes.
type SumLine = (u64, u64);

/// Rows, count, bytes, and bytes of the largest.
type RestLine = (u64, u64, u64, u64);

/// A further line: a sample.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SampleLine {
    look: u64,
    time: Option<String>,
    s: f64,
    threads: u64,
    kernel: KernelLine,
    kinds: BTreeMap<String, KindLine>,
    findings: BTreeMap<String, Option<u64>>,
    /// Names that the rows of this and later lines refer to by number. Numbering continues from line to line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<String>,
    types: Option<TypesLine>,
    malloc: Option<MallocLine>,
    cost: CostLine,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KernelLine {
    rss: Option<u64>,
    swap: Option<u64>,
    page_tables: Option<u64>,
    charged: Option<u64>,
    limit: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TypesLine {
    total: SumLine,
    /// Number of the name, count, bytes.
    rows: Vec<(u32, u64, u64)>,
    rest: RestLine,
}

#[derive(Debug, Serialize, Deserialize)]
struct MallocLine {
    allocator: String,
    used: SumLine,
    free: SumLine,
    /// Largest chunk, count, bytes.
    classes: Vec<(u64, u64, u64)>,
    /// Size, count, bytes.
    sizes: Vec<(u64, u64, u64)>,
    /// Size, count, bytes of blocks with mappings of their own.
    mmapped: Vec<(u64, u64, u64)>,
    rest: RestLine,
}

#[derive(Debug, Serialize, Deserialize)]
struct CostLine {
    stopped_ms: Option<f64>,
    wall_ms: f64,
    types_ms: f64,
    malloc_ms: f64,
    processor_ms: Option<f64>,
    read: Option<u64>,
}

/// Error for a header that names an unknown architecture.
#[derive(Debug, thiserror::Error)]
#[error("names an unknown architecture: {}", printable(.0))]
pub(super) struct UnknownArch(String);

impl Header {
    pub(super) fn of(recording: &Recording) -> Header {
        let of = &recording.subject;
        Header {
            coremap_recording: VERSION,
            coremap: recording.coremap.clone(),
            path: of.path.clone(),
            pid: of.pid,
            name: of.name.clone(),
            start_ticks: of.start_ticks,
            arch: of.arch.name().to_owned(),
            producer: of.producer.name().to_owned(),
            runtimes: of.runtimes.clone(),
            collected: of.collected,
            every_s: recording.every,
            with: recording.parts.iter().map(|part| part.name().to_owned()).collect(),
        }
    }

    /// Returns the recording without samples.
    ///
    /// # Errors
    /// The name of a machine that this version does not know.
    pub(super) fn into_recording(self) -> Result<Recording, UnknownArch> {
        let arch = Arch::ALL.iter().copied().find(|arch| arch.name() == self.arch).ok_or(UnknownArch(self.arch))?;
        let producer = Producer::ALL.iter().copied().find(|p| p.name() == self.producer).unwrap_or_default();
        Ok(Recording {
            subject: Subject {
                path: self.path,
                pid: self.pid,
                name: self.name,
                start_ticks: self.start_ticks,
                arch,
                producer,
                runtimes: self.runtimes,
                collected: self.collected,
            },
            coremap: self.coremap,
            every: self.every_s.filter(|every| *every > 0.0),
            parts: Part::ALL.iter().copied().filter(|part| self.with.iter().any(|w| w == part.name())).collect(),
            moments: Vec::new(),
        })
    }
}

impl SampleLine {
    /// Creates the line of a moment. `number` returns the number of a name, and adds new names to `names`.
    pub(super) fn of(moment: &Moment, mut number: impl FnMut(&Name, &mut Vec<String>) -> u32) -> SampleLine {
        let mut names = Vec::new();
        let types = moment.types.as_ref().map(|objects| TypesLine {
            total: sum(objects.total),
            rows: objects.types.iter().map(|(name, s)| (number(name, &mut names), s.count, s.bytes)).collect(),
            rest: rest(objects.rest),
        });
        let malloc = moment.malloc.as_ref().map(|blocks| {
            let of = |mmapped: bool| {
                let sizes = blocks.sizes.iter().filter(move |(size, _)| size.mmapped == mmapped);
                sizes.map(|(size, s)| (size.size, s.count, s.bytes)).collect()
            };
            MallocLine {
                allocator: blocks.allocator.to_string(),
                used: sum(blocks.used),
                free: sum(blocks.free),
                classes: blocks.classes.iter().map(|(class, s)| (*class, s.count, s.bytes)).collect(),
                sizes: of(false),
                mmapped: of(true),
                rest: rest(blocks.rest),
            }
        });
        let (kernel, cost) = (&moment.kernel, &moment.cost);
        let kind = |k: &KindFigures| (k.count, k.size, k.readable, k.written, k.rss, k.swap);
        SampleLine {
            look: moment.look,
            time: moment.time.map(|time| humantime::format_rfc3339_millis(time).to_string()),
            s: tenths(moment.seconds * 1000.0) / 1000.0,
            threads: moment.threads,
            kernel: KernelLine {
                rss: kernel.rss,
                swap: kernel.swap,
                page_tables: kernel.page_tables,
                charged: kernel.charged,
                limit: kernel.limit,
            },
            kinds: moment.kinds.iter().map(|(name, k)| (name.to_string(), kind(k))).collect(),
            findings: moment.findings.iter().map(|(name, bytes)| (name.to_string(), *bytes)).collect(),
            names,
            types,
            malloc,
            cost: CostLine {
                stopped_ms: cost.stopped_ms.map(tenths),
                wall_ms: tenths(cost.wall_ms),
                types_ms: tenths(cost.types_ms),
                malloc_ms: tenths(cost.malloc_ms),
                processor_ms: cost.processor_ms.map(tenths),
                read: cost.read,
            },
            warnings: moment.warnings.iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns the moment of a line. `names` are those of this and all earlier lines. `None` if a row has a number
    /// without a name.
    pub(super) fn into_moment(self, names: &[Name], known: impl Fn(&str) -> Name) -> Option<Moment> {
        let types = match self.types {
            None => None,
            Some(line) => {
                let row =
                    |(n, count, bytes): (u32, u64, u64)| Some((names.get(n as usize)?.clone(), Sum { count, bytes }));
                let types = line.rows.into_iter().map(row).collect::<Option<BTreeMap<Name, Sum>>>()?;
                Some(Objects { total: unsum(line.total), types, rest: unrest(line.rest) })
            }
        };
        let malloc = self.malloc.map(|line| {
            let of = |rows: Vec<(u64, u64, u64)>, mmapped| {
                rows.into_iter().map(move |(size, count, bytes)| (BlockSize { size, mmapped }, Sum { count, bytes }))
            };
            Blocks {
                allocator: known(&line.allocator),
                used: unsum(line.used),
                free: unsum(line.free),
                classes: line.classes.into_iter().map(|(class, count, bytes)| (class, Sum { count, bytes })).collect(),
                sizes: of(line.sizes, false).chain(of(line.mmapped, true)).collect(),
                rest: unrest(line.rest),
            }
        });
        let kind = |(count, size, readable, written, rss, swap): KindLine| KindFigures {
            count,
            size,
            readable,
            written,
            rss,
            swap,
        };
        Some(Moment {
            look: self.look,
            time: self.time.and_then(|text| parsed(&text)),
            seconds: self.s,
            threads: self.threads,
            kernel: KernelFigures {
                rss: self.kernel.rss,
                swap: self.kernel.swap,
                page_tables: self.kernel.page_tables,
                charged: self.kernel.charged,
                limit: self.kernel.limit,
            },
            kinds: self.kinds.into_iter().map(|(name, line)| (known(&name), kind(line))).collect(),
            findings: self.findings.into_iter().map(|(name, bytes)| (known(&name), bytes)).collect(),
            types,
            malloc,
            cost: Cost {
                stopped_ms: self.cost.stopped_ms,
                wall_ms: self.cost.wall_ms,
                types_ms: self.cost.types_ms,
                malloc_ms: self.cost.malloc_ms,
                processor_ms: self.cost.processor_ms,
                read: self.cost.read,
            },
            warnings: self.warnings.iter().map(|code| known(code)).collect(),
        })
    }
}

/// Parses a time in the format of the lines (RFC 3339, UTC).
fn parsed(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

/// Rounds to tenths.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn sum(sum: Sum) -> SumLine {
    (sum.count, sum.bytes)
}

fn unsum((count, bytes): SumLine) -> Sum {
    Sum { count, bytes }
}

fn rest(rest: Rest) -> RestLine {
    (rest.rows, rest.sum.count, rest.sum.bytes, rest.largest)
}

fn unrest((rows, count, bytes, largest): RestLine) -> Rest {
    Rest { rows, sum: Sum { count, bytes }, largest }
}
