//! Default length and last line of a long table.

use crate::units::{exact, human, noun};

/// Length of a long table, and its last line: `and 444 more types, 1.20 MiB in all; --top 0 shows all`.
pub struct Brief<'a> {
    /// Number of rows shown by default.
    pub default_rows: usize,
    /// Noun for a row, in the singular.
    pub what: &'static str,
    /// Number of rows that the answer itself leaves out.
    pub omitted: u64,
    /// Bytes of a row by its index, if their sum is meaningful.
    pub bytes: Option<Box<dyn Fn(usize) -> u64 + 'a>>,
}

/// Default number of rows for a table sorted by size.
#[doc(hidden)]
pub const RANKED_ROWS: usize = 40;

/// Default number of rows for a table sorted by address or number.
#[doc(hidden)]
pub const LISTED_ROWS: usize = 200;

impl Brief<'_> {
    /// The line about rows that are not shown. `None` if all `rows` are shown.
    pub(crate) fn rest(&self, rows: usize, shown: usize) -> Option<String> {
        let hidden = rows.saturating_sub(shown);
        let left = self.omitted.saturating_add(hidden as u64);
        if left == 0 {
            return None;
        }
        let mut line = format!("and {} more {}", exact(left), noun(left, self.what));
        if let Some(bytes) = self.bytes.as_ref().filter(|_| self.omitted == 0) {
            line.push_str(&format!(", {} in all", human((shown..rows).map(bytes).fold(0, u64::saturating_add))));
        }
        if hidden > 0 {
            line.push_str("; --top 0 shows all");
        }
        Some(line)
    }
}
