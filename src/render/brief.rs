//! How much of a long table is shown, and how it ends.

use crate::units::{exact, human, noun};

/// Last line of a long table: `and 444 more types, 1.20 MiB in all; --top 0 shows all`.
pub struct Brief<'a> {
    /// Rows shown where nobody says how many.
    pub most: usize,
    /// What a row is.
    pub what: &'static str,
    /// Rows that the answer itself leaves out.
    pub beyond: u64,
    /// Bytes of a row, where sums of them mean something.
    pub bytes: Option<Box<dyn Fn(usize) -> u64 + 'a>>,
}

/// Rows of a table that has what is biggest first.
pub(crate) const RANKED: usize = 40;

/// Rows of a table that has its rows by address or number.
pub(crate) const LISTED: usize = 200;

impl Brief<'_> {
    /// The line on those of `rows` that are not shown; `None` where all are.
    pub(crate) fn rest(&self, rows: usize, shown: usize) -> Option<String> {
        let hidden = rows.saturating_sub(shown);
        let left = self.beyond.saturating_add(hidden as u64);
        if left == 0 {
            return None;
        }
        let mut line = format!("and {} more {}", exact(left), noun(left, self.what));
        if let Some(bytes) = self.bytes.as_ref().filter(|_| self.beyond == 0) {
            line.push_str(&format!(", {} in all", human((shown..rows).map(bytes).fold(0, u64::saturating_add))));
        }
        if hidden > 0 {
            line.push_str("; --top 0 shows all");
        }
        Some(line)
    }
}
