//! Where one is in a list. The row stays the same when the list is made anew and others come before it.

/// A place in a list of so many rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Number of the row, among those that are seen.
    pub(super) at: usize,
    /// The first row on the screen.
    pub(super) top: usize,
    /// The key of the row.
    pub(super) key: Option<String>,
}

impl Cursor {
    /// Move by so many rows.
    pub(super) fn step(&mut self, by: isize, rows: usize) {
        self.go(self.at.saturating_add_signed(by), rows);
    }

    /// Go to the row of that number, or to the last.
    pub(super) fn go(&mut self, at: usize, rows: usize) {
        self.at = at.min(rows.saturating_sub(1));
        self.key = None;
    }

    /// The list is another: go to where the row is now, by the keys of all rows; where it is gone, to what stands
    /// in its place.
    pub(super) fn keep<'a>(&mut self, mut keys: impl ExactSizeIterator<Item = &'a str>) {
        let rows = keys.len();
        let found = self.key.as_ref().and_then(|key| keys.position(|other| other == key));
        self.at = found.unwrap_or(self.at).min(rows.saturating_sub(1));
    }

    /// Let the row be on a screen with room for so many lines; `heights`: the lines of each row.
    pub(super) fn scroll(&mut self, room: usize, heights: &dyn Fn(usize) -> usize) {
        self.top = self.top.min(self.at);
        let mut used = 0;
        let mut first = self.at;
        // As far up as what comes before it fits.
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
        // Gone: what stands in its place.
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
        // Up again: the picture moves no more than it must.
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
