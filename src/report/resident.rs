//! What of some memory was resident: the columns that several rows have.

use schemars::JsonSchema;
use serde::Serialize;

/// Resident figures of some memory, in bytes. `None` if unknown: of a core without `--smaps`. JSON and CSV have them as
/// fields of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Resident {
    /// In RAM.
    pub rss: Option<u64>,
    /// Of `rss`, what may be another row's: of mappings that hold several, where single pages are not known.
    pub rss_estimated: Option<u64>,
    /// In RAM, each page divided by the number of processes that map it.
    pub pss: Option<u64>,
    /// In RAM, of this process alone, and changed: what would be free if it ended.
    pub private_dirty: Option<u64>,
    /// In RAM and mapped by other processes too.
    pub shared: Option<u64>,
    /// In swap.
    pub swap: Option<u64>,
    /// In huge pages, those of hugetlbfs too, which `rss` lacks.
    pub huge: Option<u64>,
    /// Of `rss` and `swap`, bytes whose other figures are divided in proportion: of mappings that hold several rows.
    pub others_estimated: Option<u64>,
}

impl Resident {
    /// The same of all that there is: nothing of it can be another row's.
    pub(crate) fn as_sum(self) -> Resident {
        Resident {
            rss_estimated: self.rss_estimated.map(|_| 0),
            others_estimated: self.others_estimated.map(|_| 0),
            ..self
        }
    }

    /// Whether so much of `rss` is estimated that it shows: a hundredth.
    pub(crate) fn is_rough(&self) -> bool {
        shows(self.rss_estimated, self.rss)
    }

    /// The same of all other figures.
    pub(crate) fn are_others_rough(&self) -> bool {
        shows(self.others_estimated, Some(self.rss.unwrap_or(0).saturating_add(self.swap.unwrap_or(0))))
    }
}

fn shows(estimated: Option<u64>, of: Option<u64>) -> bool {
    estimated.zip(of).is_some_and(|(estimated, of)| estimated.saturating_mul(100) > of)
}
