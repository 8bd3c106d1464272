//! What becomes of a figure from look to look, told from its values alone: does it grow, or is it noise?
//!
//! | file | holds |
//! |---|---|
//! | `slope` | the slope of a series, and how often chance does the like |
//! | `student` | Student's distribution, for that |
//! | `step` | one step |
//! | `floors` | the lows of what goes up and down |
//!
//! docs/trend.md tells what the verdicts mean and how they are made. They are about the shape alone: a series that is twice
//! as large, or begins a day later, has the same. Only [`Nature::least`] knows how much is worth a word.

mod floors;
pub mod slope;
mod step;
mod student;

pub use slope::{Point, Trend, trend};
pub use step::Step;

use crate::words::Verdict;
use slope::{median, values_of};

/// What is known of a series beside its values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nature {
    /// A change of less than this in all the time is none.
    pub least: f64,
    /// Of objects that a collector frees: how many collections were seen in the time. Garbage that is not collected yet
    /// looks like a leak. `None`: what is not used any more is freed at once.
    pub collections: Option<usize>,
}

/// A verdict, with what it rests on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
    /// The slope that tells it: that of a part of the time where [`Why`] says so. `None` with less than two times.
    pub trend: Option<Trend>,
}

/// What a verdict rests on. Times and values are those of the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Too few points to tell anything.
    Few,
    /// All values lie within [`Nature::least`].
    Within,
    /// Values vary about one that stays.
    Noise,
    /// It goes up and down, so many times, and comes back to the same lows.
    UpAndDown {
        /// Lows.
        lows: usize,
        /// The middle one of them.
        low: f64,
        /// The highest value.
        high: f64,
    },
    /// It goes one way all the time, in the last half as in the first.
    Always,
    /// It goes one way since a time, at another pace than before.
    Since(f64),
    /// It goes up and down, and its lows go one way.
    Lows(usize),
    /// One step.
    Step {
        /// Time of the first value behind it.
        at: f64,
        /// From the mean before to the mean behind.
        by: f64,
    },
    /// It goes one way behind a step, or before it.
    BesideStep {
        /// Time of the first value behind the step.
        at: f64,
        /// From the mean before to the mean behind.
        by: f64,
    },
    /// Most of the change was in the first half.
    LevelsOff {
        /// Change in the first half of the time.
        first: f64,
        /// Change in the last half.
        last: f64,
    },
    /// It goes one way, and slower in the last half than in the first.
    Slows {
        /// Change in the first half of the time.
        first: f64,
        /// Change in the last half.
        last: f64,
    },
    /// It goes this way and that, as far as chance takes things.
    Wanders,
    /// It goes one way now, after it went the other way: it may turn again.
    Turned,
    /// It rises, and hardly a collection was seen meanwhile.
    Uncollected,
}

/// Points from which on growth is told at all.
pub const LEAST_POINTS: usize = 4;

/// Chance does what a verdict of growth rests on less often than this. Hundreds of series are looked at together, and one of
/// them that grows by chance is one too many.
const CHANCE: f64 = 0.001;

/// Points that a part of the time needs to be judged by itself.
const PART: usize = 8;

/// Where the whole tells nothing, its last half is asked, and that one's last half.
const DEPTH: usize = 2;

/// In the last half at least so much of the change of the first: as fast, for most purposes.
const AS_FAST: f64 = 0.5;

/// The last half by itself rises evenly where its own last half has so much of the change of the first: curves that level
/// off have less.
const EVEN: f64 = 0.75;

/// In the last half no more than so much of the change of the first: that is over.
const OVER: f64 = 0.25;

/// A way up that is no more than so many times the step down before it, or behind it, is a tooth.
const TEETH: f64 = 2.0;

/// Of all ways up and down, from an eighth of the time to the next, so much is left in the end where it goes one way.
const ONE_WAY: f64 = 0.8;

/// Collections that must have been seen before what a collector frees is called growth.
const COLLECTIONS: usize = 3;

/// Lows that must be there to be judged.
const LOWS: usize = 3;

/// Lows within so much of all between the highest and the lowest value are the same.
const SAME_LOWS: f64 = 0.25;

/// Points are worth less than this share of their number where ups and downs can be seen one by one.
const SEEN: f64 = 0.5;

/// Independent points, and how often chance must do the like, from which on what shows no trend has none.
const QUIET: (f64, f64) = (8.0, 0.05);

/// What becomes of `points`, which are in the order of their times.
pub fn judge(points: &[Point], nature: Nature) -> Shape {
    let shape = by_values(points, nature, DEPTH);
    let collected = nature.collections.is_some_and(|seen| seen < COLLECTIONS);
    if collected && shape.verdict == Verdict::Grows {
        return Shape { verdict: Verdict::Unclear, why: Why::Uncollected, ..shape };
    }
    shape
}

fn by_values(points: &[Point], nature: Nature, depth: usize) -> Shape {
    let all = trend(points);
    let shape = |verdict, why| Shape { verdict, why, trend: all };
    let (Some(whole), true) = (all, points.len() >= LEAST_POINTS) else {
        return shape(Verdict::Unclear, Why::Few);
    };
    let lowest = points.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|p| p.value).fold(f64::NEG_INFINITY, f64::max);
    if highest - lowest <= nature.least {
        return shape(Verdict::Steady, Why::Within);
    }
    let quiet = whole.effective >= QUIET.0 && whole.apparent > QUIET.1;
    let no_trend = if quiet { shape(Verdict::Steady, Why::Noise) } else { shape(Verdict::Unclear, Why::Wanders) };
    let lows = floors::lows(points);
    let by_lows = (lows.len() >= LOWS).then(|| of_lows(&lows, highest - lowest, highest, nature));
    let by_lows = by_lows.map(|told| told.unwrap_or(no_trend)).map(|s| Shape { trend: s.trend.or(all), ..s });
    // Between collections a heap grows, and how far says how large it may get and not what is kept.
    if let (Some(told), true) = (by_lows, nature.collections.is_some() && whole.effective < SEEN * points.len() as f64)
    {
        return told;
    }
    if let Some(step) = step::find(points).filter(|step| step.by.abs() > nature.least) {
        return beside(points, step, nature).unwrap_or_else(|| {
            let at = points.get(step.first_after).map_or(0.0, |p| p.at);
            shape(Verdict::Jumped, Why::Step { at, by: step.by })
        });
    }
    if let Some(trend) = significant(points, nature) {
        return pace(points, trend, nature);
    }
    match by_lows {
        Some(told) if told.verdict != Verdict::Unclear => told,
        _ if quiet => no_trend,
        _ => by_tail(points, nature, depth).unwrap_or(no_trend),
    }
}

/// The trend of points that go one way, further than noise goes and than is worth no word.
fn significant(points: &[Point], nature: Nature) -> Option<Trend> {
    let trend = trend(points)?;
    let span = points.last()?.at - points.first()?.at;
    let far = (trend.line.slope * span).abs() > nature.least;
    (points.len() >= LEAST_POINTS && trend.chance < CHANCE && far).then_some(trend)
}

/// What goes one way: that is its verdict.
fn one_way(trend: Trend, why: Why) -> Shape {
    let verdict = if trend.line.slope > 0.0 { Verdict::Grows } else { Verdict::Shrinks };
    Shape { verdict, why, trend: Some(trend) }
}

/// What the lows of a series say; `None` where they go this way and that.
fn of_lows(lows: &[Point], range: f64, high: f64, nature: Nature) -> Option<Shape> {
    if let Some(trend) = significant(lows, nature) {
        return Some(one_way(trend, Why::Lows(lows.len())));
    }
    let lowest = lows.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
    let highest = lows.iter().map(|p| p.value).fold(f64::NEG_INFINITY, f64::max);
    let low = median(&mut values_of(lows))?;
    let why = Why::UpAndDown { lows: lows.len(), low, high };
    (highest - lowest <= SAME_LOWS * range).then_some(Shape { verdict: Verdict::Steady, why, trend: None })
}

/// A series with a step that goes one way on one side of it: behind it, or before it for longer than behind.
fn beside(points: &[Point], step: Step, nature: Nature) -> Option<Shape> {
    let (before, after) = points.split_at_checked(step.first_after)?;
    let at = after.first()?.at;
    let why = Why::BesideStep { at, by: step.by };
    let of = |part: &[Point]| {
        let trend = significant(part, nature).filter(|_| part.len() >= PART)?;
        let shape = pace(part, trend, nature);
        // Filled slowly and emptied at once: it may be one tooth of many.
        let back = trend.line.slope * step.by < 0.0 && way(part) <= TEETH * step.by.abs();
        let told =
            if back { Shape { verdict: Verdict::Unclear, why: Why::Turned, ..shape } } else { Shape { why, ..shape } };
        matches!(shape.verdict, Verdict::Grows | Verdict::Shrinks).then_some(told)
    };
    of(after).or_else(|| of(before).filter(|_| after.len() < PART))
}

/// From the first point to the last, up or down.
fn way(points: &[Point]) -> f64 {
    points.first().zip(points.last()).map_or(0.0, |(first, last)| (last.value - first.value).abs())
}

/// Whether what goes one way still does.
fn pace(points: &[Point], trend: Trend, nature: Nature) -> Shape {
    let Some(halves) = Halves::of(points).filter(|halves| halves.differ) else { return one_way(trend, Why::Always) };
    let tail = significant(halves.tail, nature).filter(|t| t.line.slope * halves.sign > 0.0);
    let since = halves.tail.first().map_or(0.0, |p| p.at);
    match tail.filter(|_| halves.last > halves.first && !halves.turns() || is_even(halves.tail)) {
        Some(tail) => one_way(tail, Why::Since(since)),
        None => halves.slowing(trend),
    }
}

/// Whether a part of the time that goes one way does so evenly.
fn is_even(part: &[Point]) -> bool {
    Halves::of(part).is_some_and(|halves| part.len() >= PART && halves.last >= EVEN * halves.first)
}

/// What the last half says where the whole is no line: it may have begun to go one way, or stopped.
fn by_tail(points: &[Point], nature: Nature, depth: usize) -> Option<Shape> {
    let halves = Halves::of(points).filter(|halves| depth > 0 && halves.tail.len() >= PART)?;
    let told = by_values(halves.tail, nature, depth - 1);
    let since = halves.tail.first()?.at;
    let trend = trend(points)?;
    let goes_on = matches!(told.verdict, Verdict::Grows | Verdict::Shrinks);
    match told.why {
        _ if goes_on && halves.turns() => Some(Shape { verdict: Verdict::Unclear, why: Why::Turned, ..told }),
        Why::Since(_) | Why::BesideStep { .. } if goes_on && Halves::of(halves.tail)?.begins() => Some(told),
        _ if goes_on && (halves.begins() || is_even(halves.tail)) => Some(Shape { why: Why::Since(since), ..told }),
        _ if halves.one_way && halves.differ && halves.first > halves.last => Some(halves.slowing(trend)),
        _ => None,
    }
}

/// The change in either half of the time.
struct Halves<'a> {
    /// The direction of the whole: 1 up, −1 down.
    sign: f64,
    /// Change in the first half, in that direction.
    first: f64,
    /// In the last half.
    last: f64,
    /// How far it went this way and that in the first half.
    moved: f64,
    /// Whether the pace is another one in the last half, by more than noise.
    differ: bool,
    /// Whether it goes one way, but for little.
    one_way: bool,
    /// Points of the last half.
    tail: &'a [Point],
}

impl Halves<'_> {
    /// `None` where there are too few points in either.
    fn of(points: &[Point]) -> Option<Halves<'_>> {
        let (start, end) = (points.first()?, points.last()?);
        let middle = f64::midpoint(start.at, end.at);
        let split = points.partition_point(|p| p.at < middle);
        let (head, tail) = points.split_at_checked(split)?;
        if head.len() < LEAST_POINTS || tail.len() < LEAST_POINTS {
            return None;
        }
        // Levels at the start, in the middle and at the end: what goes up in stairs has slopes of zero in between.
        let some = (points.len() / 20).max(1);
        let level = |of: &[Point]| median(&mut values_of(of));
        let around = split.saturating_sub(some / 2);
        let low = level(points.get(..some)?)?;
        let half = level(points.get(around..around + some.max(2))?)?;
        let high = level(points.get(points.len() - some..)?)?;
        let sign = (high - low).signum();
        let (first, last) = ((half - low) * sign, (high - half) * sign);
        let (noise, walk) = noises(points);
        // A median of some values varies by this, and the middle one counts twice; a walk goes on in either half.
        let chance = 6.0 * 1.25 * 1.25 * noise / some as f64 + walk * points.len() as f64;
        let differ = (first - last).abs() > 2.0 * chance.sqrt() && first.min(last) < AS_FAST * first.max(last);
        let eighth = (points.len() / 8).max(1);
        let levels = |of: &[Point]| of.chunks(eighth).filter_map(level).collect::<Vec<f64>>();
        let ways: f64 = levels(points).windows(2).map(|w| (w[1] - w[0]).abs()).sum();
        let of_head = levels(head);
        let moved = of_head.iter().copied().fold(f64::MIN, f64::max) - of_head.iter().copied().fold(f64::MAX, f64::min);
        Some(Halves { sign, first, last, moved, differ, one_way: (high - low).abs() >= ONE_WAY * ways, tail })
    }

    /// Whether it goes one way in the last half, and hardly went anywhere in the first.
    fn begins(&self) -> bool {
        self.last > self.first && self.moved < AS_FAST * self.last && !self.turns()
    }

    /// Whether it went the other way in the first half.
    fn turns(&self) -> bool {
        let (less, more) =
            if self.last.abs() > self.first.abs() { (self.first, self.last) } else { (self.last, self.first) };
        less * more < 0.0 && less.abs() > OVER * more.abs()
    }

    /// What slows down: it has stopped, or nobody knows yet.
    fn slowing(&self, trend: Trend) -> Shape {
        let (first, last) = (self.first * self.sign, self.last * self.sign);
        // A slow leak behind a warm-up, perhaps, which noise hides still.
        let rises = slope::trend(self.tail).is_some_and(|t| t.apparent < QUIET.1 && t.line.slope * self.sign > 0.0);
        let (verdict, why) = if self.last <= OVER * self.first && !(rises && is_even(self.tail)) {
            (Verdict::Settled, Why::LevelsOff { first, last })
        } else {
            (Verdict::Unclear, Why::Slows { first, last })
        };
        Shape { verdict, why, trend: Some(trend) }
    }
}

/// Variance of noise that is another from value to value, and of the steps of a walk beneath it. Noise lets changes that
/// follow each other go opposite ways, a walk does not: so their covariance tells both.
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
