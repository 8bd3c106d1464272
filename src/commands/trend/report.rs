use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::record::RecordCost;
use crate::report::{Measure, Name, SeriesClock, SeriesOf, Verdict};

/// `trend`: how each figure changes over the samples. Sizes in bytes, times in seconds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrendReport {
    /// Input files.
    pub files: Vec<TrendFile>,
    /// Number of samples.
    pub looks: u64,
    /// Seconds from the first to the last sample. `null` if only their order is known.
    pub seconds: Option<f64>,
    /// How the samples are spaced.
    pub clock: SeriesClock,
    /// Number of garbage collections seen: samples with fewer objects than the one before. `null` if the runtime frees
    /// without a collector, or objects were not counted.
    pub collections: Option<u64>,
    /// Cost of the samples of recordings. `null` if all inputs are cores.
    pub cost: Option<RecordCost>,
    /// Memory limit of the control group. `null` if there is none or it is unknown.
    pub limit: Option<u64>,
    /// Growing figures first, by rate; then jumped, unclear, settled, shrinking and steady ones.
    pub series: Vec<SeriesRow>,
}

/// A recording or a core.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrendFile {
    /// Path as given.
    pub path: String,
    /// True for a recording, false for a core or a running process.
    pub recording: bool,
    /// Number of samples.
    pub looks: u64,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: String,
}

/// A figure over time. In bytes, or in items for `count`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SeriesRow {
    /// How it changes.
    pub verdict: Verdict,
    /// Subject of the figure.
    pub of: SeriesOf,
    /// Name of the subject: the kind, the type, the size in bytes, the finding.
    pub name: Name,
    /// Measure.
    pub measure: Measure,
    /// Change per hour. `null` if times are unknown.
    pub per_hour: Option<f64>,
    /// Lower bound of the 95 % confidence interval of `per_hour`. `null` if unknown.
    pub per_hour_low: Option<f64>,
    /// Upper bound of that interval.
    pub per_hour_high: Option<f64>,
    /// Change per minute.
    pub per_minute: Option<f64>,
    /// For growth and shrinking: 1 − probability of chance, at most 0.9999. Otherwise `null`.
    pub confidence: Option<f64>,
    /// Value in the first sample that has it.
    pub first: u64,
    /// Value in the last sample.
    pub last: u64,
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
    /// `last` − `first`.
    pub change: i64,
    /// Number of objects, blocks or regions in the first sample. `null` if not applicable.
    pub first_count: Option<u64>,
    /// Number in the last sample.
    pub last_count: Option<u64>,
    /// Number of samples that have it.
    pub looks: u64,
    /// The evidence for the verdict, in words.
    pub why: String,
    /// For growth: seconds until it has grown by 1 GiB.
    pub gib_more_in: Option<f64>,
    /// For all memory, if it grows: seconds until the control group reaches its limit.
    pub limit_in: Option<f64>,
    /// Command that shows more of a growing or jumped figure, ready to paste.
    pub command: Option<String>,
}
