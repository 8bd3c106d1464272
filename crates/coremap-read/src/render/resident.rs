//! Columns of resident figures, for all tables that have them.

use crate::render::document::{TableBlock, size};
use crate::report::Resident;
use crate::units::human;

/// Prefix of an estimated figure.
const ESTIMATE_MARK: char = '~';

/// The resident columns that a table has.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct ResidentColumns {
    pss: bool,
    dirty: bool,
    shared: bool,
    swap: bool,
    huge: bool,
}

impl ResidentColumns {
    /// The columns that add information to rows with this total. `None` if nothing is known.
    #[doc(hidden)]
    pub fn of(total: &Resident) -> Option<ResidentColumns> {
        let rss = total.rss?;
        let differs = |figure: Option<u64>| figure.is_some_and(|figure| figure != rss);
        let some = |figure: Option<u64>| figure.is_some_and(|figure| figure > 0);
        Some(ResidentColumns {
            pss: differs(total.pss),
            dirty: differs(total.private_dirty),
            shared: some(total.shared),
            swap: some(total.swap),
            huge: some(total.huge),
        })
    }

    /// Adds the columns after the RSS column.
    #[doc(hidden)]
    pub fn add<'a>(&self, mut table: TableBlock<'a>) -> TableBlock<'a> {
        for (title, rank) in self.titles() {
            table = table.number(title).optional_rank(rank);
        }
        table
    }

    /// Titles, and ranks for dropping columns on a narrow terminal.
    fn titles(&self) -> Vec<(&'static str, u8)> {
        let all = [
            (self.swap, "Swap", 1),
            (self.dirty, "Private dirty", 2),
            (self.pss, "PSS", 3),
            (self.shared, "Shared", 5),
            (self.huge, "Huge", 4),
        ];
        all.into_iter().filter(|(on, ..)| *on).map(|(_, title, rank)| (title, rank)).collect()
    }

    /// The cells of a row after the RSS column.
    #[doc(hidden)]
    pub fn cells(&self, row: &Resident) -> Vec<String> {
        let rough = row.are_others_rough();
        let all = [
            (self.swap, row.swap),
            (self.dirty, row.private_dirty),
            (self.pss, row.pss),
            (self.shared, row.shared),
            (self.huge, row.huge),
        ];
        all.into_iter().filter(|(on, _)| *on).map(|(_, bytes)| cell(bytes, rough)).collect()
    }
}

#[doc(hidden)]
pub fn rss(row: &Resident) -> String {
    cell(row.rss, row.is_rough())
}

fn cell(bytes: Option<u64>, rough: bool) -> String {
    match size(bytes) {
        figure if rough && bytes.is_some_and(|bytes| bytes > 0) => format!("{ESTIMATE_MARK}{figure}"),
        figure => figure,
    }
}

/// Explains the mark of estimated figures, if a row has one. `looked`: whether pages of the core were read.
#[doc(hidden)]
pub fn legend(rows: impl Iterator<Item = Resident>, looked: bool) -> Option<String> {
    let (mut rss, mut others, mut estimated) = (false, false, 0u64);
    for row in rows {
        rss |= row.is_rough();
        others |= row.are_others_rough();
        estimated = estimated.saturating_add(row.rss_estimated.unwrap_or(0));
    }
    if rss {
        let closer = if looked { "" } else { " (--zero-fill is more precise)" };
        return Some(format!(
            "{ESTIMATE_MARK} estimate: several rows share a mapping, whose figures are divided by bytes in the core; {} of RSS may \
             belong to other rows{closer}",
            human(estimated)
        ));
    }
    others.then(|| {
        format!("{ESTIMATE_MARK} estimate: several rows share a mapping; every figure but RSS is divided in proportion to RSS")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_something_is_a_column() {
        let known = |n| Some(n);
        let total = Resident {
            rss: known(8192),
            pss: known(8192),
            private_dirty: known(4096),
            swap: known(0),
            ..Resident::default()
        };
        let columns = ResidentColumns::of(&total).map(|columns| columns.titles());
        assert_eq!(columns, Some(vec![("Private dirty", 2)]));
        assert!(ResidentColumns::of(&Resident::default()).is_none());
    }

    #[test]
    fn an_estimate_is_marked_and_unknown_is_a_dash() {
        let row = Resident { rss: Some(4096), rss_estimated: Some(4096), ..Resident::default() };
        assert_eq!(rss(&row), "~4.00 KiB");
        assert_eq!(rss(&Resident { rss_estimated: Some(40), ..row }), "4.00 KiB", "less than a hundredth");
        assert_eq!(rss(&Resident::default()), "-");
        assert!(legend([row].into_iter(), true).is_some_and(|text| text.starts_with('~') && text.contains("4.00 KiB")));
        assert_eq!(legend([Resident { rss_estimated: Some(0), ..row }].into_iter(), true), None);
    }
}
