use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Part, RecordingEnd};
use crate::series::Cost;

/// `record`: what was recorded, and what that cost the process. Times in milliseconds, sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordReport {
    /// The file; `null`: it went to standard output.
    pub file: Option<String>,
    /// Bytes of it.
    pub bytes: u64,
    /// Looks in it.
    pub looks: u64,
    /// Seconds from the first to the last.
    pub seconds: f64,
    /// Seconds from look to look that were asked for.
    pub every: f64,
    /// Why it ended.
    pub ended: RecordingEnd,
    /// What the looks cost.
    pub cost: RecordCost,
    /// How many looks took what in.
    pub parts: Vec<PartRow>,
}

/// What the looks of a recording cost.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RecordCost {
    /// How long the process stood still; `null`: it is a core.
    pub stopped_ms: Option<Spread>,
    /// Share of the time of the recording in which the process stood still, from 0 to 1; `null`: it is a core, or was looked at once.
    pub stopped_share: Option<f64>,
    /// How long a look took.
    pub wall_ms: Spread,
    /// Time on processors; `null` where the system does not tell.
    pub processor_ms: Option<Spread>,
    /// Bytes read of the process's memory; `null` where nobody counted.
    pub read: Option<Spread>,
}

impl RecordCost {
    /// What these looks cost, in so many seconds from the first to the last.
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

/// A figure of all looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Half of the looks have no more.
    pub median: f64,
    /// The most that one has.
    pub most: f64,
    /// All together.
    pub total: f64,
}

impl Spread {
    /// Of these figures; `None` where there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = figures.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let tenths = |number: f64| (number * 10.0).round() / 10.0;
        let median = tenths(*all.get(all.len().checked_sub(1)? / 2)?);
        Some(Spread { median, most: tenths(*all.last()?), total: tenths(all.iter().sum()) })
    }
}

/// How many looks took a part in.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PartRow {
    /// Which.
    pub part: Part,
    /// Looks that have it.
    pub looks: u64,
}

impl Default for PartRow {
    fn default() -> PartRow {
        PartRow { part: Part::Types, looks: 0 }
    }
}
