//! Resident figures, which several rows have as columns.

use schemars::JsonSchema;
use serde::Serialize;

/// Resident figures of some memory, in bytes. `None` if unknown, as for a core without `--smaps`. JSON and CSV have
/// them as fields of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Resident {
    /// Resident bytes.
    pub rss: Option<u64>,
    /// Part of `rss` that may belong to another row in the same mapping, if single pages are not known.
    pub rss_estimated: Option<u64>,
    /// Resident bytes, each page divided by the number of processes that map it.
    pub pss: Option<u64>,
    /// Resident, modified bytes of this process alone: memory that would be freed if it ended.
    pub private_dirty: Option<u64>,
    /// Resident bytes that other processes map too.
    pub shared: Option<u64>,
    /// Bytes in swap.
    pub swap: Option<u64>,
    /// Bytes in huge pages, including hugetlbfs, which `rss` does not count.
    pub huge: Option<u64>,
    /// Bytes of `rss` and `swap` whose other figures are divided in proportion, because their mappings contain several
    /// rows.
    pub others_estimated: Option<u64>,
}

impl Resident {
    /// The figures of a total, of which nothing can belong to another row.
    #[doc(hidden)]
    pub fn as_sum(self) -> Resident {
        Resident {
            rss_estimated: self.rss_estimated.map(|_| 0),
            others_estimated: self.others_estimated.map(|_| 0),
            ..self
        }
    }

    /// Whether the estimated share of `rss` is above one percent.
    pub(crate) fn is_rough(&self) -> bool {
        shows(self.rss_estimated, self.rss)
    }

    /// Whether the estimated share of the other figures is above one percent.
    pub(crate) fn are_others_rough(&self) -> bool {
        shows(self.others_estimated, Some(self.rss.unwrap_or(0).saturating_add(self.swap.unwrap_or(0))))
    }
}

fn shows(estimated: Option<u64>, of: Option<u64>) -> bool {
    estimated.zip(of).is_some_and(|(estimated, of)| estimated.saturating_mul(100) > of)
}
