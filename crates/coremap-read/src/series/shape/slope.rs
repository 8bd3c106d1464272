//! The slope of a series, and its significance.
//!
//! - **Slope**: Theil and Sen's, the median of the slopes between all pairs of points. It is still
//!   right if almost a third of all points are arbitrary.
//! - **Significance**: two tests, because each sees what the other misses. The first compares the
//!   slope with its standard error (Student's t). The second is the rank test of Mann and Kendall
//!   (`rank`), which needs only six samples and no even steps. Both are wrong about a series that
//!   wanders: neighbours in time are alike, so 60 of its samples are worth five. Otherwise every
//!   random walk would have a trend. The first test uses the *effective* number of samples. The
//!   second also requires that the changes between samples have a mean, or a direction, that a
//!   random walk rarely has. If they don't, its variance is increased.

use crate::series::shape::rank::{NORMAL, Order};
use crate::series::shape::student::{two_sided, within};

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time in seconds from any origin. For cores without a time, their number.
    pub at: f64,
    /// Value: bytes, or a count.
    pub value: f64,
}

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of the value per unit of time.
    pub slope: f64,
    /// Value at time 0.
    pub offset: f64,
}

impl Line {
    /// Returns the value at a time.
    pub fn at(&self, time: f64) -> f64 {
        self.slope.mul_add(time, self.offset)
    }
}

/// A slope, and its significance.
#[derive(Clone, Copy, Debug)]
pub struct Trend {
    /// Line by Theil and Sen's method.
    pub line: Line,
    /// Lower end of the 95 % confidence interval of the slope. Both ends are infinite if it can't be computed.
    pub low: f64,
    /// Upper end; see `low`.
    pub high: f64,
    /// Probability of such a series by noise alone, or by a random walk: from 0 to 1.
    pub chance: f64,
    /// Probability by the slope alone, without testing the changes.
    pub apparent: f64,
    /// Probability by the order of the values alone.
    pub ranked: f64,
    /// Whether each of at least [`MIN_RANKED`] values is larger than the one before, or each is smaller, and a random
    /// walk rarely does that in such steps.
    pub in_order: bool,
    /// Effective number of points: how many independent points the series is worth.
    pub effective: f64,
}

/// Ratio of effective points to points below which the changes are tested too.
const WANDERS: f64 = 0.5;

/// Probability below which the changes are not tested: no walk comes near it.
const BEYOND_DOUBT: f64 = 1e-6;

/// Significance level of the mean of the changes.
const DRIFT: f64 = 0.005;

/// Minimum number of points for the rank test: the order of five has a probability of 1 in 60 at best.
pub(super) const MIN_RANKED: usize = 6;

/// Minimum number of points whose likeness to their neighbours can be measured. The rank test does not judge fewer
/// without a drift.
const MIN_ALIKE: usize = 8;

/// Significance level of a drift for the rank test, with the fewest points, and its minimum. It falls with the square
/// of the number of points, because more points of a real trend are much clearer, and more points of a walk are not.
const RANK_DRIFT: (f64, f64) = (0.02, 0.003);

/// Maximum number of points whose pairs are all used: 80,000 pairs. More points are replaced by medians of neighbours.
const PAIRED: usize = 400;

/// Minimum net change of a series that goes one way, as a share of the sum of all changes. A series that rises slowly
/// and falls at once has more steps up than down, but ends where it began.
const ONE_WAY: f64 = 0.8;

/// Maximum number of changes for an exact sign test. With more, its terms underflow, and the normal distribution is
/// accurate.
const TOSSED: usize = 1000;

/// Returns the median of `values`. For an even number, the mean of the middle two.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    if values.is_empty() {
        return None;
    }
    let (below, middle, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let upper = *middle;
    let lower = if even { below.iter().copied().max_by(f64::total_cmp)? } else { upper };
    Some(f64::midpoint(lower, upper))
}

/// Fits a line through `points`, which are sorted by time. `None` with fewer than two times.
pub fn theil_sen(points: &[Point]) -> Option<Line> {
    let few = thinned(points);
    let pairs = few.iter().enumerate().flat_map(|(i, a)| few.iter().skip(i + 1).map(move |b| (a, b)));
    let mut slopes: Vec<f64> =
        pairs.filter(|(a, b)| b.at > a.at).map(|(a, b)| (b.value - a.value) / (b.at - a.at)).collect();
    let slope = median(&mut slopes)?;
    let offset = median(&mut few.iter().map(|p| slope.mul_add(-p.at, p.value)).collect::<Vec<_>>())?;
    Some(Line { slope, offset })
}

/// Returns at most [`PAIRED`] points: medians of runs of neighbours.
fn thinned(points: &[Point]) -> Vec<Point> {
    let run = points.len().div_ceil(PAIRED).max(1);
    let of = |run: &[Point], part: fn(&Point) -> f64| median(&mut run.iter().map(part).collect::<Vec<_>>());
    let one = |run: &[Point]| Some(Point { at: of(run, |p| p.at)?, value: of(run, |p| p.value)? });
    points.chunks(run).filter_map(one).collect()
}

/// Returns the trend of `points`, which are sorted by time. `None` with fewer than two times.
pub fn trend(points: &[Point]) -> Option<Trend> {
    let line = theil_sen(points)?;
    let count = points.len() as f64;
    let rests: Vec<f64> = points.iter().map(|p| p.value - line.at(p.at)).collect();
    let mean = points.iter().map(|p| p.at).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|p| (p.at - mean).powi(2)).sum();
    let squares: f64 = rests.iter().map(|r| r * r).sum();
    let effective = effective(&rests);
    let free = (effective - 2.0).max(1.0);
    let noise = (squares / (count - 2.0).max(1.0) * (count / effective)).sqrt();
    let error = noise / spread.sqrt();
    let unknown = points.len() < 3 || !error.is_finite();
    let apparent = if unknown { 1.0 } else { two_sided(line.slope / error, free) };
    let wanders = effective < WANDERS * count && apparent > BEYOND_DOUBT && !has_drift(points, DRIFT);
    let by_slope = if wanders { 1.0 } else { apparent };
    let (ranked, in_order) = by_ranks(points, line.slope, effective);
    // Two tests were made, so the probability doubles.
    let chance = (2.0 * by_slope.min(ranked)).min(1.0);
    let half = if unknown { f64::INFINITY } else { within(0.95, free) * error };
    Some(Trend { line, low: line.slope - half, high: line.slope + half, chance, apparent, ranked, in_order, effective })
}

/// Probability of the order of the values, and whether it is strict. 1 if they are few, or may be a random walk, or if
/// the median slope has the other direction.
fn by_ranks(points: &[Point], slope: f64, effective: f64) -> (f64, bool) {
    let few = thinned(points);
    let order = Order::of(&values_of(&few));
    if few.len() < MIN_RANKED || slope == 0.0 || order.sign() != slope.signum() {
        return (1.0, false);
    }
    let count = points.len() as f64;
    let (level, least) = RANK_DRIFT;
    let level = (level * (MIN_RANKED as f64 / count).powi(2)).max(least);
    if has_drift(points, level) || by_signs(points) < level {
        return (order.chance(1.0), order.is_strict());
    }
    let comparable = points.len() >= MIN_ALIKE && effective >= WANDERS * count;
    (if comparable { order.chance(count / effective) } else { 1.0 }, false)
}

/// Number of independent values that `rests` are worth, by the autocorrelation at a lag of one. It is corrected for
/// its bias, and increased by its standard error so that no wandering series passes as independent.
fn effective(rests: &[f64]) -> f64 {
    let count = rests.len() as f64;
    let mean = rests.iter().sum::<f64>() / count;
    let squares: f64 = rests.iter().map(|r| (r - mean).powi(2)).sum();
    if squares <= 0.0 {
        return count;
    }
    let products: f64 = rests.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let alike = products / squares;
    let alike = (alike + (1.0 + 4.0 * alike) / count + 1.0 / count.sqrt()).clamp(0.0, 1.0 - 1.0 / count);
    (count * (1.0 - alike) / (1.0 + alike)).clamp(1.0, count)
}

/// Whether the mean of the changes is one that a random walk hardly ever has. Tests the changes from point to point
/// and, because noise may hide them, those between tenths of the time.
fn has_drift(points: &[Point], level: f64) -> bool {
    let values: Vec<f64> = points.iter().map(|p| p.value).collect();
    let tenths: Vec<f64> = points.chunks(points.len().div_ceil(10)).filter_map(|c| median(&mut values_of(c))).collect();
    [values, tenths].iter().any(|values| {
        let changes: Vec<f64> = values.windows(2).map(|w| w[1] - w[0]).collect();
        let count = changes.len() as f64;
        let mean = changes.iter().sum::<f64>() / count;
        let variance = changes.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (count - 1.0);
        two_sided(mean / (variance / count).sqrt(), count - 1.0) < level
    })
}

pub(crate) fn values_of(points: &[Point]) -> Vec<f64> {
    points.iter().map(|p| p.value).collect()
}

/// Probability of so unequal numbers of rises and falls if both were equally likely. 1 if the series comes down again
/// after it goes up.
fn by_signs(points: &[Point]) -> f64 {
    let changes = || points.windows(2).map(|w| w[1].value - w[0].value);
    let all: f64 = changes().map(f64::abs).sum();
    let left: f64 = changes().sum();
    if left.abs() < ONE_WAY * all || all <= 0.0 {
        return 1.0;
    }
    let with = changes().filter(|c| c * left > 0.0).count();
    let against = changes().filter(|c| c * left < 0.0).count();
    let tosses = with + against;
    if tosses > TOSSED {
        return two_sided((with as f64 - against as f64) / (tosses as f64).sqrt(), NORMAL);
    }
    // Twice the upper tail of the binomial distribution.
    let mut term = 0.5_f64.powi(i32::try_from(tosses).unwrap_or(i32::MAX));
    let mut sum = 0.0;
    for min_change in 0..=against.min(tosses) {
        sum += term;
        term *= (tosses - min_change) as f64 / (min_change + 1) as f64;
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = f64>) -> Vec<Point> {
        values.into_iter().enumerate().map(|(i, value)| Point { at: 10.0 * i as f64, value }).collect()
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&mut [9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_third_of_wild_points_does_not_move_the_slope() {
        let wild = |i: usize| if i % 4 == 1 { 1e9 * (i as f64 - 20.0) } else { 3.0 * i as f64 + 7.0 };
        let line = theil_sen(&points((0..40).map(wild)));
        // 3 per 10 seconds.
        assert!(line.is_some_and(|l| (l.slope - 0.3).abs() < 1e-9), "{line:?}");
        // More points than are paired.
        let many = theil_sen(&points((0..3000).map(|i| 3.0 * f64::from(i))));
        assert!(many.is_some_and(|l| (l.slope - 0.3).abs() < 1e-9), "{many:?}");
    }

    #[test]
    fn less_than_two_times_have_no_slope() {
        assert!(trend(&points([1.0])).is_none());
        assert!(trend(&[Point { at: 5.0, value: 1.0 }, Point { at: 5.0, value: 2.0 }]).is_none());
        let two = trend(&points([1.0, 2.0]));
        assert!(two.is_some_and(|t| t.chance == 1.0 && t.low.is_infinite()), "{two:?}");
    }

    #[test]
    fn ten_steps_up_and_none_down_are_no_chance() {
        // By hand: 2 × 0.5^10 for ten rises, and 2 × 11 × 0.5^10 with one fall among them.
        let rises: Vec<f64> = (0..=10).map(f64::from).collect();
        assert!((by_signs(&points(rises.clone())) - 2.0 / 1024.0).abs() < 1e-12);
        let mut one_back = rises.clone();
        one_back[10] = 8.5;
        assert!((by_signs(&points(one_back)) - 22.0 / 1024.0).abs() < 1e-12);
        // It rises nine times out of ten, and ends where it began.
        let saw = (0..60).map(|i| f64::from(i % 10));
        assert_eq!(by_signs(&points(saw)), 1.0);
        // Above the limit of the exact test: only rises; and a rise of 9 after each fall of 1.
        assert!(by_signs(&points((0..5000).map(f64::from))) < 1e-9);
        let ratchet = (0..5000).map(|i| f64::from(i / 2 * 8 - i % 2));
        assert!(by_signs(&points(ratchet)) > 0.9);
    }

    #[test]
    fn what_wanders_is_worth_few_points() {
        let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16);
        let white: Vec<f64> = (1..200).map(noise).collect();
        assert!(effective(&white) > 100.0, "{}", effective(&white));
        let slow: Vec<f64> = (0..200).map(|i| (f64::from(i) / 60.0).sin()).collect();
        assert!(effective(&slow) < 5.0, "{}", effective(&slow));
        assert_eq!(effective(&[0.0; 8]), 8.0);
    }
}
