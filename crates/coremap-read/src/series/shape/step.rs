//! Finds a single step: a series that is constant, jumps, and is constant again.

use crate::series::shape::slope::Point;

/// A step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Index of the first point after the step.
    pub first_after: usize,
    /// Difference between the means after and before the step.
    pub by: f64,
}

/// Minimum number of points that distinguish a step from a slope.
const MIN_POINTS: usize = 8;

/// Maximum residual sum of squares of two levels, as a share of the line's sum.
const BETTER_THAN_A_LINE: f64 = 0.5;

/// Minimum size of a step in standard deviations of the residuals. With few points it is larger:
/// `MIN_DEVIATIONS` × (1 + 8 / points).
const MIN_DEVIATIONS: f64 = 4.0;

/// Minimum share of a step that must happen within two intervals between points. A process may take a moment to fill a
/// new table.
const ABRUPT: f64 = 0.8;

/// Sums over a range of points.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn with(self, value: f64) -> Sums {
        Sums { count: self.count + 1.0, sum: self.sum + value, squares: value.mul_add(value, self.squares) }
    }

    fn without(self, part: Sums) -> Sums {
        Sums { count: self.count - part.count, sum: self.sum - part.sum, squares: self.squares - part.squares }
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// Sum of squared distances from the mean.
    fn rest(self) -> f64 {
        (self.squares - self.sum * self.sum / self.count).max(0.0)
    }
}

/// Returns the step of `points`, if they have one with at least two points on either side.
pub(super) fn find(points: &[Point]) -> Option<Step> {
    if points.len() < MIN_POINTS {
        return None;
    }
    // Relative to the mean, because squares of large numbers would hide small steps.
    let mean = points.iter().map(|p| p.value).sum::<f64>() / points.len() as f64;
    let mut sums = Vec::with_capacity(points.len());
    let mut all = Sums::default();
    for point in points {
        sums.push(all);
        all = all.with(point.value - mean);
    }
    let candidates = sums.iter().enumerate().skip(2).take(points.len().saturating_sub(3));
    let left = |(at, &before): (usize, &Sums)| {
        let after = all.without(before);
        (before.rest() + after.rest(), Step { first_after: at, by: after.mean() - before.mean() })
    };
    let (rest, step) = candidates.map(left).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let deviation = (rest / (points.len() as f64 - 2.0)).sqrt();
    let value = |at: usize| points.get(at).map_or(0.0, |p| p.value);
    // The step may begin a sample earlier, or end a sample later.
    let split = step.first_after;
    let abrupt = [(split - 1, split), (split - 1, split + 1), (split - 2, split)];
    let abrupt = abrupt
        .iter()
        .any(|&(from, to)| to < points.len() && (value(to) - value(from)) * step.by.signum() >= ABRUPT * step.by.abs());
    let clear = step.by.abs() > MIN_DEVIATIONS * (1.0 + 8.0 / points.len() as f64) * deviation;
    (step.by != 0.0 && clear && abrupt && rest <= BETTER_THAN_A_LINE * beside_a_line(points)).then_some(step)
}

/// Sum of squared distances from the least-squares line.
fn beside_a_line(points: &[Point]) -> f64 {
    let count = points.len() as f64;
    let mean = |part: fn(&Point) -> f64| points.iter().map(part).sum::<f64>() / count;
    let (at, value) = (mean(|p| p.at), mean(|p| p.value));
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
    let along = sum(&|p| (p.at - at).powi(2));
    let both = sum(&|p| (p.at - at) * (p.value - value));
    let up = sum(&|p| (p.value - value).powi(2));
    if along > 0.0 { (up - both * both / along).max(0.0) } else { up }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(i, &value)| Point { at: i as f64, value }).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let found = find(&points(&[5.0, 5.1, 4.9, 5.0, 9.0, 9.1, 8.9, 9.0, 9.0]));
        assert!(found.is_some_and(|s| s.first_after == 4 && (s.by - 4.0).abs() < 0.1), "{found:?}");
        // With a sample in the middle of the step.
        let found = find(&points(&[&[5.0; 9][..], &[7.0], &[9.0; 9]].concat()));
        assert!(found.is_some_and(|s| (3.5..=4.1).contains(&s.by)), "{found:?}");
    }

    #[test]
    fn slopes_stairs_and_spikes_are_none() {
        let slope: Vec<f64> = (0..20).map(f64::from).collect();
        let stairs: Vec<f64> = (0..20).map(|i| f64::from(i / 5)).collect();
        let mut spike = vec![1.0; 20];
        spike[7] = 50.0;
        let mut last = vec![1.0; 20];
        last[19] = 50.0;
        for other in [slope, stairs, spike, last, vec![3.0; 20], vec![1.0, 1.0, 9.0, 9.0]] {
            assert_eq!(find(&points(&other)), None, "{other:?}");
        }
    }

    #[test]
    fn a_small_step_high_up_is_one_too() {
        let found = find(&points(&[
            1e12,
            1e12,
            1e12,
            1e12 + 4096.0,
            1e12 + 4096.0,
            1e12 + 4096.0,
            1e12 + 4096.0,
            1e12 + 4096.0,
        ]));
        assert!(found.is_some_and(|s| s.first_after == 3 && (s.by - 4096.0).abs() < 1.0), "{found:?}");
    }
}
