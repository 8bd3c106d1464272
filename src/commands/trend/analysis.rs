use std::cmp::Ordering;

use crate::commands::record::RecordCost;
use crate::commands::trend::figures::{self, ALL_OBJECTS, Key, Value};
use crate::commands::trend::report::{SeriesRow, TrendFile, TrendReport};
use crate::commands::trend::sentences;
use crate::map::Kind;
use crate::map::kind_facts::Contents;
use crate::report::{Measure, SeriesClock, SeriesOf, Verdict};
use crate::series::shape::{Point, SeriesTraits, Shape, judge};
use crate::series::{Moment, Recording};
use crate::shell::{quoted, whole_name};

/// A recording, or a core as a recording with one sample.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path as given.
    pub path: String,
    /// Whether it is a recording.
    pub is_recording: bool,
    /// The samples.
    pub recording: Recording,
}

/// Why samples cannot form a series.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrendError {
    /// An input without samples.
    #[error("{0} contains no samples")]
    Empty(String),
    /// Recordings of different processes.
    #[error(
        "{first} and {second} are recordings of different processes (the pid or start time differs from process {pid}); a trend is of one process"
    )]
    TwoProcesses {
        /// Path of a recording.
        first: String,
        /// Process id in the first recording.
        pid: u32,
        /// Path of the other recording.
        second: String,
    },
    /// Inputs that are not in the order of their times.
    #[error("cores are out of order by file time: {0} is older than the file before it; list them oldest first")]
    Order(String),
}

/// Minimum change over the whole time to be reported: in bytes, and in items.
const MIN_CHANGE_BYTES: f64 = 65_536.0;
const MIN_CHANGE_COUNT: f64 = 2.0;

/// Maximum confidence that is ever reported.
const MAX_CONFIDENCE: f64 = 0.9999;

const GIB: f64 = (1u64 << 30) as f64;
const HOUR: f64 = 3600.0;

/// Judges each figure of the samples of `sources`, in their order. `every` is the number of seconds between cores, if
/// the files' times are not to be used.
///
/// # Errors
/// [`TrendError`]
pub fn trend(sources: &[Source], every: Option<f64>) -> Result<TrendReport, TrendError> {
    if let Some(empty) = sources.iter().find(|s| s.recording.moments.is_empty()) {
        return Err(TrendError::Empty(empty.path.clone()));
    }
    one_process(sources)?;
    let moments: Vec<&Moment> = sources.iter().flat_map(|s| &s.recording.moments).collect();
    let (clock, times) = times(sources, every)?;
    let collected = sources.iter().any(|s| s.recording.subject.collected);
    let collections = collected.then(|| collections(&moments)).flatten();
    let last = moments.last();
    let (limit, charged) = last.map_or((None, None), |m| (m.kernel.limit, m.kernel.charged));
    let rated = clock != SeriesClock::Order;
    let about = About { times: &times, rated, collected, collections, limit, charged, of: sources.last() };
    let mut series: Vec<SeriesRow> =
        figures::all(&moments).iter().map(|(key, values)| about.row(key, values)).collect();
    series.sort_by(by_weight);
    Ok(TrendReport {
        files: sources.iter().map(file).collect(),
        looks: moments.len() as u64,
        seconds: rated.then(|| times.last().copied().unwrap_or_default()),
        clock,
        collections: collections.map(|n| n as u64),
        cost: sources.iter().any(|s| s.is_recording).then(|| {
            let seconds = if rated { times.last().copied().unwrap_or_default() } else { 0.0 };
            RecordCost::of(moments.iter().map(|m| &m.cost), seconds)
        }),
        limit,
        series,
    })
}

fn file(source: &Source) -> TrendFile {
    let of = &source.recording.subject;
    TrendFile {
        path: source.path.clone(),
        recording: source.is_recording,
        looks: source.recording.moments.len() as u64,
        pid: of.pid,
        name: of.name.clone(),
    }
}

/// Checks that all recordings are of one process. Cores are not checked: their process id may be lost, or they may be
/// of several pods, and the report shows them.
fn one_process(sources: &[Source]) -> Result<(), TrendError> {
    let who = |s: &Source| s.recording.subject.pid.zip(s.recording.subject.start_ticks);
    let mut recordings = sources.iter().filter(|s| s.is_recording && who(s).is_some());
    let Some(first) = recordings.next() else { return Ok(()) };
    match recordings.find(|s| who(s) != who(first)) {
        Some(other) => Err(TrendError::TwoProcesses {
            first: first.path.clone(),
            pid: first.recording.subject.pid.unwrap_or_default(),
            second: other.path.clone(),
        }),
        None => Ok(()),
    }
}

/// Times of the samples in seconds from the first one, and their source.
fn times(sources: &[Source], every: Option<f64>) -> Result<(SeriesClock, Vec<f64>), TrendError> {
    if let [source] = sources {
        let first = source.recording.moments.first().map_or(0.0, |m| m.seconds);
        return Ok((SeriesClock::Recorded, source.recording.moments.iter().map(|m| m.seconds - first).collect()));
    }
    let moments: Vec<(&Source, &Moment)> =
        sources.iter().flat_map(|s| s.recording.moments.iter().map(move |m| (s, m))).collect();
    let number = |i: usize| i as f64;
    let only_cores = sources.iter().all(|s| !s.is_recording);
    if let Some(every) = every.filter(|_| only_cores) {
        return Ok((SeriesClock::Given, (0..moments.len()).map(|i| number(i) * every).collect()));
    }
    let begin = moments.first().and_then(|(_, m)| m.time);
    let since = |m: &Moment| m.time?.duration_since(begin?).ok().map(|time| time.as_secs_f64());
    let known: Option<Vec<f64>> = moments.iter().map(|(_, m)| since(m)).collect();
    let wrong = |times: &Vec<f64>| times.windows(2).position(|w| w[1] <= w[0]);
    let clock = if only_cores { SeriesClock::Modified } else { SeriesClock::Recorded };
    match known {
        Some(times) if wrong(&times).is_none() => Ok((clock, times)),
        _ if only_cores => Ok((SeriesClock::Order, (0..moments.len()).map(number).collect())),
        known => {
            let at = known.as_ref().and_then(wrong).map_or(0, |at| at + 1);
            Err(TrendError::Order(moments.get(at).map(|(s, _)| s.path.clone()).unwrap_or_default()))
        }
    }
}

/// Number of times that objects shrank between samples; only a collection does that. `None` if objects were not
/// counted.
fn collections(moments: &[&Moment]) -> Option<usize> {
    let totals: Vec<u64> = moments.iter().filter_map(|m| Some(m.types.as_ref()?.total.bytes)).collect();
    (!totals.is_empty()).then(|| totals.windows(2).filter(|w| w[1] < w[0] - w[0] / 1000).count())
}

/// Context that all series share.
struct About<'a> {
    times: &'a [f64],
    /// Whether the times are real times.
    rated: bool,
    collected: bool,
    collections: Option<usize>,
    limit: Option<u64>,
    charged: Option<u64>,
    of: Option<&'a Source>,
}

impl About<'_> {
    fn traits(&self, key: &Key) -> SeriesTraits {
        let min_change = if key.measure == Measure::Count { MIN_CHANGE_COUNT } else { MIN_CHANGE_BYTES };
        let objects = match key.of {
            SeriesOf::Type => true,
            SeriesOf::Kind => Kind::from_name(&key.name).is_some_and(Kind::holds_objects),
            SeriesOf::Finding => matches!(&*key.name, "managed-heap" | "large-objects" | "heap-fragmentation"),
            _ => false,
        };
        let collections = (self.collected && objects).then(|| self.collections.unwrap_or(0));
        SeriesTraits { min_change, collections }
    }

    fn row(&self, key: &Key, values: &[Value]) -> SeriesRow {
        let at = |v: &Value| self.times.get(v.sample).copied().unwrap_or_default();
        let points: Vec<Point> = values.iter().map(|v| Point { at: at(v), value: v.value as f64 }).collect();
        let shape = judge(&points, self.traits(key));
        let one_way = matches!(shape.verdict, Verdict::Grows | Verdict::Shrinks);
        let per_hour = |of: f64| Some(of * HOUR).filter(|rate| self.rated && rate.is_finite()).map(rounded);
        let trend = shape.trend;
        // The verdict may rest on other evidence than the slope, and then the slope may be meaningless.
        let bounded = trend.filter(|t| one_way && t.low.signum() == t.high.signum());
        let slope = trend.map(|t| t.line.slope);
        let grows = shape.verdict == Verdict::Grows;
        let rate = slope.filter(|slope| grows && self.rated && *slope > 0.0);
        let bytes = key.measure != Measure::Count;
        let of_all = key.of == SeriesOf::Total && key.measure == Measure::Rss;
        let room = self.limit.zip(self.charged).map(|(limit, charged)| limit.saturating_sub(charged) as f64);
        let value = |v: Option<&Value>| v.map_or(0, |v| v.value);
        let (first, last) = (values.first(), values.last());
        let of = |pick: fn(u64, u64) -> u64| values.iter().map(|v| v.value).reduce(pick).unwrap_or_default();
        SeriesRow {
            verdict: shape.verdict,
            of: key.of,
            name: key.name.clone(),
            measure: key.measure,
            per_hour: slope.and_then(per_hour),
            per_hour_low: bounded.and_then(|t| per_hour(t.low)),
            per_hour_high: bounded.and_then(|t| per_hour(t.high)),
            per_minute: slope.and_then(|s| per_hour(s / 60.0)),
            confidence: trend
                .filter(|_| one_way)
                .map(|t| ((1.0 - t.chance).clamp(0.0, MAX_CONFIDENCE) * 1e4).floor() / 1e4),
            first: value(first),
            last: value(last),
            least: of(u64::min),
            most: of(u64::max),
            change: difference(value(last), value(first)),
            first_count: first.and_then(|v| v.count),
            last_count: last.and_then(|v| v.count),
            looks: values.len() as u64,
            why: sentences::why(&shape, key.measure, self.rated),
            gib_more_in: rate.filter(|_| bytes).map(|rate| (GIB / rate).round()),
            limit_in: rate.zip(room).filter(|_| of_all).map(|(rate, room)| (room / rate).round()),
            command: self.command(key, &shape),
        }
    }

    /// The command that shows more of a series: of the process if it still runs, or else of the last core.
    fn command(&self, key: &Key, shape: &Shape) -> Option<String> {
        let of = self.of?;
        let path = if of.is_recording { &of.recording.subject.path } else { &of.path };
        if !matches!(shape.verdict, Verdict::Grows | Verdict::Jumped) {
            return None;
        }
        let command = match key.of {
            SeriesOf::Type if &*key.name == ALL_OBJECTS => "heapstat".to_owned(),
            SeriesOf::Type => {
                format!("gcroot --type {}", quoted(&whole_name(&key.name)))
            }
            SeriesOf::Malloc | SeriesOf::MallocClass | SeriesOf::MallocSize => "leaks".to_owned(),
            SeriesOf::Threads => "threads --group".to_owned(),
            SeriesOf::Finding | SeriesOf::Total => "triage".to_owned(),
            SeriesOf::Kind => of_kind(Kind::from_name(&key.name)?),
        };
        Some(format!("coremap {command} {}", quoted(path)))
    }
}

/// The command that shows more of a kind.
fn of_kind(kind: Kind) -> String {
    match kind.facts().contents {
        Contents::Blocks => "malloc".to_owned(),
        Contents::Objects => "heapstat".to_owned(),
        Contents::Frames => "stacks".to_owned(),
        Contents::Unclaimed => "anon".to_owned(),
        Contents::Nothing if kind == Kind::StackGuard => "stacks".to_owned(),
        Contents::Nothing
        | Contents::File
        | Contents::Program
        | Contents::FreeHeap
        | Contents::LoaderHeap
        | Contents::Stubs
        | Contents::Structures
        | Contents::Unwalked => format!("regions --kind {kind} --sort size"),
    }
}

/// Rounds a rate to its significant digits.
fn rounded(rate: f64) -> f64 {
    if rate.abs() >= 100.0 { rate.round() } else { (rate * 100.0).round() / 100.0 }
}

fn difference(new: u64, old: u64) -> i64 {
    i64::try_from(i128::from(new) - i128::from(old)).unwrap_or(if new > old { i64::MAX } else { i64::MIN })
}

/// Order of the rows: growing series first, fastest first. Counts come last.
fn by_weight(a: &SeriesRow, b: &SeriesRow) -> Ordering {
    let rank = |row: &SeriesRow| match row.verdict {
        Verdict::Grows => 0,
        Verdict::Jumped => 1,
        Verdict::Unclear => 2,
        Verdict::Settled => 3,
        Verdict::Shrinks => 4,
        Verdict::Steady => 5,
    };
    let rate = |row: &SeriesRow| match row.verdict {
        Verdict::Grows => row.per_hour.unwrap_or(row.change as f64),
        _ => row.change as f64,
    };
    let counts = |row: &SeriesRow| row.measure == Measure::Count;
    // Among views of the same bytes the most specific comes first: a size, a type.
    let close = |row: &SeriesRow| std::cmp::Reverse(row.of);
    rank(a)
        .cmp(&rank(b))
        .then(counts(a).cmp(&counts(b)))
        .then(rate(b).abs().total_cmp(&rate(a).abs()))
        .then(close(a).cmp(&close(b)))
        .then_with(|| a.name.cmp(&b.name))
        .then(a.measure.cmp(&b.measure))
}
