use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Part, RecordingEnd};
use crate::series::Cost;

/// `record`: the recording, and what it cost the process. Times in milliseconds, sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordReport {
    /// The file. `null` for standard output.
    pub file: Option<String>,
    /// Length in bytes.
    pub bytes: u64,
    /// Number of samples.
    pub looks: u64,
    /// Seconds from the first to the last sample.
    pub seconds: f64,
    /// Requested interval in seconds.
    pub every: f64,
    /// Why the recording ended.
    pub ended: RecordingEnd,
    /// Cost of the samples.
    pub cost: RecordCost,
    /// Number of samples that include each optional part.
    pub parts: Vec<PartRow>,
}

/// Cost of the samples of a recording.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RecordCost {
    /// Time that the process was stopped. `null` for a core.
    pub stopped_ms: Option<Spread>,
    /// Share of the recording time in which the process was stopped, from 0 to 1. `null` for a core or a single sample.
    pub stopped_share: Option<f64>,
    /// Duration of a sample.
    pub wall_ms: Spread,
    /// Processor time. `null` if the system does not report it.
    pub processor_ms: Option<Spread>,
    /// Bytes of process memory read. `null` if not counted.
    pub read: Option<Spread>,
}

impl RecordCost {
    /// Cost of these samples over `seconds`, from the first to the last.
    pub fn of<'a>(costs: impl Iterator<Item = &'a Cost> + Clone, seconds: f64) -> RecordCost {
        let all = |of: fn(&Cost) -> Option<f64>| Spread::of(costs.clone().filter_map(of));
        let stopped_ms = all(|c| c.stopped_ms);
        let share = stopped_ms.filter(|_| seconds > 0.0).map(|s| (s.total / seconds / 1e3 * 1e6).round() / 1e6);
        RecordCost {
            stopped_share: share,
            stopped_ms,
            wall_ms: all(|c| Some(c.wall_ms)).unwrap_or_default(),
            processor_ms: all(|c| c.processor_ms),
            read: all(|c| c.read.map(|bytes| bytes as f64)),
        }
    }
}

/// A figure over all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Maximum.
    pub most: f64,
    /// Sum.
    pub total: f64,
}

impl Spread {
    /// Summarises `figures`. `None` if there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = figures.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let tenths = |number: f64| (number * 10.0).round() / 10.0;
        let median = tenths(*all.get(all.len().checked_sub(1)? / 2)?);
        Some(Spread { median, most: tenths(*all.last()?), total: tenths(all.iter().sum::<f64>()) })
    }
}

/// Number of samples that include a part.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PartRow {
    /// The part.
    pub part: Part,
    /// Number of samples that include it.
    pub looks: u64,
}

impl Default for PartRow {
    fn default() -> PartRow {
        PartRow { part: Part::Types, looks: 0 }
    }
}
