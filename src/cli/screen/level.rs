//! A list on the screen: its rows, and which of them are visible in which order.

use std::collections::HashMap;

use coremap::addr::Addr;
use coremap::program::units::human;
use coremap::render::{Align, Cut};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    None,
    Info,
    Warning,
    Critical,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Opens {
    #[default]
    Nothing,
    /// Opens the list below the row.
    Level,
    /// Opens a list of commands that answer questions about the row.
    Questions,
    /// Shows the answer of the row's command.
    Command,
    /// Shows the stack of this thread.
    Stack(u32),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Stable identity across samples.
    pub(super) key: String,
    /// Name. Text of a core is escaped when it is drawn.
    pub(super) name: String,
    /// Its bytes. `None` if unknown or not applicable.
    pub(super) bytes: Option<u64>,
    /// Share of the list's bytes, from 0 to 1.
    pub(super) share: Option<f64>,
    /// Growth in bytes since the first sample, and since the last one. `None` if unknown, or without such a sample.
    pub(super) since_first: Option<i64>,
    pub(super) since_last: Option<i64>,
    /// Number of items that the row represents.
    pub(super) count: Option<u64>,
    /// Cells of the further columns.
    pub(super) cells: Vec<String>,
    pub(super) mark: Mark,
    /// Further facts: label and text.
    pub(super) about: Vec<(&'static str, String)>,
    /// Command that shows more, without program and core.
    pub(super) command: Option<Vec<String>>,
    pub(super) opens: Opens,
}

/// A column between the bytes and the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) align: Align,
    /// On a narrow screen, the column with the highest rank is dropped first.
    pub(super) rank: u8,
}

impl Column {
    pub(super) const fn number(title: &'static str, rank: u8) -> Column {
        Column { title, align: Align::Right, rank }
    }

    pub(super) const fn text(title: &'static str, rank: u8) -> Column {
        Column { title, align: Align::Left, rank }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Noun for a row.
    pub(super) noun: &'static str,
    /// Title of the bytes. Empty if the list has none.
    pub(super) measure: &'static str,
    /// Title of the names.
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// Which part of a long name is cut off.
    pub(super) cut: Cut,
    /// Whether names are sentences, which are shown in full.
    pub(super) sentences: bool,
    pub(super) sort: Sort,
    /// Remark about the whole list.
    pub(super) note: Option<String>,
}

impl Default for Level {
    fn default() -> Level {
        Level {
            noun: "row",
            measure: "",
            name: "",
            columns: Vec::new(),
            rows: Vec::new(),
            cut: Cut::Middle,
            sentences: false,
            sort: Sort::Bytes,
            note: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// As in the report.
    #[default]
    Given,
    /// Most bytes first.
    Bytes,
    /// Largest growth since the first sample first.
    Growth,
    /// Largest count first.
    Count,
    Name,
}

impl Sort {
    /// Describes the order.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Given => "in the order of the report",
            Sort::Bytes => "by size",
            Sort::Growth => "by growth",
            Sort::Count => "by count",
            Sort::Name => "by name",
        }
    }
}

impl Level {
    pub(super) fn bytes(&self) -> u64 {
        self.rows.iter().filter_map(|row| row.bytes).fold(0, u64::saturating_add)
    }

    /// Adds each row's share of all bytes.
    #[must_use]
    pub(super) fn with_shares(mut self) -> Level {
        let whole = self.bytes();
        for row in &mut self.rows {
            row.share = row.bytes.filter(|_| whole > 0).map(|bytes| bytes as f64 / whole as f64);
        }
        self
    }

    /// Adds each row's growth since earlier samples. A row that was absent had 0 bytes.
    pub(super) fn compare(&mut self, first: Option<&Level>, last: Option<&Level>) {
        let was = |level: &Level| -> HashMap<String, Option<u64>> {
            level.rows.iter().map(|row| (row.key.clone(), row.bytes)).collect()
        };
        let (first, last) = (first.map(was), last.map(was));
        let grown = |row: &Row, was: &Option<HashMap<String, Option<u64>>>| {
            let before = was.as_ref()?.get(&row.key).copied().unwrap_or(Some(0))?;
            let now = row.bytes?;
            i64::try_from(i128::from(now) - i128::from(before)).ok()
        };
        for row in &mut self.rows {
            row.since_first = grown(row, &first);
            row.since_last = grown(row, &last);
            row.cells.splice(0..0, [row.since_first, row.since_last].map(change));
        }
        self.columns.splice(0..0, [Column::number("Since first", 2), Column::number("Since last", 3)]);
    }

    /// Orders that make sense for this list, default first.
    pub(super) fn sorts(&self) -> Vec<Sort> {
        let counted = self.rows.iter().any(|row| row.count.is_some());
        let weighed = self.rows.iter().any(|row| row.bytes.is_some());
        let grown = self.rows.iter().any(|row| row.since_first.is_some());
        let there = |sort: &Sort| match sort {
            Sort::Given | Sort::Name => true,
            Sort::Growth => grown,
            Sort::Bytes => weighed,
            Sort::Count => counted,
        };
        let all = [Sort::Bytes, Sort::Growth, Sort::Count, Sort::Name, Sort::Given];
        let others = all.into_iter().filter(|&sort| sort != self.sort);
        std::iter::once(self.sort).chain(others.filter(there)).collect()
    }

    /// Indices of the visible rows, in order: those that contain `filter`, ignoring case.
    pub(super) fn seen(&self, sort: Sort, filter: &str) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&filter);
        let fits = |row: &Row| filter.is_empty() || holds(&row.name) || row.cells.iter().any(|cell| holds(cell));
        let mut seen: Vec<usize> =
            self.rows.iter().enumerate().filter(|(_, row)| fits(row)).map(|(at, _)| at).collect();
        let row = |at: &usize| self.rows.get(*at);
        match sort {
            Sort::Given => {}
            // Unknown values come after 0.
            Sort::Bytes => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.bytes))),
            Sort::Growth => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.since_first))),
            Sort::Count => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.count))),
            Sort::Name => seen.sort_by(|a, b| row(a).map(|row| &row.name).cmp(&row(b).map(|row| &row.name))),
        }
        seen
    }
}

/// Formats a change: `+1.25 MiB`. Empty if there is none, or it is unknown.
fn change(bytes: Option<i64>) -> String {
    match bytes {
        None | Some(0) => String::new(),
        Some(bytes) => format!("{}{}", if bytes > 0 { '+' } else { '-' }, human(bytes.unsigned_abs())),
    }
}

/// Formats an address as an argument: `0x7f42d256e000`.
pub(super) fn at(addr: Addr) -> String {
    addr.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, bytes: Option<u64>, count: u64) -> Row {
        Row { key: name.into(), name: name.into(), bytes, count: Some(count), ..Row::default() }
    }

    fn level() -> Level {
        let rows = vec![row("b", Some(10), 3), row("unknown", None, 9), row("A", Some(30), 1), row("none", Some(0), 2)];
        Level { rows, ..Level::default() }
    }

    fn names(level: &Level, sort: Sort, filter: &str) -> Vec<String> {
        level.seen(sort, filter).into_iter().map(|at| level.rows[at].name.clone()).collect()
    }

    #[test]
    fn rows_are_sorted_and_what_is_unknown_comes_last() {
        let level = level();
        assert_eq!(names(&level, Sort::Bytes, ""), ["A", "b", "none", "unknown"]);
        assert_eq!(names(&level, Sort::Count, ""), ["unknown", "b", "none", "A"]);
        assert_eq!(names(&level, Sort::Name, ""), ["A", "b", "none", "unknown"]);
        assert_eq!(names(&level, Sort::Given, ""), ["b", "unknown", "A", "none"]);
        assert_eq!(level.sorts(), [Sort::Bytes, Sort::Count, Sort::Name, Sort::Given]);
        let bare = Level { rows: vec![Row::default()], sort: Sort::Given, ..Level::default() };
        assert_eq!(bare.sorts(), [Sort::Given, Sort::Name]);
    }

    #[test]
    fn a_filter_is_of_any_case_and_of_cells_too() {
        let mut level = level();
        assert_eq!(names(&level, Sort::Given, "UNK"), ["unknown"]);
        level.rows[3].cells = vec!["tid 4711".into()];
        assert_eq!(names(&level, Sort::Given, "4711"), ["none"]);
        assert!(names(&level, Sort::Given, "nowhere").is_empty());
    }

    #[test]
    fn what_grew_is_told_and_what_was_not_there_had_nothing() {
        let mut now = level();
        let first =
            Level { rows: vec![row("b", Some(4), 1), row("A", Some(50), 1), row("gone", Some(9), 1)], ..level() };
        now.compare(Some(&first), None);
        let grown: Vec<Option<i64>> = now.rows.iter().map(|row| row.since_first).collect();
        assert_eq!(grown, [Some(6), None, Some(-20), Some(0)]);
        assert!(now.rows.iter().all(|row| row.since_last.is_none()));
        let firsts: Vec<&str> = now.rows.iter().map(|row| row.cells[0].as_str()).collect();
        assert_eq!(firsts, ["+6 B", "", "-20 B", ""]);
        assert_eq!(now.columns.len(), 2);
        assert_eq!(names(&now, Sort::Growth, ""), ["b", "none", "A", "unknown"]);
        assert!(now.sorts().contains(&Sort::Growth) && !first.sorts().contains(&Sort::Growth));
    }

    #[test]
    fn shares_are_of_what_is_known() {
        let level = level().with_shares();
        let shares: Vec<Option<f64>> = level.rows.iter().map(|row| row.share).collect();
        assert_eq!(shares, [Some(0.25), None, Some(0.75), Some(0.0)]);
        let nothing = Level { rows: vec![row("none", Some(0), 1)], ..Level::default() }.with_shares();
        assert_eq!(nothing.rows[0].share, None);
    }
}
