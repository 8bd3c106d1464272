//! The structure of a report before it is drawn: lines and tables.

use crate::render::brief::Brief;
use crate::units::{exact, human};

use std::borrow::Cow;

/// Prefixes of lines about something critical, something to check, and something worth knowing.
pub(crate) const CRITICAL: &str = "!!";
pub(crate) const WARNING: &str = "!";
pub(crate) const INFO: &str = "·";

/// The same prefixes as words, for findings in paragraphs of their own.
pub(crate) const CRITICAL_WORD: &str = "CRITICAL";
pub(crate) const WARNING_WORD: &str = "WARNING";

/// A report as lines and tables.
#[derive(Default)]
pub struct Document<'a> {
    /// The contents, from top to bottom.
    pub blocks: Vec<Block<'a>>,
    /// Number of rows in long tables; 0: all; `None`: each table's default.
    pub top: Option<usize>,
}

/// An element of a document.
pub enum Block<'a> {
    /// A line of text, wrapped to the terminal; the indentation of its continuation lines in columns.
    Line(String, usize),
    /// A line that is never wrapped, because programs read it or people copy it.
    Unwrapped(String),
    /// A table.
    Table(TableBlock<'a>),
    /// This many documents, each created when it is drawn, so that the stacks of 100,000 threads are not all in memory
    /// as text.
    Each(usize, Box<dyn Fn(usize) -> Document<'a> + 'a>),
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The part of a cell that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The start: paths differ at their ends.
    Start,
    /// The middle, if both ends are meaningful.
    Middle,
    /// The end: texts, and values that begin with an address.
    End,
    /// Both ends: the match is in the middle.
    Ends,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Header.
    pub title: &'static str,
    /// Alignment.
    pub align: Align,
    /// Whether it may be cut on a narrow terminal.
    pub flexible: bool,
    /// The part that is cut off then.
    pub cut: Cut,
    /// Minimum width while optional columns remain. After they are dropped, it may be cut to `MIN_FLEXIBLE`.
    pub least: usize,
    /// Rank for dropping it on a narrow terminal: the highest rank first, and of equal ranks the last column. `None`:
    /// never dropped.
    pub optional: Option<u8>,
}

impl Column {
    fn new(title: &'static str, align: Align, flexible: bool) -> Column {
        Column { title, align, flexible, cut: Cut::Start, least: MIN_FLEXIBLE, optional: None }
    }
}

/// Minimum width of a flexible column, in columns.
pub(crate) const MIN_FLEXIBLE: usize = 12;

/// Rows of a table, with a cell for each column.
pub enum Rows<'a> {
    /// Stored rows.
    Listed(Vec<Vec<String>>),
    /// This many rows, each created when it is needed, so that a map of a million regions is not in memory as text.
    /// Each row is created twice: for the widths of the columns, and for the output.
    Made(usize, Box<dyn Fn(usize) -> Vec<String> + 'a>),
}

impl Default for Rows<'_> {
    fn default() -> Self {
        Rows::Listed(Vec::new())
    }
}

impl Rows<'_> {
    /// Appends a row to stored rows. Has no effect on created ones.
    pub fn push(&mut self, row: Vec<String>) {
        if let Rows::Listed(rows) = self {
            rows.push(row);
        }
    }

    /// Appends rows, as [`Rows::push`] does.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Vec<String>>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Rows::Listed(rows) => rows.len(),
            Rows::Made(count, _) => *count,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, [String]>> {
        (0..self.len()).map(move |i| match self {
            Rows::Listed(rows) => Cow::Borrowed(rows.get(i).map(Vec::as_slice).unwrap_or_default()),
            Rows::Made(_, make) => Cow::Owned(make(i)),
        })
    }
}

/// A table.
#[derive(Default)]
pub struct TableBlock<'a> {
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Rows<'a>,
    /// Index of the first row below a separator line.
    pub apart: Option<usize>,
    /// Sums, below a separator line.
    pub footer: Option<Vec<String>>,
    /// Default length, if the table may be long.
    pub brief: Option<Brief<'a>>,
    /// Index of the column with shares in percent that are drawn as bars on a terminal.
    pub bar: Option<usize>,
}

impl TableBlock<'_> {
    /// Adds a column of text.
    pub fn text(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Left, false));
        self
    }

    /// Adds a column of text that may be cut.
    pub fn flexible(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Left, true));
        self
    }

    /// Adds a column of numbers.
    pub fn number(mut self, title: &'static str) -> Self {
        self.columns.push(Column::new(title, Align::Right, false));
        self
    }
}

impl TableBlock<'_> {
    /// Lets the last column be dropped on a narrow terminal.
    pub fn optional(self) -> Self {
        self.optional_rank(1)
    }

    /// Lets the last column be dropped on a narrow terminal, the highest rank first.
    pub fn optional_rank(mut self, rank: u8) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.optional = Some(rank);
        }
        self
    }

    /// Draws bars on a terminal beside the last column, which has shares in percent.
    pub fn bar(mut self) -> Self {
        self.bar = self.columns.len().checked_sub(1);
        self
    }

    /// Adds a column of type names. They are cut in the middle, because many names have the same start or end.
    pub fn type_name(self, title: &'static str) -> Self {
        self.flexible(title).cut(Cut::Middle)
    }

    /// Sets the part that is cut off in the last column.
    pub fn cut(mut self, cut: Cut) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.cut = cut;
        }
        self
    }

    /// Sets the minimum width of the last column while optional columns remain.
    pub fn least(mut self, width: usize) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.least = width;
        }
        self
    }
}

impl<'a> TableBlock<'a> {
    /// Shows at most `default_rows` rows by default. `what` is the noun for a row.
    pub fn brief(mut self, default_rows: usize, what: &'static str) -> Self {
        self.brief = Some(Brief { default_rows, what, omitted: 0, bytes: None });
        self
    }

    /// Sets the number of rows that the answer itself leaves out.
    pub fn omitted(mut self, rows: u64) -> Self {
        if let Some(brief) = &mut self.brief {
            brief.omitted = rows;
        }
        self
    }

    /// Sets the function for the bytes of a row by index.
    pub fn bytes(mut self, of: impl Fn(usize) -> u64 + 'a) -> Self {
        if let Some(brief) = &mut self.brief {
            brief.bytes = Some(Box::new(of));
        }
        self
    }
}

impl<'a> Document<'a> {
    /// Adds a line. If it is wrapped, its continuation lines keep its indentation, or align after its mark.
    pub fn line(&mut self, text: impl Into<String>) {
        let text = text.into();
        let marked =
            [CRITICAL, WARNING, INFO].iter().any(|mark| text.strip_prefix(mark).is_some_and(|t| t.starts_with(' ')));
        let indent = if marked { 2 } else { text.len() - text.trim_start_matches(' ').len() };
        self.blocks.push(Block::Line(text, indent));
    }

    /// Adds a line whose title has `columns` columns.
    pub fn titled(&mut self, text: impl Into<String>, columns: usize) {
        self.blocks.push(Block::Line(text.into(), columns));
    }

    /// Adds a line that is never wrapped.
    pub fn unwrapped(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Unwrapped(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: TableBlock<'a>) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds `count` documents, each created by `make` when it is drawn.
    pub fn each(&mut self, count: usize, make: impl Fn(usize) -> Document<'a> + 'a) {
        self.blocks.push(Block::Each(count, Box::new(make)));
    }
}

/// Formats a size, or `-` if it is unknown.
#[doc(hidden)]
pub fn size(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), human)
}

/// Formats an exact size, or `-` if it is unknown.
#[doc(hidden)]
pub fn exact_or_dash(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), exact)
}

/// Percentage of `unwrapped`, like `97.3`. Empty if `unwrapped` is 0.
#[doc(hidden)]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}
