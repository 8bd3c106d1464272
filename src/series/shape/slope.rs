//! The slope of a series, and whether it is more than noise.
//!
//! - **Slope**: Theil and Sen's, the median of the slopes between all pairs of points. A third of all points may be
//!   anything, and it still holds.
//! - **Is it more than noise**: two tests, as each sees what the other does not.
//!   The slope against its standard error (Student's t), where the number of points is the *effective* one: neighbours in
//!   time are alike, so that 60 looks at a series that wanders are worth five. Without that every random walk has a trend;
//!   and where neighbours are very much alike, the changes from look to look must have a mean that is not zero, too.
//!   And a sign test of the changes, for what goes one way nearly without a step back, however unevenly.

use crate::series::shape::student::{two_sided, within};

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds from wherever; of cores without a time, their number.
    pub at: f64,
    /// Bytes, or a number.
    pub value: f64,
}

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of the value in a unit of time.
    pub slope: f64,
    /// Value at time 0.
    pub offset: f64,
}

impl Line {
    /// Its value at a time.
    pub fn at(&self, time: f64) -> f64 {
        self.slope.mul_add(time, self.offset)
    }
}

/// A slope, and how sure it is.
#[derive(Clone, Copy, Debug)]
pub struct Trend {
    /// By Theil and Sen.
    pub line: Line,
    /// Between these the slope lies in 19 of 20 cases; both infinite where that can't be told.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How often noise alone, or a random walk, would do the like: from 0 to 1.
    pub chance: f64,
    /// The same of the slope alone, without a look at the single changes.
    pub apparent: f64,
    /// Points that the series is worth, as far as they are independent of one another.
    pub effective: f64,
}

/// Where points are worth less than this share of their number, their changes are asked too.
const WANDERS: f64 = 0.5;

/// Where chance does the like less often than this, they are not: no walk comes near it.
const BEYOND_DOUBT: f64 = 1e-6;

/// Chance must give changes such a mean less often than this.
const DRIFT: f64 = 0.005;

/// Points beyond which medians of neighbours stand for them where all pairs are looked at: 80,000 pairs.
const PAIRED: usize = 400;

/// Share of all changes, up and down together, that is left of them in the end, from which on a series counts as one that
/// goes one way: what rises slowly and falls in one go has more steps up than down, and is where it was.
const ONE_WAY: f64 = 0.8;

/// Changes up to which the sign test counts; beyond, its terms are smaller than numbers get, and a normal distribution is
/// as good.
const TOSSED: usize = 1000;

/// The middle one of `values`; of an even number the mean of the two.
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

/// The line through `points`, which are in the order of their times; `None` where they have less than two.
pub fn theil_sen(points: &[Point]) -> Option<Line> {
    let few = thinned(points);
    let pairs = few.iter().enumerate().flat_map(|(i, a)| few.iter().skip(i + 1).map(move |b| (a, b)));
    let mut slopes: Vec<f64> =
        pairs.filter(|(a, b)| b.at > a.at).map(|(a, b)| (b.value - a.value) / (b.at - a.at)).collect();
    let slope = median(&mut slopes)?;
    let offset = median(&mut few.iter().map(|p| slope.mul_add(-p.at, p.value)).collect::<Vec<_>>())?;
    Some(Line { slope, offset })
}

/// At most [`PAIRED`] points: medians of runs of neighbours.
fn thinned(points: &[Point]) -> Vec<Point> {
    let run = points.len().div_ceil(PAIRED).max(1);
    let of = |run: &[Point], part: fn(&Point) -> f64| median(&mut run.iter().map(part).collect::<Vec<_>>());
    let one = |run: &[Point]| Some(Point { at: of(run, |p| p.at)?, value: of(run, |p| p.value)? });
    points.chunks(run).filter_map(one).collect()
}

/// The trend of `points`, which are in the order of their times; `None` where they have less than two times.
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
    let wanders = effective < WANDERS * count && apparent > BEYOND_DOUBT && !has_drift(points);
    let by_slope = if wanders { 1.0 } else { apparent };
    // Two tests were asked, so that each counts half.
    let chance = (2.0 * by_slope.min(by_signs(points))).min(1.0);
    let half = if unknown { f64::INFINITY } else { within(0.95, free) * error };
    Some(Trend { line, low: line.slope - half, high: line.slope + half, chance, apparent, effective })
}

/// How many independent values `rests` are worth, by how alike neighbours are: the autocorrelation at a lag of one,
/// corrected for its bias, and larger by its standard error, as what wanders must not be taken for what does not.
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

/// Whether the changes have a mean that a walk without direction has hardly ever: from point to point, or, where noise hides
/// that, from a tenth of the time to the next.
fn has_drift(points: &[Point]) -> bool {
    let values: Vec<f64> = points.iter().map(|p| p.value).collect();
    let tenths: Vec<f64> = points.chunks(points.len().div_ceil(10)).filter_map(|c| median(&mut values_of(c))).collect();
    [values, tenths].iter().any(|values| {
        let changes: Vec<f64> = values.windows(2).map(|w| w[1] - w[0]).collect();
        let count = changes.len() as f64;
        let mean = changes.iter().sum::<f64>() / count;
        let variance = changes.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (count - 1.0);
        two_sided(mean / (variance / count).sqrt(), count - 1.0) < DRIFT
    })
}

/// Values of points.
pub(crate) fn values_of(points: &[Point]) -> Vec<f64> {
    points.iter().map(|p| p.value).collect()
}

/// How often so many more changes would go one way than the other if up and down were alike; 1 where what goes up comes
/// down again.
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
        // With so much freedom Student's is the normal distribution.
        return two_sided((with as f64 - against as f64) / (tosses as f64).sqrt(), 1e6);
    }
    // Twice the upper end of the binomial distribution.
    let mut term = 0.5_f64.powi(i32::try_from(tosses).unwrap_or(i32::MAX));
    let mut sum = 0.0;
    for least in 0..=against.min(tosses) {
        sum += term;
        term *= (tosses - least) as f64 / (least + 1) as f64;
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
        // 3 in 10 seconds.
        assert!(line.is_some_and(|l| (l.slope - 0.3).abs() < 1e-9), "{line:?}");
        // More points than pairs are made of.
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
        // By hand: 2 × 0.5^10 for ten, and 2 × 11 × 0.5^10 with one of them down.
        let rises: Vec<f64> = (0..=10).map(f64::from).collect();
        assert!((by_signs(&points(rises.clone())) - 2.0 / 1024.0).abs() < 1e-12);
        let mut one_back = rises.clone();
        one_back[10] = 8.5;
        assert!((by_signs(&points(one_back)) - 22.0 / 1024.0).abs() < 1e-12);
        // It goes up nine times out of ten, and is where it was.
        let saw = (0..60).map(|i| f64::from(i % 10));
        assert_eq!(by_signs(&points(saw)), 1.0);
        // More than are counted: all of them up, and a step up of 9 after each step down of 1.
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
