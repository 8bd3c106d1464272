//! How each list comes from the reports of a look. What a list shows is a field of a report, or a sum of such fields
//! over the rows that it stands for.

mod findings;
mod malloc;
mod memory;
mod threads;
mod types;

use crate::cli::screen::level::Level;
use crate::cli::screen::look::{Look, Part};

pub(super) use memory::Measure;

/// What one looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Findings,
    Memory,
    Types,
    Threads,
    Malloc,
}

impl Tab {
    /// All, as they stand on the screen.
    pub(super) const ALL: [Tab; 5] = [Tab::Findings, Tab::Memory, Tab::Types, Tab::Threads, Tab::Malloc];

    /// Its title.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Findings => "Findings",
            Tab::Memory => "Memory",
            Tab::Types => "Types",
            Tab::Threads => "Threads",
            Tab::Malloc => "Malloc",
        }
    }

    /// What it needs.
    pub(super) fn part(self) -> Part {
        match self {
            Tab::Findings => Part::Findings,
            Tab::Memory => Part::Map,
            Tab::Types => Part::Types,
            Tab::Threads => Part::Threads,
            Tab::Malloc => Part::Malloc,
        }
    }

    /// Ways in which its rows are put together, the usual one first.
    pub(super) fn groupings(self) -> &'static [&'static str] {
        match self {
            Tab::Findings | Tab::Types => &[""],
            Tab::Memory => &["by kind", "by region"],
            Tab::Threads => &["by thread", "by stack"],
            Tab::Malloc => &["by use", "by arena"],
        }
    }
}

/// Which list is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) tab: Tab,
    /// Number of the tab's grouping.
    pub(super) grouping: usize,
    /// What memory is measured by, where somebody said so.
    pub(super) measure: Option<Measure>,
    /// Keys of the rows that were gone into.
    pub(super) path: &'a [String],
}

/// The list; `None` as long as its report is not there, and where there is no such row.
pub(super) fn level(view: View<'_>, look: &Look) -> Option<Level> {
    match view.tab {
        Tab::Findings => findings::level(look),
        Tab::Memory => memory::level(look.map.as_deref()?, view),
        Tab::Types => types::level(look.types.as_deref()?, view.path),
        Tab::Threads => threads::level(look.threads.as_deref()?, view.grouping),
        Tab::Malloc => malloc::level(look.malloc.as_deref()?, view.grouping, view.path),
    }
}
