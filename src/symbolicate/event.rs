//! What a line of a tool's text says.

use std::ops::Range;

use crate::symbolicate::Cost;

/// Where the printed address stands to the instruction that was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// In the instruction.
    Instruction,
    /// Right after the call: a return address.
    AfterCall,
}

/// One frame of a stack, as printed.
#[derive(Clone, Debug)]
pub(super) struct Frame<'t> {
    /// The number; a frame of inlined code may have none.
    pub(super) address: Option<u64>,
    /// What it points at.
    pub(super) at: At,
    /// Whether it may be an offset into the file.
    pub(super) relative: bool,
    /// The name the tool found, without an offset.
    pub(super) symbol: Option<&'t [u8]>,
    /// The file the tool gives.
    pub(super) dso: Option<&'t [u8]>,
    /// Bytes of the line that a name takes the place of.
    pub(super) place: Range<usize>,
    /// What goes between the line's own text and the name.
    pub(super) around: (&'static str, &'static str),
    /// Whether the tool prints offsets.
    pub(super) offset: bool,
}

/// How a stack begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Start<'t> {
    /// Name of the process or thread.
    pub(super) label: Option<&'t [u8]>,
    /// What the stack counts.
    pub(super) weight: u64,
    /// Of which of heaptrack's lists it is.
    pub(super) cost: Option<Cost>,
    /// The process, where the text tells it.
    pub(super) pid: Option<u64>,
    /// gdb: a stack without a thread's header.
    pub(super) loose: bool,
}

/// A mapping told by the text (PERF_RECORD_MMAP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextMapping<'t> {
    /// The process.
    pub(super) pid: Option<u64>,
    /// First address.
    pub(super) start: u64,
    /// Bytes.
    pub(super) len: u64,
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// Whether code may run in it.
    pub(super) executable: bool,
    /// The file.
    pub(super) path: &'t [u8],
}

/// What a line says.
#[derive(Clone, Debug)]
pub(super) enum Event<'t> {
    /// Nothing that matters here.
    Other,
    /// A stack begins.
    Start(Start<'t>),
    /// A frame of it, the innermost first.
    Frame(Frame<'t>),
    /// A stack begins with this frame.
    First(Start<'t>, Frame<'t>),
    /// heaptrack: the file of the frame before; the range where it is `??`.
    Module(&'t [u8], Option<Range<usize>>),
    /// heaptrack: the innermost frame of the stacks that follow.
    Top(Start<'t>),
    /// heaptrack: what all stacks that are not listed weigh.
    Rest(u64),
    /// The command that was traced.
    Command(&'t [u8]),
    /// The stack ends.
    End,
    /// memleak: a new list begins.
    List,
    /// memleak's `-a`: a block that was not freed, its address and its bytes.
    Block(u64, Option<u64>),
    /// A mapping.
    Mapping(TextMapping<'t>),
}

/// Reads the lines of one tool.
pub(super) trait Syntax {
    /// What the next line says (given without its end).
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t>;
}
