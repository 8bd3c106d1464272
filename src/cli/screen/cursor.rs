//! The selected row of a list. It stays selected when the list is rebuilt and other rows come before it.

/// A position in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Index of the row among the visible ones.
    pub(super) at: usize,
    /// Index of the first row on the screen.
    pub(super) top: usize,
    pub(super) key: Option<String>,
}

impl Cursor {
    /// Moves by `by` rows.
    pub(super) fn step(&mut self, by: isize, rows: usize) {
        self.go(self.at.saturating_add_signed(by), rows);
    }

    /// Selects row `at`, or the last one.
    pub(super) fn go(&mut self, at: usize, rows: usize) {
        self.at = at.min(rows.saturating_sub(1));
        self.key = None;
    }

    /// Selects the same row after the list has changed, by the keys of all rows. If the row is gone, selects the one in
    /// its place.
    pub(super) fn keep<'a>(&mut self, mut keys: impl ExactSizeIterator<Item = &'a str>) {
        let rows = keys.len();
        let found = self.key.as_ref().and_then(|key| keys.position(|other| other == key));
        self.at = found.unwrap_or(self.at).min(rows.saturating_sub(1));
    }

    /// Scrolls so that the selected row is on a screen of `room` lines. `heights` returns the number of lines of a row.
    pub(super) fn scroll(&mut self, room: usize, heights: &dyn Fn(usize) -> usize) {
        self.top = self.top.min(self.at);
        let mut used = 0;
        let mut first = self.at;
        // As many of the rows before it as fit.
        for row in (self.top..=self.at).rev() {
            used += heights(row);
            if used > room && row < self.at {
                break;
            }
            first = row;
        }
        self.top = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stays_in_the_list() {
        let mut cursor = Cursor::default();
        cursor.step(-1, 3);
        assert_eq!(cursor.at, 0);
        cursor.step(10, 3);
        assert_eq!(cursor.at, 2);
        cursor.step(1, 0);
        assert_eq!(cursor.at, 0);
    }

    #[test]
    fn the_row_stays_where_others_come_before_it() {
        let mut cursor = Cursor { at: 1, key: Some("b".into()), ..Cursor::default() };
        cursor.keep(["new", "a", "b", "c"].into_iter());
        assert_eq!(cursor.at, 2);
        // The row is gone: the one in its place is selected.
        cursor.keep(["new", "a", "c"].into_iter());
        assert_eq!(cursor.at, 2);
        cursor.keep([].into_iter());
        assert_eq!(cursor.at, 0);
    }

    #[test]
    fn the_row_is_on_the_screen() {
        let mut cursor = Cursor { at: 9, ..Cursor::default() };
        cursor.scroll(4, &|_| 1);
        assert_eq!(cursor.top, 6);
        // Upwards, the list scrolls no more than it must.
        cursor.at = 7;
        cursor.scroll(4, &|_| 1);
        assert_eq!(cursor.top, 6);
        cursor.at = 2;
        cursor.scroll(4, &|_| 1);
        assert_eq!(cursor.top, 2);
        // Rows of several lines, one of them higher than the screen.
        let heights = |row: usize| if row == 4 { 9 } else { 2 };
        cursor.at = 3;
        cursor.scroll(4, &heights);
        assert_eq!(cursor.top, 2);
        cursor.at = 4;
        cursor.scroll(4, &heights);
        assert_eq!(cursor.top, 4);
        cursor.scroll(0, &heights);
        assert_eq!(cursor.top, 4);
    }
}
