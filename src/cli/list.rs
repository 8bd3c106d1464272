//! `--top` and `--sort` of commands that list.

use clap::Args;
use coremap::render::{Listed, Listing};

use crate::cli::Failure;
use crate::cli::args::{Common, Format};

/// How much of a list, and in which order.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// List at most N rows; 0 lists all. Without --top, JSON and CSV list all rows. A table lists only the first
    /// rows (each command has its own limit, from 20 to 1,000) and says how many more there are
    #[arg(long, alias = "limit", value_name = "N")]
    top: Option<usize>,
    /// Sort by COLUMN, a field name of the JSON or CSV output (`coremap schema COMMAND` lists them). Numbers
    /// are sorted largest first
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
}

/// Checked values of [`ListArgs`].
#[derive(Default)]
pub(crate) struct Order {
    top: Option<usize>,
    column: Option<String>,
    /// Whether the output is a table. A table reports what it omits, so its rows are not cut beforehand.
    table: bool,
}

impl ListArgs {
    /// Checks the order against the available columns. To be called before a large core is opened.
    ///
    /// # Errors
    /// Lists the columns if the requested one does not exist.
    pub(crate) fn among(&self, common: &Common, columns: &[String]) -> Result<Order, Failure> {
        let column =
            self.sort.as_ref().map(|wanted| {
                let same = |have: &&String| have.eq_ignore_ascii_case(&wanted.replace('-', "_"));
                columns.iter().find(same).cloned().ok_or_else(|| {
                    Failure::Usage(format!("--sort: unknown column '{wanted}'; use {}", columns.join(", ")))
                })
            });
        Ok(Order { top: self.top, column: column.transpose()?, table: common.form() == Format::Table })
    }

    pub(crate) fn sort(&self) -> Option<&str> {
        self.sort.as_deref()
    }
}

impl Order {
    /// Puts a report in this order and cuts it to this length.
    pub(crate) fn of<R: Listing>(&self, report: R) -> Listed<R> {
        Listed::new(report, self.column.as_deref(), self.top, !self.table)
    }

    /// Puts a report in this order and cuts it to this length, in all forms. For lists that are no tables.
    pub(crate) fn cut<R: Listing>(&self, report: R) -> Listed<R> {
        Listed::cut(report, self.column.as_deref(), self.top)
    }

    /// Maximum number of rows to search for, if the first rows found are the ones to list. `None` if all are needed.
    pub(crate) fn needed(&self) -> Option<usize> {
        self.top.filter(|&top| top > 0 && self.column.is_none() && !self.table)
    }

    /// Maximum number of rows of a list that is cut while it is made. `None` if none was requested. A list that is
    /// sorted afterwards needs all rows.
    pub(crate) fn most(&self) -> Option<usize> {
        match (self.top, &self.column) {
            (_, Some(_)) | (Some(0), _) => Some(usize::MAX),
            (top, None) => top,
        }
    }

    /// Number of rows to list.
    pub(crate) fn listed(&self) -> usize {
        self.top.filter(|&top| top > 0).unwrap_or(usize::MAX)
    }

    /// Replaces the column by another of that name.
    pub(crate) fn by(mut self, column: &str) -> Order {
        self.column = Some(column.to_owned());
        self
    }
}
