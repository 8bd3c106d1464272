//! Events: the meaning of a line of a tool's text.

use std::ops::Range;

use crate::symbolicate::Cost;

/// Position of a printed address relative to the instruction that was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpPosition {
    /// Within the instruction.
    Instruction,
    /// After the call: a return address.
    AfterCall,
}

/// A frame of a stack, as printed.
#[derive(Clone, Debug)]
pub(super) struct Frame<'t> {
    /// Printed number. A frame of inlined code may have none.
    pub(super) address: Option<u64>,
    /// Position of the address relative to the instruction.
    pub(super) at: IpPosition,
    /// Whether the number may be an offset into the file.
    pub(super) relative: bool,
    /// Name that the tool found, without an offset.
    pub(super) symbol: Option<&'t [u8]>,
    /// File that the tool printed.
    pub(super) dso: Option<&'t [u8]>,
    /// Range of the line that a name replaces.
    pub(super) place: Range<usize>,
    /// Texts to insert before and after the name.
    pub(super) around: (&'static str, &'static str),
    /// Whether the tool prints offsets.
    pub(super) offset: bool,
}

/// The start of a stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Start<'t> {
    /// Name of the process or thread.
    pub(super) label: Option<&'t [u8]>,
    /// Weight of the stack.
    pub(super) weight: u64,
    /// heaptrack: the cost that its list is of.
    pub(super) cost: Option<Cost>,
    /// Process, if the text has it.
    pub(super) pid: Option<u64>,
    /// gdb: whether the stack has no thread header.
    pub(super) loose: bool,
}

/// A mapping listed in the text (PERF_RECORD_MMAP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextMapping<'t> {
    pub(super) pid: Option<u64>,
    /// Start address.
    pub(super) start: u64,
    /// Length in bytes.
    pub(super) len: u64,
    /// Offset in the file, in bytes.
    pub(super) offset: u64,
    pub(super) executable: bool,
    pub(super) path: &'t [u8],
}

/// The meaning of a line.
#[derive(Clone, Debug)]
pub(super) enum Event<'t> {
    /// The line is not relevant.
    Other,
    Start(Start<'t>),
    /// A frame of the stack, the innermost first.
    Frame(Frame<'t>),
    /// A stack begins with this frame.
    First(Start<'t>, Frame<'t>),
    /// heaptrack: the file of the previous frame, with its range if it is `??`.
    Module(&'t [u8], Option<Range<usize>>),
    /// heaptrack: the next frames are the innermost ones of the stacks that follow.
    Top(Start<'t>),
    /// heaptrack: total weight of the stacks that are not listed.
    Rest(u64),
    /// The traced command.
    Command(&'t [u8]),
    End,
    /// memleak: a new list starts.
    List,
    /// memleak's `-a`: a block that was not freed, with address and size in bytes.
    Block(u64, Option<u64>),
    Mapping(TextMapping<'t>),
}

/// Parses the lines of one tool.
pub(super) trait Syntax {
    /// Returns the event of the next line, which is given without its end.
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t>;
}
