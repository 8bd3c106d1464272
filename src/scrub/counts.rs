//! Which rule each byte went by.

use schemars::JsonSchema;
use serde::Serialize;

use crate::scrub::Rule;
use crate::words::words;

words! {
    /// Why a byte is as it was.
    pub enum Kept {
        /// It was zero.
        Zero = "zero",
        /// It is part of a word that leads into mapped memory.
        Pointers = "pointers",
        /// Answers read it of a program file.
        ProgramFiles = "program-files",
        /// Answers read it of what a runtime has for itself.
        RuntimeStructures = "runtime-structures",
        /// It is in the head of a block of malloc, in its lists or arenas.
        MallocStructures = "malloc-structures",
        /// It is in the head of a managed object, or one of its references.
        ObjectHeads = "object-heads",
        /// It is in the control block of a thread, or in a frame of a signal.
        ThreadRecords = "thread-records",
        /// A reader said of it that it is a structure or a name, wherever it lies.
        Found = "found",
        /// It is in a note: its head, or what is no value of it.
        Notes = "notes",
        /// It is in a header of the file, or aligns a part of it.
        Headers = "headers",
    }
}

/// What became of bytes that went by one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Became {
    /// They are as they were.
    Kept,
    /// They were overwritten.
    Overwritten,
    /// They are names of the program's own, and became others of the same form.
    Renamed,
}

/// A rule that bytes went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// They stayed, for that reason.
    Kept(Kept),
    /// They were overwritten by that rule.
    Rule(Rule),
    /// They are names, and others were asked for.
    Names,
}

/// As many rules as there are.
const RULES: usize = Kept::ALL.len() + Rule::ALL.len() + 1;

impl By {
    /// All, in the order of rows.
    pub fn all() -> impl Iterator<Item = By> {
        let kept = Kept::ALL.iter().map(|&kept| By::Kept(kept));
        kept.chain(Rule::ALL.iter().map(|&rule| By::Rule(rule))).chain([By::Names])
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            By::Kept(kept) => kept.name(),
            By::Rule(rule) => rule.name(),
            By::Names => "names",
        }
    }

    /// What became of the bytes.
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

/// Bytes by the rule that each went by; together all that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; RULES]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; RULES])
    }
}

impl Counts {
    /// Count these bytes.
    pub fn count(&mut self, by: By, bytes: u64) {
        if let Some(sum) = self.0.get_mut(by.number()) {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Bytes that went by a rule.
    pub fn of(&self, by: By) -> u64 {
        self.0.get(by.number()).copied().unwrap_or(0)
    }

    /// Count these too.
    pub fn add(&mut self, more: &Counts) {
        By::all().for_each(|by| self.count(by, more.of(by)));
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// So many bytes that were counted as kept for that reason are names, and became others.
    pub(super) fn renamed(&mut self, kept: Kept, bytes: u64) {
        if let Some(sum) = self.0.get_mut(By::Kept(kept).number()) {
            *sum = sum.saturating_sub(bytes);
        }
        self.count(By::Names, bytes);
    }
}
