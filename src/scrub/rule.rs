//! The rules by which data is overwritten.

use crate::words::words;

words! {
    /// A rule by which data is overwritten. All rules always apply; only tests switch one off to show that it is
    /// needed ([`Plan::without`]).
    ///
    /// [`Plan::without`]: crate::scrub::Plan::without
    pub enum Rule {
        /// Stacks below the stack pointer, and stacks of ended threads.
        Dead = "dead",
        /// Stacks in use, except what frames are found by.
        Stacks = "stacks",
        /// Memory without a recognized structure.
        Data = "data",
        /// Malloc blocks, except headers and free lists.
        Blocks = "blocks",
        /// Managed objects, except headers and references.
        Objects = "objects",
        /// A runtime's own memory, except what answers read.
        Structures = "structures",
        /// Program files, except what answers read.
        Images = "images",
        /// Characters of strings.
        Texts = "texts",
        /// Fields that are values, even if they look like addresses or were read.
        Values = "values",
        /// Objects whose address would reveal a value are merged into one.
        Alike = "alike",
        /// Structures that were read but look like text.
        UnnamedTexts = "unnamed-texts",
        /// Addresses that look like text.
        Readable = "readable",
        /// Words that point into a walked heap, but to none of its objects.
        Numbers = "numbers",
        /// Stack and pointer guards, and copies of them.
        Guards = "guards",
        /// General registers that point nowhere.
        Registers = "registers",
        /// Floating-point and vector registers.
        FloatRegisters = "float-registers",
        /// The program's arguments.
        Arguments = "arguments",
        /// Data that came with a signal.
        SignalInfo = "signal-info",
        /// Notes of unknown types.
        UnknownNotes = "unknown-notes",
    }
}
