//! Builds each list from the reports of a sample. Every value in a list is a field of a report, or a sum of such fields
//! over several rows.

mod findings;
mod malloc;
mod memory;
mod retained;
mod threads;
mod types;

use crate::cli::screen::level::Level;
use crate::cli::screen::look::{Look, Part};

pub(super) use memory::Measure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Findings,
    Memory,
    Types,
    Threads,
    Malloc,
    Retained,
}

impl Tab {
    pub(super) const ALL: [Tab; 6] = [Tab::Findings, Tab::Memory, Tab::Types, Tab::Threads, Tab::Malloc, Tab::Retained];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Findings => "Findings",
            Tab::Memory => "Memory",
            Tab::Types => "Types",
            Tab::Threads => "Threads",
            Tab::Malloc => "Malloc",
            Tab::Retained => "Retained",
        }
    }

    /// Returns the part of a sample that the tab needs.
    pub(super) fn part(self) -> Part {
        match self {
            Tab::Findings => Part::Findings,
            Tab::Memory => Part::Map,
            Tab::Types => Part::Types,
            Tab::Threads => Part::Threads,
            Tab::Malloc => Part::Malloc,
            Tab::Retained => Part::Retained,
        }
    }

    /// Returns the ways to group its rows, default first.
    pub(super) fn groupings(self) -> &'static [&'static str] {
        match self {
            Tab::Findings | Tab::Types | Tab::Retained => &[""],
            Tab::Memory => &["by kind", "by region"],
            Tab::Threads => &["by thread", "by stack"],
            Tab::Malloc => &["by use", "by arena"],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) tab: Tab,
    /// Index of the tab's grouping.
    pub(super) grouping: usize,
    /// Measure of memory, if the user chose one.
    pub(super) measure: Option<Measure>,
    /// Keys of the opened rows.
    pub(super) path: &'a [String],
}

/// Builds the list. `None` if its report is not available yet, or an opened row is gone.
pub(super) fn level(view: View<'_>, look: &Look) -> Option<Level> {
    match view.tab {
        Tab::Findings => findings::level(look),
        Tab::Memory => memory::level(look.map.as_deref()?, view),
        Tab::Types => types::level(look.types.as_deref()?, look.retained.as_deref(), view.path),
        Tab::Threads => threads::level(look.threads.as_deref()?, view.grouping),
        Tab::Malloc => malloc::level(look.malloc.as_deref()?, view.grouping, view.path),
        Tab::Retained => retained::level(look.retained.as_deref()?, view.path),
    }
}
