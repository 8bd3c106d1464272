//! What a report looks like before it meets a terminal: lines and tables.

use crate::units::{exact, human};

/// A report for people.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its parts, top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// A line of text, wrapped to the terminal; the columns that what follows is
    /// indented by.
    Line(String, usize),
    /// A line that stays one, for programs that read it and hands that copy it.
    Whole(String),
    /// A table.
    Table(TableBlock),
}

/// Which side the cells of a column keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Which part of a cell goes where it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The start: the ends of paths and of names of types tell them apart.
    Start,
    /// The middle, where both ends say something.
    Middle,
    /// The end: texts, and values that begin with an address.
    End,
    /// Both ends: what was looked for stands in the middle.
    Ends,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its header.
    pub title: &'static str,
    /// Side.
    pub align: Align,
    /// Gives way on a narrow terminal.
    pub flexible: bool,
    /// What is cut off then.
    pub cut: Cut,
    /// Width that it keeps while there are columns that may be left out; once they
    /// are gone, it may be cut to `MIN_FLEXIBLE`.
    pub least: usize,
    /// Is left out where the terminal is too narrow: the highest rank first, and
    /// of one rank the last column.
    pub optional: Option<u8>,
}

impl Column {
    fn new(title: &'static str, align: Align, flexible: bool) -> Column {
        Column { title, align, flexible, cut: Cut::Start, least: MIN_FLEXIBLE, optional: None }
    }
}

/// Least width that a flexible column is cut to.
pub(super) const MIN_FLEXIBLE: usize = 12;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct TableBlock {
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Sums, set off by a line.
    pub footer: Option<Vec<String>>,
}

impl TableBlock {
    /// A column of text.
    pub fn text(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Left, false));
        self
    }

    /// A column of text that gives way.
    pub fn flexible(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Left, true));
        self
    }

    /// A column of numbers.
    pub fn number(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Right, false));
        self
    }
}

impl TableBlock {
    /// The column added last is left out where the terminal is too narrow.
    pub fn optional(self) -> Self {
        self.optional_rank(1)
    }

    /// The same, with a rank: the highest goes first.
    pub fn optional_rank(mut self, rank: u8) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.optional = Some(rank);
        }
        self
    }

    /// What is cut off in the column added last.
    pub fn cut(mut self, cut: Cut) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.cut = cut;
        }
        self
    }

    /// Columns that may be left out go before the one added last is narrower than this.
    pub fn least(mut self, width: usize) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.least = width;
        }
        self
    }
}

impl Document {
    /// Add a line; where it is wrapped, the rest keeps its indentation, or stands
    /// beside its mark.
    pub fn line(&mut self, text: impl Into<String>) {
        let text = text.into();
        let marked = text.starts_with("! ") || text.starts_with("· ");
        let indent = if marked { 2 } else { text.len() - text.trim_start_matches(' ').len() };
        self.blocks.push(Block::Line(text, indent));
    }

    /// Add a line that has a title of so many columns before its text.
    pub fn titled(&mut self, text: impl Into<String>, columns: usize) {
        self.blocks.push(Block::Line(text.into(), columns));
    }

    /// Add a line that is never wrapped.
    pub fn whole(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Whole(text.into()));
    }

    /// Add a table.
    pub fn table(&mut self, table: TableBlock) {
        self.blocks.push(Block::Table(table));
    }
}

/// A size in words, or `-` where it is unknown.
pub(super) fn size(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), human)
}

/// An exact size, or `-` where it is unknown.
pub(super) fn exact_or_dash(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), exact)
}

/// `97.3` as a share of `whole`; empty where there is no whole.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}
