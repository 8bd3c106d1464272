//! Bars for shares, on terminals: block elements of eighths of a column (Unicode, U+2588 to U+258F).

/// Width of a bar in a table, in columns.
pub(crate) const BAR: usize = 10;

/// Block elements, each an eighth of a column wider.
const PARTS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar that shows `share` of `columns` columns, padded with spaces. A share above 0 has at least an eighth.
pub fn bar(share: f64, columns: usize) -> String {
    let all = columns.saturating_mul(8);
    let least = usize::from(share > 0.0);
    // Shares above 1 are shown as 1.
    let eighths = ((share.clamp(0.0, 1.0) * all as f64).round() as usize).max(least).min(all);
    (0..columns).filter_map(|at| PARTS.get(eighths.saturating_sub(at * 8).min(8))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0, 4), "    ");
        assert_eq!(bar(0.0001, 4), "▏   ");
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(0.53, 4), "██▏ ");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(7.5, 2), "██");
        assert_eq!(bar(f64::NAN, 2).chars().count(), 2);
        assert_eq!(bar(0.5, 0), "");
    }
}
