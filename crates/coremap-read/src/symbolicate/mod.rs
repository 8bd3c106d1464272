//! Names the addresses in texts of tracing tools.
//!
//! perf, heaptrack, memleak and gdb print mostly addresses for a process with jitted code. This room knows how each of
//! them prints an address, and what the address means. [`Namer`] hides how an address gets its name.
//!
//! | tool | printed | passed to the namer |
//! |---|---|---|
//! | perf 6.12 | addresses; a sample's first user frame exact, the others return addresses | the others minus one |
//! | perf 6.1 | offsets into the mapped file instead; addresses if there is no file | the same, after resolving |
//! | heaptrack | return addresses minus one | as printed |
//! | memleak (bcc, libbpf) | return addresses | minus one |
//! | gdb | frame 0 and frames interrupted by a signal exact, the others return addresses | as for perf 6.12 |
//! | folded stacks | heaptrack's `-F`: return addresses minus one | as printed |
//! | any text | `0x` and 8 to 16 digits, or 12 or 16 bare digits | as printed |
//!
//! An offset in the output always counts from the function's start to the printed address.
//!
//! A text is rewritten in place. Only names change, so parsers of the tool's text still work. Names that a tool found
//! for native code stay. Text that is not understood is copied byte for byte.
//!
//! heaptrack prints one address for all callers of malloc in a module without symbols ("N calls … from 0x…"). Such an
//! address gets the name of one of the callers.

mod detect;
mod engine;
mod event;
mod fold;
mod gdb;
mod heaptrack;
mod lines;
mod mappings;
mod memleak;
mod perf;
mod plain;
mod rewrite;
mod scan;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};

use crate::addr::Addr;

pub use crate::words::{CodeKind as Kind, TextFormat as Format};
pub use mappings::{Mapping, mappings};

/// A method that was inlined into its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Name of the method.
    pub symbol: String,
    /// Source line. `None` if unknown.
    pub line: Option<u32>,
}

/// The name of a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Name of the function or method.
    pub symbol: String,
    /// Bytes from the function's start to the address. `None` if unknown.
    pub offset: Option<u64>,
    /// Kind of code.
    pub kind: Kind,
    /// File name of the module it belongs to.
    pub module: Option<String>,
    /// Source line, if the namer has it at once.
    pub line: Option<u32>,
    /// Methods inlined at the address, the innermost first. A text gets `inner():3 <- middle():5 <- symbol+0x10`, and
    /// a folded stack one frame for each.
    pub inlined: Vec<Inlined>,
    /// Uncertainty of the name, in a sentence.
    pub note: Option<&'static str>,
}

/// Source of names for code addresses.
pub trait Namer: Sync {
    /// Returns the function with the instruction at `ip`. `ip` is within the instruction: the caller has subtracted
    /// one from a return address. `None` if there is no code or no name.
    fn name(&self, ip: Addr) -> Option<Resolved>;

    /// Returns the owner of the memory that starts at `address`, in words.
    fn owner(&self, _address: Addr) -> Option<String> {
        None
    }
}

/// heaptrack's cost that weighs the folded stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cost {
    /// Bytes at the peak.
    #[default]
    Peak,
    /// Bytes leaked.
    Leaked,
    /// Number of calls of allocation functions.
    Calls,
    /// Number of allocations that were freed right away.
    Temporary,
}

/// Options for reading a text.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Tool that wrote the text. Detected if `None`.
    pub format: Option<Format>,
    /// Process whose samples are named; others of perf stay as they are. A sample's process is known only from `-F
    /// pid` or PERF_RECORD lines, and a process in a container has another pid outside.
    pub pid: Option<u32>,
    /// Weight of heaptrack's folded stacks.
    pub cost: Cost,
}

/// An address of a text, with all its occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// Number as printed. In perf 6.1's text, it is an offset into a file.
    pub printed: u64,
    /// File printed with it.
    pub dso: Option<String>,
    /// Virtual address. `None` if unknown.
    pub resolved: Option<Addr>,
    /// Name: the namer's, or else the one in the text.
    pub symbol: Option<String>,
    /// Kind of code.
    pub kind: Kind,
    /// Module: the namer's, or else the file in the text.
    pub module: Option<String>,
    /// Number of occurrences in the text.
    pub count: u64,
    /// Source line.
    pub line: Option<u32>,
    /// Methods inlined there, the innermost first.
    pub inlined: Vec<Inlined>,
    /// Reason why there is no virtual address or why it is one of several, or the uncertainty of the name.
    pub note: Option<&'static str>,
}

/// A block of memory that a text lists as not freed (memleak's `-a`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Address.
    pub address: Addr,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Owner, in words.
    pub owner: Option<String>,
}

/// Summary of a processed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Tool that wrote the text.
    pub format: Format,
    /// Addresses, by first occurrence. At most [`crate::limits::MAX_TEXT_ADDRESSES`].
    pub frames: Vec<FrameRow>,
    /// Blocks listed as not freed, each once. At most [`crate::limits::MAX_TEXT_ADDRESSES`].
    pub blocks: Vec<BlockRow>,
    /// Number of lines.
    pub lines: u64,
    /// Number of lines longer than [`crate::limits::MAX_TEXT_LINE`], which were not parsed.
    pub long_lines: u64,
    /// Number of addresses, including repetitions.
    pub addresses: u64,
    /// Number of addresses that the namer named.
    pub named: u64,
    /// Number of addresses beyond the limit of `frames`.
    pub unlisted: u64,
    /// Number of folded stacks written.
    pub stacks: u64,
    /// Total weight of the stacks that exceeded the limit.
    pub dropped: u64,
}

/// The reason why a text could not be rewritten or folded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolicateError {
    /// The text can't be read.
    #[error("can't read the text: {0}")]
    Read(io::Error),
    /// The output can't be written.
    #[error("can't write: {0}")]
    Write(io::Error),
    /// The text has no stacks to fold.
    #[error("no stacks to fold; the text must come from perf script, heaptrack_print, memleak or gdb")]
    NoStacks,
    /// heaptrack's text has no list for this cost.
    #[error("the heaptrack text has no stacks for this cost; heaptrack_print -F writes folded stacks for all costs")]
    NoCost,
}

/// Copies a text and names its addresses.
///
/// # Errors
/// Fails if reading or writing fails, but never because of the text's contents.
pub fn rewrite(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    rewrite::run(input, output, namer, mappings, options)
}

/// Writes the stacks of a text as folded stacks, `comm;outermost;…;innermost weight`, sorted, for flamegraph.pl and
/// similar tools.
///
/// The weight is samples for perf (as in stackcollapse-perf.pl; the first event's period is ignored), bytes in
/// memleak's last list, threads for gdb, and [`Options::cost`] for heaptrack. heaptrack rounds its numbers, and its
/// lists end after the largest stacks. Only perf and heaptrack have a command. Offsets are left out. A frame without a
/// name is `[its file]`.
///
/// # Errors
/// Like [`rewrite()`]. Also fails if the text has no stacks.
pub fn fold(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    fold::run(input, output, namer, mappings, options)
}
