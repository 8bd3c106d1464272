//! What is overwritten, rule by rule.

use crate::words::words;

words! {
    /// A rule by which something is overwritten. All of them hold, but in tests that show that each is needed ([`Plan::without`]).
    ///
    /// [`Plan::without`]: crate::scrub::Plan::without
    pub enum Rule {
        /// Stacks below the stack pointer, and those of ended threads.
        Dead = "dead",
        /// Stacks in use, but for what frames are found by.
        Stacks = "stacks",
        /// Memory without a form.
        Data = "data",
        /// Blocks of malloc, but for heads and lists.
        Blocks = "blocks",
        /// Managed objects, but for heads and references.
        Objects = "objects",
        /// A runtime's own memory, but for what answers read of it.
        Structures = "structures",
        /// Program files, but for what answers read of them.
        Images = "images",
        /// Characters of strings.
        Texts = "texts",
        /// Fields that are values, though they look like addresses or were read.
        Values = "values",
        /// Objects that tell a value by their address become one of them.
        Alike = "alike",
        /// What was read as a structure and reads as a text.
        UnnamedTexts = "unnamed-texts",
        /// Addresses that read as a text.
        Readable = "readable",
        /// Words that lead into a heap whose objects are known, and to none of these.
        Numbers = "numbers",
        /// The guards of stacks and pointers, and copies of them.
        Guards = "guards",
        /// General registers that lead nowhere.
        Registers = "registers",
        /// Other registers: of floating point and of vectors.
        FloatRegisters = "float-registers",
        /// The program's arguments.
        Arguments = "arguments",
        /// What came with a signal.
        SignalInfo = "signal-info",
        /// Notes that are not known.
        UnknownNotes = "unknown-notes",
    }
}
