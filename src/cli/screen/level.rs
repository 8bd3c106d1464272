//! A list as it stands on the screen: rows, and which of them are seen in which order.

use std::collections::HashMap;

use coremap::addr::Addr;
use coremap::program::units::human;
use coremap::render::{Align, Cut};

/// What is serious about a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    None,
    Info,
    Warning,
    Critical,
}

/// What Enter does with a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Opens {
    #[default]
    Nothing,
    /// The list beneath it.
    Level,
    /// The answer of its command.
    Command,
    /// The stack of that thread.
    Stack(u32),
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// What it is known by, from one look to the next.
    pub(super) key: String,
    /// What it is called. Text of a core is made safe where it is drawn.
    pub(super) name: String,
    /// The bytes that it is about; `None`: unknown, or about none.
    pub(super) bytes: Option<u64>,
    /// Their share of the list, from 0 to 1.
    pub(super) share: Option<f64>,
    /// By how much they grew since the first look, and since the last; `None`: unknown, or there was no such look.
    pub(super) since_first: Option<i64>,
    pub(super) since_last: Option<i64>,
    /// How many it stands for.
    pub(super) count: Option<u64>,
    /// Cells of the further columns.
    pub(super) cells: Vec<String>,
    pub(super) mark: Mark,
    /// What else is known of it: what it is, and the text.
    pub(super) about: Vec<(&'static str, String)>,
    /// The command that tells more, without program and core.
    pub(super) command: Option<Vec<String>>,
    pub(super) opens: Opens,
}

/// A column between the bytes and the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) align: Align,
    /// The highest goes first where it is narrow.
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

/// A list.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// What a row is of.
    pub(super) noun: &'static str,
    /// Title of the bytes; empty where there are none.
    pub(super) measure: &'static str,
    /// Title of the names.
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// What is cut off names.
    pub(super) cut: Cut,
    /// Whether names are sentences, that are seen in full.
    pub(super) sentences: bool,
    /// The order in which rows stand until somebody asks for another.
    pub(super) sort: Sort,
    /// What is to be said of all of it.
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

/// An order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// As the report has them.
    #[default]
    Given,
    /// Most bytes first.
    Bytes,
    /// Those first that grew most since the first look.
    Growth,
    /// Those that stand for most first.
    Count,
    /// By name.
    Name,
}

impl Sort {
    /// In words.
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
    /// The bytes of all rows, as far as they are known.
    pub(super) fn bytes(&self) -> u64 {
        self.rows.iter().filter_map(|row| row.bytes).fold(0, u64::saturating_add)
    }

    /// The same with each row's share of all bytes.
    #[must_use]
    pub(super) fn with_shares(mut self) -> Level {
        let whole = self.bytes();
        for row in &mut self.rows {
            row.share = row.bytes.filter(|_| whole > 0).map(|bytes| bytes as f64 / whole as f64);
        }
        self
    }

    /// The same with what became of each row since an earlier look; a row that was not there had nothing.
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

    /// Orders that make sense here, the usual one first.
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

    /// Numbers of the rows that are seen, in their order: those in which `filter` stands, in whatever case.
    pub(super) fn seen(&self, sort: Sort, filter: &str) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&filter);
        let fits = |row: &Row| filter.is_empty() || holds(&row.name) || row.cells.iter().any(|cell| holds(cell));
        let mut seen: Vec<usize> =
            self.rows.iter().enumerate().filter(|(_, row)| fits(row)).map(|(at, _)| at).collect();
        let row = |at: &usize| self.rows.get(*at);
        match sort {
            Sort::Given => {}
            // What is unknown comes behind what is known to be nothing.
            Sort::Bytes => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.bytes))),
            Sort::Growth => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.since_first))),
            Sort::Count => seen.sort_by_key(|at| std::cmp::Reverse(row(at).and_then(|row| row.count))),
            Sort::Name => seen.sort_by(|a, b| row(a).map(|row| &row.name).cmp(&row(b).map(|row| &row.name))),
        }
        seen
    }
}

/// `+1.25 MiB`; nothing where nothing changed, or that is not known.
fn change(bytes: Option<i64>) -> String {
    match bytes {
        None | Some(0) => String::new(),
        Some(bytes) => format!("{}{}", if bytes > 0 { '+' } else { '-' }, human(bytes.unsigned_abs())),
    }
}

/// `0x7f42d256e000` as a word of a command.
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
        let told: Vec<&str> = now.rows.iter().map(|row| row.cells[0].as_str()).collect();
        assert_eq!(told, ["+6 B", "", "-20 B", ""]);
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
