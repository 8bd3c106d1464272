//! Counts bytes of a scrubbed core by rule.

use schemars::JsonSchema;
use serde::Serialize;

use crate::scrub::Rule;
use crate::sums::SaturatingSum;
use crate::words::words;

words! {
    /// Reason why a byte was not changed.
    pub enum Kept {
        /// It was zero.
        Zero = "zero",
        /// It is in a word that points into mapped memory.
        Pointers = "pointers",
        /// It is in a program file, and answers read it.
        ProgramFiles = "program-files",
        /// It is in a runtime's own structures, and answers read it.
        RuntimeStructures = "runtime-structures",
        /// It is in the header of a malloc block, in a free list or in an arena.
        MallocStructures = "malloc-structures",
        /// It is in the header of a managed object, or in a reference.
        ObjectHeads = "object-heads",
        /// It is in a thread's control block, or in a signal frame.
        ThreadRecords = "thread-records",
        /// A reader marked it as a structure or a name.
        Found = "found",
        /// It is in a note's header, or in a field without process data.
        Notes = "notes",
        /// It is in a file header, or is alignment padding.
        Headers = "headers",
    }
}

/// Outcome for the bytes that one rule applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Became {
    /// Unchanged.
    Kept,
    /// Overwritten.
    Overwritten,
    /// Names of the program, replaced by others of the same form.
    Renamed,
}

/// The rule that applied to a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// Unchanged, for this reason.
    Kept(Kept),
    /// Overwritten by this rule.
    Rule(Rule),
    /// A name that was replaced, as requested.
    Names,
}

const RULES: usize = Kept::ALL.len() + Rule::ALL.len() + 1;

impl By {
    /// Iterates all rules, in row order.
    pub fn all() -> impl Iterator<Item = By> {
        let kept = Kept::ALL.iter().map(|&kept| By::Kept(kept));
        kept.chain(Rule::ALL.iter().map(|&rule| By::Rule(rule))).chain([By::Names])
    }

    /// Returns the rule's name.
    pub fn name(self) -> &'static str {
        match self {
            By::Kept(kept) => kept.name(),
            By::Rule(rule) => rule.name(),
            By::Names => "names",
        }
    }

    /// Returns the outcome for the bytes.
    pub fn became(self) -> Became {
        match self {
            By::Kept(_) => Became::Kept,
            By::Rule(_) => Became::Overwritten,
            By::Names => Became::Renamed,
        }
    }

    fn number(self) -> usize {
        match self {
            By::Kept(kept) => kept as usize,
            By::Rule(rule) => Kept::ALL.len() + rule as usize,
            By::Names => RULES - 1,
        }
    }
}

/// Bytes by rule. The sum is all written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; RULES]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; RULES])
    }
}

impl Counts {
    /// Counts `bytes` bytes for the rule `by`.
    pub fn count(&mut self, by: By, bytes: u64) {
        if let Some(sum) = self.0.get_mut(by.number()) {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Number of bytes that the rule `by` applied to.
    pub fn of(&self, by: By) -> u64 {
        self.0.get(by.number()).copied().unwrap_or(0)
    }

    /// Adds the counts of `more`.
    pub fn add(&mut self, more: &Counts) {
        By::all().for_each(|by| self.count(by, more.of(by)));
    }

    /// Sum over all rules.
    pub fn total(&self) -> u64 {
        self.0.iter().copied().saturating_sum()
    }

    /// Moves `bytes` bytes from those kept for this reason to replaced names.
    pub(super) fn renamed(&mut self, kept: Kept, bytes: u64) {
        if let Some(sum) = self.0.get_mut(By::Kept(kept).number()) {
            *sum = sum.saturating_sub(bytes);
        }
        self.count(By::Names, bytes);
    }
}
