//! The lows of a series that goes up and down: for example a heap after collections, or a cache after it was emptied.

use crate::series::shape::slope::Point;

/// Minimum size of a rise or fall, as a share of the range between the lowest and highest point.
const SWING: f64 = 0.25;

/// Returns the lowest point after each fall, before the next rise. Points before the first fall are excluded, because
/// they may be the start of the program.
pub(super) fn lows(points: &[Point]) -> Vec<Point> {
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    for p in points {
        lowest = lowest.min(p.value);
        highest = highest.max(p.value);
    }
    let swing = SWING * (highest - lowest);
    let (Some(&first), true) = (points.first(), swing > 0.0) else { return Vec::new() };
    let mut lows = Vec::new();
    let mut falling = false;
    // Highest point since the last low, or lowest point since the last high.
    let mut extreme = first;
    for &p in points {
        let further = if falling { p.value < extreme.value } else { p.value > extreme.value };
        if further {
            extreme = p;
        } else if falling && p.value >= extreme.value + swing {
            lows.push(extreme);
            (falling, extreme) = (false, p);
        } else if !falling && p.value <= extreme.value - swing {
            (falling, extreme) = (true, p);
        }
    }
    lows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = i32>) -> Vec<Point> {
        values.into_iter().enumerate().map(|(i, v)| Point { at: i as f64, value: f64::from(v) }).collect()
    }

    #[test]
    fn each_tooth_has_one_low() {
        // 0 to 9 six times: five falls, and the last tooth has no end.
        let found = lows(&points((0..60).map(|i| i % 10)));
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|p| p.value == 0.0 && p.at % 10.0 == 0.0), "{found:?}");
    }

    #[test]
    fn small_ripples_are_no_teeth() {
        let found = lows(&points((0..60).map(|i| i % 10 * 10 + i % 2)));
        assert_eq!(found.len(), 5);
        assert!(lows(&points(0..60)).is_empty());
        assert!(lows(&points([7; 9])).is_empty());
        assert!(lows(&[]).is_empty());
    }
}
