//! Rectangles for a treemap, by the squarified layout of Bruls, Huizing and van Wijk (Squarified Treemaps, 2000).

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::commands::report) struct Rect {
    pub(in crate::commands::report) x: f64,
    pub(in crate::commands::report) y: f64,
    pub(in crate::commands::report) width: f64,
    pub(in crate::commands::report) height: f64,
}

/// Returns a rectangle within `within` for each value, by its share of the sum. Values must be in descending order.
pub(in crate::commands::report) fn squarify(values: &[u64], within: Rect) -> Vec<Rect> {
    let total: f64 = values.iter().map(|&v| v as f64).sum();
    let mut out = Vec::with_capacity(values.len());
    if total <= 0.0 {
        return vec![Rect::default(); values.len()];
    }
    let scale = within.width * within.height / total;
    let mut left = within;
    let mut rest = values;
    while !rest.is_empty() {
        let side = left.width.min(left.height);
        let row = row_length(rest, scale, side);
        let (these, after) = rest.split_at(row.min(rest.len()));
        let area: f64 = these.iter().map(|&v| v as f64 * scale).sum();
        let thick = if side > 0.0 { area / side } else { 0.0 };
        let mut along = 0.0;
        for &value in these {
            let long = if thick > 0.0 { value as f64 * scale / thick } else { 0.0 };
            out.push(if left.width >= left.height {
                Rect { x: left.x, y: left.y + along, width: thick, height: long }
            } else {
                Rect { x: left.x + along, y: left.y, width: long, height: thick }
            });
            along += long;
        }
        if left.width >= left.height {
            left = Rect { x: left.x + thick, width: (left.width - thick).max(0.0), ..left };
        } else {
            left = Rect { y: left.y + thick, height: (left.height - thick).max(0.0), ..left };
        }
        rest = after;
    }
    out
}

/// Returns the number of values whose row has the best worst aspect ratio.
fn row_length(values: &[u64], scale: f64, side: f64) -> usize {
    let (mut sum, mut best) = (0.0, f64::INFINITY);
    let largest = values.first().map_or(0.0, |&v| v as f64 * scale);
    for (at, &value) in values.iter().enumerate() {
        let area = value as f64 * scale;
        sum += area;
        let worst = (side * side * largest / (sum * sum)).max(sum * sum / (side * side * area));
        if at > 0 && (worst > best || worst.is_nan()) {
            return at;
        }
        best = worst;
    }
    values.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rectangles_fill_the_whole_and_keep_their_shares() {
        let within = Rect { x: 0.0, y: 0.0, width: 600.0, height: 400.0 };
        let values = [6_u64, 6, 4, 3, 2, 2, 1];
        let rects = squarify(&values, within);
        for (rect, value) in rects.iter().zip(values) {
            assert!((rect.width * rect.height - value as f64 * 10_000.0).abs() < 1e-6, "{rect:?}");
            assert!(rect.x >= -1e-9 && rect.x + rect.width <= 600.0 + 1e-9, "{rect:?}");
            assert!(rect.y >= -1e-9 && rect.y + rect.height <= 400.0 + 1e-9, "{rect:?}");
        }
        // The paper's example: the first two rectangles share a column of half the width.
        assert_eq!(rects.first().map(|r| (r.width.round(), r.height.round())), Some((300.0, 200.0)));
    }

    #[test]
    fn nothing_is_no_rectangle_and_no_panic() {
        assert_eq!(squarify(&[], Rect::default()), []);
        assert_eq!(squarify(&[0, 0], Rect::default()).len(), 2);
        let thin = Rect { width: 100.0, ..Rect::default() };
        assert!(squarify(&[3, 1], thin).iter().all(|r| r.width.is_finite() && r.height.is_finite()));
    }
}
