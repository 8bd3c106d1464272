use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ConditionRow, Finding};
use crate::units::round;

/// `triage`: where the memory went, most important cause first. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TriageReport {
    /// Mapped address space.
    pub size: u64,
    /// Bytes that the core contains.
    pub in_core: u64,
    /// Bytes that the core contains in pages that are not all zero: memory that the process wrote, and dumped file
    /// contents. Pages that are mapped at two addresses count once.
    pub written: u64,
    /// Bytes in RAM, including hugetlbfs pages, which RSS does not count. Memory of the core that smaps does not list
    /// counts as far as it is written. `null` if unknown, for example in a core without `--smaps`. If it is known,
    /// sizes and shares of the findings are of the resident and swapped bytes. Otherwise they are of `written`.
    pub resident: Option<u64>,
    /// Bytes in swap. `null` if `resident` is.
    pub swapped: Option<u64>,
    /// Bytes that are the same pages at another address, and in none of the other figures. Resident and swapped bytes
    /// if `resident` is known, otherwise written bytes.
    pub second_views: u64,
    /// All resident and swapped bytes (written bytes, if `resident` is `null`) by kind, most bytes first. Each byte is of
    /// one kind.
    pub memory: Vec<MemoryRow>,
    /// Those with a known owner: an allocator, a runtime, a library, a module, a thread or a file.
    pub named: ShareRow,
    /// Those without a known owner whose content is described.
    pub described: ShareRow,
    /// All others.
    pub unknown: ShareRow,
    /// Ranges of the unknown bytes, largest first.
    pub unnamed: Vec<UnnamedRow>,
    /// Number of such ranges that are not listed.
    pub more_unnamed: u64,
    /// Findings, most important first. Each byte (resident or swapped if `resident` is known, otherwise written) is
    /// counted in `bytes` of exactly one finding without `within`. A finding with `within` is part of the finding with
    /// that id.
    pub findings: Vec<Finding>,
    /// Analyses that were skipped to stay within `--budget`, in words.
    pub left_out: Vec<String>,
    /// Results of the `--fail-if` conditions.
    pub conditions: Vec<ConditionRow>,
    /// Whether a table shows all notes. By default it leaves out notes on few bytes.
    #[serde(skip)]
    pub all: bool,
}

/// Memory of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MemoryRow {
    /// The kind: `managed heap`, `malloc`, `stacks`, or the name of an allocator.
    pub kind: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Share of all resident and swapped bytes, or of all written bytes if those are unknown, from 0 to 1.
    pub share: f64,
}

/// A part of all bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ShareRow {
    /// Number of bytes.
    pub bytes: u64,
    /// Share of all resident and swapped bytes, or of all written bytes if those are unknown, from 0 to 1.
    pub share: f64,
}

/// A range of memory with an unknown owner.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct UnnamedRow {
    /// Address of its first byte.
    pub start: Addr,
    /// Address after its last byte.
    pub end: Addr,
    /// Written bytes in the range. Resident and swapped bytes if they are not in the core.
    pub bytes: u64,
    /// Content of most of its pages.
    pub content: String,
}

impl TriageReport {
    /// The word for the bytes that the findings count.
    pub(crate) fn measure(&self) -> &'static str {
        match (self.resident, self.swapped) {
            (Some(_), Some(1..)) => "resident and swapped",
            (Some(_), _) => "resident",
            (None, _) => "written",
        }
    }

    /// All bytes that the findings count.
    pub(crate) fn counted(&self) -> u64 {
        self.resident.map_or(self.written, |resident| resident.saturating_add(self.swapped.unwrap_or(0)))
    }

    /// Sums of all memory, in words.
    pub fn sums(&self) -> String {
        let resident = self.resident.map_or_else(String::new, |bytes| format!("{} resident, ", round(bytes)));
        let swapped = self.swapped.filter(|bytes| *bytes > 0);
        format!(
            "{resident}{}{} written, {} in the core, {} mapped",
            swapped.map_or_else(String::new, |bytes| format!("{} in swap, ", round(bytes))),
            round(self.written),
            round(self.in_core),
            round(self.size)
        )
    }

    /// How much of the memory has a known owner, in words.
    pub fn explained(&self) -> String {
        // 100 % means all, and 0 % none.
        let percent = |part: &ShareRow| match part.bytes {
            0 => "0 %".to_owned(),
            _ if part.share < 0.001 => "<0.1 %".to_owned(),
            _ if part.share >= 1.0 => "100 %".to_owned(),
            _ if part.share > 0.999 => ">99.9 %".to_owned(),
            _ => format!("{:.1} %", part.share * 100.0),
        };
        format!(
            "Owner known {}, only content known {}, neither {}",
            percent(&self.named),
            percent(&self.described),
            percent(&self.unknown)
        )
    }
}
