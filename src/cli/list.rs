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

/// What [`ListArgs`] asked for, understood.
pub(crate) struct Order {
    top: Option<usize>,
    column: Option<String>,
    /// Whether the answer is a table: it says what it leaves out, so that nothing is cut before.
    table: bool,
}

impl ListArgs {
    /// The order among these columns. To be asked before a big core is opened.
    ///
    /// # Errors
    /// Where there is no such column: those that there are.
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

    /// The column's name as it was written.
    pub(crate) fn sort(&self) -> Option<&str> {
        self.sort.as_deref()
    }
}

impl Order {
    /// An answer in this order, and as long.
    pub(crate) fn of<R: Listing>(&self, report: R) -> Listed<R> {
        Listed::new(report, self.column.as_deref(), self.top, !self.table)
    }

    /// Rows that need be found at all: those asked for, where they are the first ones anyway.
    pub(crate) fn needed(&self) -> Option<usize> {
        self.top.filter(|&top| top > 0 && self.column.is_none() && !self.table)
    }

    /// By another column of that name.
    pub(crate) fn by(mut self, column: &str) -> Order {
        self.column = Some(column.to_owned());
        self
    }
}
