use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::record::RecordCost;
use crate::report::{Measure, Name, SeriesClock, SeriesOf, Verdict};

/// `trend`: what becomes of each figure from look to look. Sizes in bytes, times in seconds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrendReport {
    /// What was read.
    pub files: Vec<TrendFile>,
    /// Looks in all.
    pub looks: u64,
    /// From the first to the last; `null` where only their order is known.
    pub seconds: Option<f64>,
    /// By what the looks are apart.
    pub clock: SeriesClock,
    /// Collections of garbage that were seen: looks at which there were less objects than at the one before. `null` where nothing is
    /// freed by a collector alone, or nobody looked.
    pub collections: Option<u64>,
    /// What the looks of recordings cost; `null` where there are cores alone.
    pub cost: Option<RecordCost>,
    /// What the control group of the process may have at most; `null`: no limit, or not known.
    pub limit: Option<u64>,
    /// What grows first, by how fast; then what jumped, what is unclear, settled, shrinks, is steady.
    pub series: Vec<SeriesRow>,
}

/// A recording, or a core.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrendFile {
    /// Path as given.
    pub path: String,
    /// Whether it is a recording; else it is a core, or a process that was looked at now.
    pub recording: bool,
    /// Looks in it.
    pub looks: u64,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: String,
}

/// A figure, and what becomes of it. In bytes, or of `count` in things.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SeriesRow {
    /// What becomes of it.
    pub verdict: Verdict,
    /// What it is of.
    pub of: SeriesOf,
    /// Which one: the kind, the type, the size in bytes, the finding.
    pub name: Name,
    /// What of it is measured.
    pub measure: Measure,
    /// Change in an hour; `null` where times are not known.
    pub per_hour: Option<f64>,
    /// Between this and `per_hour_high` it is in 19 of 20 cases; `null` where that can't be told.
    pub per_hour_low: Option<f64>,
    /// See `per_hour_low`.
    pub per_hour_high: Option<f64>,
    /// Change in a minute.
    pub per_minute: Option<f64>,
    /// Of what grows or shrinks: 1 less how often chance does the like, up to 0.9999; else `null`.
    pub confidence: Option<f64>,
    /// At the first look that knows it.
    pub first: u64,
    /// At the last.
    pub last: u64,
    /// The least that it was.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// `last` − `first`.
    pub change: i64,
    /// How many there were at first: objects, blocks, regions; `null` where it is of no such things.
    pub first_count: Option<u64>,
    /// How many at last.
    pub last_count: Option<u64>,
    /// Looks that know it.
    pub looks: u64,
    /// What the verdict rests on, in words.
    pub why: String,
    /// Of what grows: seconds until there is one GiB more.
    pub gib_more_in: Option<f64>,
    /// Of all memory, if it grows: seconds until the control group is at its limit.
    pub limit_in: Option<f64>,
    /// The command that shows more of what grows or jumped, ready to be typed.
    pub command: Option<String>,
}
