//! Decides from the values of a figure over time whether it grows, or is noise.
//!
//! | file | contents |
//! |---|---|
//! | `slope` | the slope of a series, and its significance |
//! | `rank` | the rank test of a trend |
//! | `student` | Student's distribution, for the significance |
//! | `step` | a single step |
//! | `floors` | the lows of a series that goes up and down |
//!
//! docs/trend.md describes the verdicts and how they are made. They depend on the shape only: a series that is twice
//! as large, or begins a day later, has the same verdict. Only [`SeriesTraits::min_change`] sets a minimum size.

mod floors;
mod rank;
pub mod slope;
mod step;
mod student;

pub use slope::{Point, Trend, trend};
pub use step::Step;

use crate::words::Verdict;
use slope::{MIN_RANKED, median, values_of};

/// Facts about a series besides its values.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesTraits {
    /// Minimum change over the whole time that counts as one.
    pub min_change: f64,
    /// Number of collections seen, for objects that a collector frees. Garbage that is not collected yet looks like a
    /// leak. `None` if unused memory is freed at once.
    pub collections: Option<usize>,
}

/// A verdict, with its evidence.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Verdict.
    pub verdict: Verdict,
    /// Evidence for the verdict.
    pub evidence: Evidence,
    /// Slope that the verdict is based on. It covers only a part of the time if [`Evidence`] says so. `None` with fewer
    /// than two times.
    pub trend: Option<Trend>,
}

/// The evidence for a growth verdict. Times and values are those of the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// Too few points for a verdict.
    Few,
    /// All values are within [`SeriesTraits::min_change`].
    Within,
    /// Values vary around a constant one.
    Noise,
    /// Saw tooth: the series goes up and down, and returns to the same lows.
    UpAndDown {
        /// Number of lows.
        lows: usize,
        /// Median of the lows.
        low: f64,
        /// Highest value.
        high: f64,
    },
    /// The series goes one way all the time, in the last half as in the first.
    Always,
    /// Each value is beyond the one before, and there are too few to compare the halves. Has the number of points.
    InOrder(usize),
    /// The series goes one way since this time, at another rate than before.
    Since(f64),
    /// The series goes up and down, and its lows go one way. Has the number of lows.
    Lows(usize),
    /// A single step.
    Step {
        /// Time of the first value after the step.
        at: f64,
        /// Difference between the means after and before the step.
        by: f64,
    },
    /// The series goes one way after a step, or before it.
    BesideStep {
        /// Time of the first value after the step.
        at: f64,
        /// Difference between the means after and before the step.
        by: f64,
    },
    /// Most of the change was in the first half.
    LevelsOff {
        /// Change in the first half of the time.
        first: f64,
        /// Change in the last half.
        last: f64,
    },
    /// The series goes one way, and slower in the last half than in the first.
    Slows {
        /// Change in the first half of the time.
        first: f64,
        /// Change in the last half.
        last: f64,
    },
    /// The series moves back and forth, no further than by chance.
    Wanders,
    /// The series goes one way now, after it went the other way. It may turn again.
    Turned,
    /// The series rises, and almost no collection was seen in that time.
    Uncollected,
}

/// Minimum number of points for a verdict of growth.
pub const MIN_POINTS: usize = 4;

/// Significance level of a growth verdict. Hundreds of series are judged together, and even one that grows by chance
/// is too many. The one exception is [`Trend::in_order`]: six values can't be clearer than in strict order, which has
/// a probability of 1 in 360.
const SIGNIFICANCE: f64 = 0.001;

/// Minimum number of points in a window that is judged by itself.
const MIN_WINDOW: usize = 8;

/// How often an inconclusive series is halved, to judge its last half.
const MAX_HALVINGS: usize = 2;

/// Minimum change in the last half, as a share of the first half's, that counts as the same rate.
const SAME_RATE_RATIO: f64 = 0.5;

/// Minimum change in the last half of the last half, as a share of its first half's, that counts as even growth.
/// Curves that level off have less.
const EVEN_RATIO: f64 = 0.75;

/// Maximum change in the last half, as a share of the first half's, that counts as settled.
const SETTLED_SHARE: f64 = 0.25;

/// Maximum size of a rise, in multiples of the step down before or after it, that counts as a saw tooth.
const TOOTH_RATIO: f64 = 2.0;

/// Minimum net change of a series that goes one way, as a share of the sum of all changes between eighths of the time.
const ONE_WAY: f64 = 0.8;

/// Minimum number of collections seen before growth of a collected heap is reported.
const COLLECTIONS: usize = 3;

/// Minimum number of lows for a judgment by lows. [`MIN_RANKED`] of them can have a direction.
const LOWS: usize = 3;

/// Maximum range of lows that count as equal, as a share of the range of all values.
const SAME_LOWS: f64 = 0.25;

/// Maximum ratio of effective points to points at which individual ups and downs are visible.
const VISIBLE_RATIO: f64 = 0.5;

/// Minimum effective points, and minimum probability of chance, for a series without a trend to be called steady.
const STEADY_EVIDENCE: (f64, f64) = (8.0, 0.05);

/// Judges `points`, which are sorted by time.
pub fn judge(points: &[Point], traits: SeriesTraits) -> Shape {
    let shape = by_values(points, traits, MAX_HALVINGS);
    let collected = traits.collections.is_some_and(|seen| seen < COLLECTIONS);
    if collected && shape.verdict == Verdict::Grows {
        return Shape { verdict: Verdict::Unclear, evidence: Evidence::Uncollected, ..shape };
    }
    shape
}

fn by_values(points: &[Point], traits: SeriesTraits, depth: usize) -> Shape {
    let all = trend(points);
    let shape = |verdict, evidence| Shape { verdict, evidence, trend: all };
    let (Some(whole), true) = (all, points.len() >= MIN_POINTS) else {
        return shape(Verdict::Unclear, Evidence::Few);
    };
    let lowest = points.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|p| p.value).fold(f64::NEG_INFINITY, f64::max);
    if highest - lowest <= traits.min_change {
        return shape(Verdict::Steady, Evidence::Within);
    }
    let quiet = whole.effective >= STEADY_EVIDENCE.0 && whole.apparent > STEADY_EVIDENCE.1;
    let no_trend =
        if quiet { shape(Verdict::Steady, Evidence::Noise) } else { shape(Verdict::Unclear, Evidence::Wanders) };
    let lows = floors::lows(points);
    let saw = lows.len() >= LOWS;
    // Samples miss the lowest moment of a tooth by up to one sample's rise, and by more and more if the teeth are not
    // a whole number of samples long. A smaller change of the lows, or of all values, proves nothing.
    let rise = if saw { usual_rise(points) } else { 0.0 };
    let visible = SeriesTraits { min_change: traits.min_change.max(rise), ..traits };
    let by_lows = saw.then(|| judge_lows(&lows, highest - lowest, highest, visible));
    let by_lows = by_lows.map(|judged| judged.unwrap_or(no_trend)).map(|s| Shape { trend: s.trend.or(all), ..s });
    // A heap grows between collections. How far shows how large it may get, not what it retains.
    if let (Some(judged), true) =
        (by_lows, traits.collections.is_some() && whole.effective < VISIBLE_RATIO * points.len() as f64)
    {
        return judged;
    }
    if let Some(step) = step::find(points).filter(|step| step.by.abs() > traits.min_change) {
        return judge_beside(points, step, traits).unwrap_or_else(|| {
            let at = points.get(step.first_after).map_or(0.0, |p| p.at);
            shape(Verdict::Jumped, Evidence::Step { at, by: step.by })
        });
    }
    if let Some(trend) = significant(points, visible) {
        return judge_rate(points, trend, traits);
    }
    match by_lows {
        Some(judged) if judged.verdict != Verdict::Unclear => judged,
        _ if quiet => no_trend,
        _ => by_tail(points, traits, depth).unwrap_or(no_trend),
    }
}

/// Returns the trend of points that go one way, if it is significant and larger than the minimum change.
fn significant(points: &[Point], traits: SeriesTraits) -> Option<Trend> {
    let trend = trend(points)?;
    let span = points.last()?.at - points.first()?.at;
    let far = (trend.line.slope * span).abs() > traits.min_change;
    let certain = trend.chance < SIGNIFICANCE || trend.in_order;
    (points.len() >= MIN_POINTS && certain && far).then_some(trend)
}

/// Median of the changes upwards from point to point. 0 if there are none.
fn usual_rise(points: &[Point]) -> f64 {
    let changes = points.windows(2).map(|w| w[1].value - w[0].value);
    median(&mut changes.filter(|change| *change > 0.0).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Returns the verdict for points that go one way.
fn one_way(trend: Trend, evidence: Evidence) -> Shape {
    let verdict = if trend.line.slope > 0.0 { Verdict::Grows } else { Verdict::Shrinks };
    Shape { verdict, evidence, trend: Some(trend) }
}

/// Judges a series by its lows. `None` if they move back and forth.
fn judge_lows(lows: &[Point], range: f64, high: f64, traits: SeriesTraits) -> Option<Shape> {
    // Lows depend on when samples were taken, so a few on a line are no evidence. Only their order is.
    let ordered = |t: &Trend| lows.len() >= MIN_RANKED && (t.in_order || 2.0 * t.ranked < SIGNIFICANCE);
    if let Some(trend) = significant(lows, traits).filter(ordered) {
        return Some(one_way(trend, Evidence::Lows(lows.len())));
    }
    let lowest = lows.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
    let highest = lows.iter().map(|p| p.value).fold(f64::NEG_INFINITY, f64::max);
    let low = median(&mut values_of(lows))?;
    let evidence = Evidence::UpAndDown { lows: lows.len(), low, high };
    (highest - lowest <= SAME_LOWS * range).then_some(Shape { verdict: Verdict::Steady, evidence, trend: None })
}

/// Judges a series with a step that goes one way on one side of it: after the step, or before it if that part is
/// longer.
fn judge_beside(points: &[Point], step: Step, traits: SeriesTraits) -> Option<Shape> {
    let (before, after) = points.split_at_checked(step.first_after)?;
    let at = after.first()?.at;
    let evidence = Evidence::BesideStep { at, by: step.by };
    let of = |part: &[Point]| {
        let trend = significant(part, traits).filter(|_| part.len() >= MIN_WINDOW)?;
        let shape = judge_rate(part, trend, traits);
        // Filled slowly and emptied at once: it may be one tooth of many.
        let back = trend.line.slope * step.by < 0.0 && net_change(part) <= TOOTH_RATIO * step.by.abs();
        let judged = if back {
            Shape { verdict: Verdict::Unclear, evidence: Evidence::Turned, ..shape }
        } else {
            Shape { evidence, ..shape }
        };
        matches!(shape.verdict, Verdict::Grows | Verdict::Shrinks).then_some(judged)
    };
    of(after).or_else(|| of(before).filter(|_| after.len() < MIN_WINDOW))
}

/// Absolute difference between the first value and the last.
fn net_change(points: &[Point]) -> f64 {
    points.first().zip(points.last()).map_or(0.0, |(first, last)| (last.value - first.value).abs())
}

/// Judges whether a series that goes one way still does.
fn judge_rate(points: &[Point], trend: Trend, traits: SeriesTraits) -> Shape {
    let halves = Halves::of(points);
    if halves.is_none() && trend.in_order {
        return one_way(trend, Evidence::InOrder(points.len()));
    }
    let Some(halves) = halves.filter(|halves| halves.differ) else {
        return one_way(trend, Evidence::Always);
    };
    let tail = significant(halves.tail, traits).filter(|t| t.line.slope * halves.sign > 0.0);
    let since = halves.tail.first().map_or(0.0, |p| p.at);
    match tail.filter(|_| halves.last > halves.first && !halves.turns() || is_even(halves.tail)) {
        Some(tail) => one_way(tail, Evidence::Since(since)),
        None => halves.slowing(trend),
    }
}

/// Whether a part of the time that goes one way does so evenly.
fn is_even(part: &[Point]) -> bool {
    Halves::of(part).is_some_and(|halves| part.len() >= MIN_WINDOW && halves.last >= EVEN_RATIO * halves.first)
}

/// Judges the last half of a series without a trend: it may have started to go one way, or stopped.
fn by_tail(points: &[Point], traits: SeriesTraits, depth: usize) -> Option<Shape> {
    let halves = Halves::of(points).filter(|halves| depth > 0 && halves.tail.len() >= MIN_WINDOW)?;
    let judged = by_values(halves.tail, traits, depth - 1);
    let since = halves.tail.first()?.at;
    let trend = trend(points)?;
    let goes_on = matches!(judged.verdict, Verdict::Grows | Verdict::Shrinks);
    match judged.evidence {
        _ if goes_on && (halves.turns() || halves.falls_back()) => {
            Some(Shape { verdict: Verdict::Unclear, evidence: Evidence::Turned, ..judged })
        }
        Evidence::Since(_) | Evidence::BesideStep { .. } if goes_on && Halves::of(halves.tail)?.begins() => {
            Some(judged)
        }
        _ if goes_on && (halves.begins() || is_even(halves.tail)) => {
            Some(Shape { evidence: Evidence::Since(since), ..judged })
        }
        _ if halves.one_way && halves.differ && halves.first > halves.last => Some(halves.slowing(trend)),
        _ => None,
    }
}

/// The changes in both halves of the time.
struct Halves<'a> {
    /// Direction of the whole: 1 up, −1 down.
    sign: f64,
    /// Change in the first half, in that direction.
    first: f64,
    /// Change in the last half, in that direction.
    last: f64,
    /// Range of the levels in the first half.
    moved: f64,
    /// How far the last half falls back behind the furthest level of the first half.
    back: f64,
    /// Whether the rates of both halves differ by more than noise.
    differ: bool,
    /// Whether it goes one way, with few exceptions.
    one_way: bool,
    /// Points of the last half.
    tail: &'a [Point],
}

impl Halves<'_> {
    /// `None` if either half has too few points.
    fn of(points: &[Point]) -> Option<Halves<'_>> {
        let (start, end) = (points.first()?, points.last()?);
        let middle = f64::midpoint(start.at, end.at);
        let split = points.partition_point(|p| p.at < middle);
        let (head, tail) = points.split_at_checked(split)?;
        if head.len() < MIN_POINTS || tail.len() < MIN_POINTS {
            return None;
        }
        // Levels at the start, in the middle and at the end. The slopes of a staircase are zero in between.
        let some = (points.len() / 20).max(1);
        let level = |of: &[Point]| median(&mut values_of(of));
        // As many points before the middle as after it.
        let beside = some.div_ceil(2);
        let around = split.saturating_sub(beside)..(split + beside + points.len() % 2).min(points.len());
        let low = level(points.get(..some)?)?;
        let half = level(points.get(around)?)?;
        let high = level(points.get(points.len() - some..)?)?;
        let sign = (high - low).signum();
        let (first, last) = ((half - low) * sign, (high - half) * sign);
        let (noise, walk) = noises(points);
        // The median of some values varies by this, and the middle one counts twice. A walk continues in either half.
        let chance = 6.0 * 1.25 * 1.25 * noise / some as f64 + walk * points.len() as f64;
        let differ = (first - last).abs() > 2.0 * chance.sqrt() && first.min(last) < SAME_RATE_RATIO * first.max(last);
        let eighth = (points.len() / 8).max(1);
        let levels = |of: &[Point]| of.chunks(eighth).filter_map(level).collect::<Vec<f64>>();
        let ways: f64 = levels(points).windows(2).map(|w| (w[1] - w[0]).abs()).sum();
        let of_head = levels(head);
        let moved = of_head.iter().copied().fold(f64::MIN, f64::max) - of_head.iter().copied().fold(f64::MAX, f64::min);
        let reached = of_head.iter().map(|v| v * sign).fold(f64::MIN, f64::max);
        let back = reached - levels(tail).iter().map(|v| v * sign).fold(f64::MAX, f64::min);
        let one_way = (high - low).abs() >= ONE_WAY * ways;
        Some(Halves { sign, first, last, moved, back, differ, one_way, tail })
    }

    /// Whether it goes one way in the last half, and hardly moved in the first.
    fn begins(&self) -> bool {
        self.last > self.first && self.moved < SAME_RATE_RATIO * self.last && !self.turns()
    }

    /// Whether it went the other way in the first half.
    fn turns(&self) -> bool {
        let (less, more) =
            if self.last.abs() > self.first.abs() { (self.first, self.last) } else { (self.last, self.first) };
        less * more < 0.0 && less.abs() > SETTLED_SHARE * more.abs()
    }

    /// Whether the last half begins far behind what the first half had reached: it may be a second tooth.
    fn falls_back(&self) -> bool {
        self.back > SETTLED_SHARE * self.last.abs()
    }

    /// Judges a series that slows down: it has stopped, or it is too early to say.
    fn slowing(&self, trend: Trend) -> Shape {
        let (first, last) = (self.first * self.sign, self.last * self.sign);
        // There may be a slow leak after a warm-up, still hidden by noise.
        let rises =
            slope::trend(self.tail).is_some_and(|t| t.apparent < STEADY_EVIDENCE.1 && t.line.slope * self.sign > 0.0);
        let (verdict, evidence) = if self.last <= SETTLED_SHARE * self.first && !(rises && is_even(self.tail)) {
            (Verdict::Settled, Evidence::LevelsOff { first, last })
        } else {
            (Verdict::Unclear, Evidence::Slows { first, last })
        };
        Shape { verdict, evidence, trend: Some(trend) }
    }
}

/// Returns the variances of independent noise, and of the steps of a random walk beneath it. Noise makes successive
/// changes go opposite ways, but a walk does not. So the covariance of the changes separates the two.
fn noises(points: &[Point]) -> (f64, f64) {
    let changes: Vec<f64> = points.windows(2).map(|w| w[1].value - w[0].value).collect();
    let count = changes.len().max(1) as f64;
    let mean = changes.iter().sum::<f64>() / count;
    let variance = changes.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / count;
    let covariance = changes.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / count;
    let noise = (-covariance).clamp(0.0, variance / 2.0);
    (noise, variance - 2.0 * noise)
}

#[cfg(test)]
mod tests;
