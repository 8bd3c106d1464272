//! What a report looks like before it meets a terminal: lines and tables.

use crate::render::brief::Brief;
use crate::units::{exact, human};

use std::borrow::Cow;

/// What lines begin with that tell of something critical, of something to look at, and of what is worth knowing.
pub(crate) const CRITICAL: &str = "!!";
pub(crate) const WARNING: &str = "!";
pub(crate) const INFO: &str = "·";

/// A report for people.
#[derive(Default)]
pub struct Document<'a> {
    /// Its parts, top to bottom.
    pub blocks: Vec<Block<'a>>,
    /// Rows that its long tables have; 0: all; `None`: as many as each has where nobody says.
    pub top: Option<usize>,
}

/// A part of a document.
pub enum Block<'a> {
    /// A line of text, wrapped to the terminal; the columns that what follows is
    /// indented by.
    Line(String, usize),
    /// A line that stands indented by so many columns, which on a terminal show a share as a bar.
    Shared(String, usize, Option<f64>),
    /// A line that stays one, for programs that read it and hands that copy it.
    Whole(String),
    /// A table.
    Table(TableBlock<'a>),
    /// So many documents, each made when it is its turn: the stacks of 100,000 threads
    /// are not held as text at once.
    Each(usize, Box<dyn Fn(usize) -> Document<'a> + 'a>),
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
    /// The start: the ends of paths tell them apart.
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
pub(crate) const MIN_FLEXIBLE: usize = 12;

/// Rows of a table, a cell for each column.
pub enum Rows<'a> {
    /// All there.
    Listed(Vec<Vec<String>>),
    /// So many, each made when it is looked at: a map of a million regions is not held
    /// as text. Each is made twice, for the widths of the columns and to be written.
    Made(usize, Box<dyn Fn(usize) -> Vec<String> + 'a>),
}

impl Default for Rows<'_> {
    fn default() -> Self {
        Rows::Listed(Vec::new())
    }
}

impl Rows<'_> {
    /// Add a row to those listed; made ones are as many as they are.
    pub fn push(&mut self, row: Vec<String>) {
        if let Rows::Listed(rows) = self {
            rows.push(row);
        }
    }

    /// Add rows, as [`Rows::push`].
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Vec<String>>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Rows::Listed(rows) => rows.len(),
            Rows::Made(count, _) => *count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in order.
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
    /// Index of the first row of a block that is set off by a line.
    pub apart: Option<usize>,
    /// Sums, set off by a line.
    pub footer: Option<Vec<String>>,
    /// Where it may be long: how much of it is shown.
    pub brief: Option<Brief<'a>>,
    /// Index of the column whose shares, in percent, have bars beside them on a terminal.
    pub bar: Option<usize>,
}

impl TableBlock<'_> {
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

impl TableBlock<'_> {
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

    /// The column added last has shares in percent, which on a terminal have bars beside them.
    pub fn bar(mut self) -> Self {
        self.bar = self.columns.len().checked_sub(1);
        self
    }

    /// A column of names of types, which give way in the middle: they begin alike, and end alike.
    pub fn type_name(self, title: &'static str) -> Self {
        self.flexible(title).cut(Cut::Middle)
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

impl<'a> TableBlock<'a> {
    /// It may be long: so many rows are shown, of what `what` names, where nobody says how many.
    pub fn brief(mut self, most: usize, what: &'static str) -> Self {
        self.brief = Some(Brief { most, what, beyond: 0, bytes: None });
        self
    }

    /// So many rows are left out of the answer itself.
    pub fn beyond(mut self, rows: u64) -> Self {
        if let Some(brief) = &mut self.brief {
            brief.beyond = rows;
        }
        self
    }

    /// Bytes of the row of that index.
    pub fn bytes(mut self, of: impl Fn(usize) -> u64 + 'a) -> Self {
        if let Some(brief) = &mut self.brief {
            brief.bytes = Some(Box::new(of));
        }
        self
    }
}

impl<'a> Document<'a> {
    /// Add a line; where it is wrapped, the rest keeps its indentation, or stands
    /// beside its mark.
    pub fn line(&mut self, text: impl Into<String>) {
        let text = text.into();
        let marked =
            [CRITICAL, WARNING, INFO].iter().any(|mark| text.strip_prefix(mark).is_some_and(|t| t.starts_with(' ')));
        let indent = if marked { 2 } else { text.len() - text.trim_start_matches(' ').len() };
        self.blocks.push(Block::Line(text, indent));
    }

    /// Add a line that has a title of so many columns before its text.
    pub fn titled(&mut self, text: impl Into<String>, columns: usize) {
        self.blocks.push(Block::Line(text.into(), columns));
    }

    /// Add a line that stands indented by so many columns, in which a terminal shows a share as a bar.
    pub fn shared(&mut self, text: impl Into<String>, indent: usize, share: Option<f64>) {
        self.blocks.push(Block::Shared(text.into(), indent, share));
    }

    /// Add a line that is never wrapped.
    pub fn whole(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Whole(text.into()));
    }

    /// Add a table.
    pub fn table(&mut self, table: TableBlock<'a>) {
        self.blocks.push(Block::Table(table));
    }

    /// Add `count` documents that `make` makes one by one.
    pub fn each(&mut self, count: usize, make: impl Fn(usize) -> Document<'a> + 'a) {
        self.blocks.push(Block::Each(count, Box::new(make)));
    }
}

/// A size in words, or `-` where it is unknown.
pub(crate) fn size(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), human)
}

/// An exact size, or `-` where it is unknown.
pub(crate) fn exact_or_dash(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), exact)
}

/// `97.3` as a share of `whole`; empty where there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}
