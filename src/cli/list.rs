//! `--top` and `--sort` of commands that list.

use clap::{Args, CommandFactory};
use coremap::render::{Listed, Listing};

use crate::cli::Failure;
use crate::cli::args::{Common, Format};
use crate::cli::program;

/// How much of a list, and in which order.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// List at most N rows; 0 lists all. Without --top, JSON and CSV list all rows. A table lists only the first
    /// rows (20 to 1,000, depending on the command) and says how many more there are
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

/// Columns that only an option fills, and the option.
const COMPUTED: [(&str, &str); 17] = [
    ("zero", "zero-fill"),
    ("written", "zero-fill"),
    ("touched", "zero-fill"),
    ("content", "contents"),
    ("copies", "strings"),
    ("wasted", "strings"),
    ("text", "strings"),
    ("retained", "retained"),
    ("rss", "smaps"),
    ("rss_estimated", "smaps"),
    ("pss", "smaps"),
    ("private_dirty", "smaps"),
    ("shared", "smaps"),
    ("swap", "smaps"),
    ("huge", "smaps"),
    ("others_estimated", "smaps"),
    ("resident", "smaps"),
];

/// The error for a sort by a column in which no row has a value.
pub(crate) fn not_computed(command: &str, column: &str) -> String {
    let name = column.rsplit('.').next().unwrap_or(column);
    let program = program::Args::command();
    let takes = |option: &str| {
        let of_command = program.find_subcommand(command).into_iter().flat_map(|command| command.get_arguments());
        of_command.chain(program.get_arguments()).any(|argument| argument.get_long() == Some(option))
    };
    let option = COMPUTED.iter().find(|(of, option)| *of == name && takes(option)).map(|(_, option)| *option);
    match option {
        Some("smaps") => format!("--sort {column}: the core does not contain it; give --smaps FILE"),
        Some(option) => format!("--sort {column}: not computed; add --{option}"),
        None => format!("--sort {column}: no row has a value in this column"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_option_that_computes_the_column() {
        assert_eq!(not_computed("stacks", "touched"), "--sort touched: not computed; add --zero-fill");
        assert_eq!(not_computed("regions", "written"), "--sort written: not computed; add --zero-fill");
        assert_eq!(not_computed("regions", "rss"), "--sort rss: the core does not contain it; give --smaps FILE");
        // An option that the command does not have is not suggested.
        assert_eq!(not_computed("heapstat", "written"), "--sort written: no row has a value in this column");
    }
}
