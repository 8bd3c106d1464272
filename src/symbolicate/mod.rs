//! The texts of tracing tools, with their addresses named.
//!
//! What perf, heaptrack, memleak and gdb print of a process with jitted code is
//! half addresses. This room knows how each of them prints an address and what
//! it means by it; how an address gets its name is behind [`Namer`].
//!
//! | tool | what it prints | asked of the namer |
//! |---|---|---|
//! | perf 6.12 | addresses; the first user frame of a sample exact, the others return addresses | first: as printed; others: one less |
//! | perf 6.1 | offsets into the mapped file instead; addresses where there is no file | the same, after a look into the mappings |
//! | heaptrack | return addresses minus one | as printed |
//! | memleak (bcc, libbpf) | return addresses | one less |
//! | gdb | frame 0 and what a signal hit exact, the others return addresses | the same |
//! | folded stacks | heaptrack's `-F`: return addresses minus one | as printed |
//! | any text | `0x` and 8 to 16 digits, or 12 or 16 bare digits | as printed |
//!
//! A printed offset counts from the printed address in every case.
//!
//! A text is rewritten in place: nothing but the name changes, so what reads
//! the tool's text goes on reading it. Names that a tool found for native code
//! stay; what is not understood passes byte for byte.
//!
//! heaptrack prints one address for all callers of malloc in a module without
//! symbols ("N calls … from 0x…"): there a name is that of one of them.

mod detect;
mod engine;
mod event;
mod fold;
mod gdb;
mod heaptrack;
mod lines;
mod memleak;
mod perf;
mod places;
mod plain;
mod rewrite;
mod scan;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};

use crate::addr::Addr;

pub use crate::words::{CodeKind as Kind, TextFormat as Format};
pub use places::{Mapping, mappings};

/// A method that was compiled into the code of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its name.
    pub symbol: String,
    /// Its line.
    pub line: Option<u32>,
}

/// The name of a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The function or method.
    pub symbol: String,
    /// Bytes from its start to the address asked for, where that is known.
    pub offset: Option<u64>,
    /// What kind of code it is.
    pub kind: Kind,
    /// File name of the module it belongs to.
    pub module: Option<String>,
    /// The line, where whoever names methods knows it at once.
    pub line: Option<u32>,
    /// What was inlined at the address, the innermost first: a text gets `inner():3 <- middle():5 <- symbol+0x10`, folded
    /// stacks a frame of each.
    pub inlined: Vec<Inlined>,
    /// What the name leaves open, in a sentence.
    pub note: Option<&'static str>,
}

/// Whoever can name code addresses.
pub trait Namer: Sync {
    /// The function that has the instruction at `ip`. `ip` lies inside the
    /// instruction: of a return address the caller has taken one off. `None`
    /// where there is no code or no name.
    fn name(&self, ip: Addr) -> Option<Resolved>;

    /// Who owns the memory that begins at `address`, in words.
    fn owner(&self, _address: Addr) -> Option<String> {
        None
    }
}

/// Which of heaptrack's costs the folded stacks weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cost {
    /// Bytes at the peak.
    #[default]
    Peak,
    /// Bytes leaked.
    Leaked,
    /// Calls of allocation functions.
    Calls,
    /// Allocations that were freed right away.
    Temporary,
}

/// How to read a text.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tool; told by the text where `None`.
    pub format: Option<Format>,
    /// Leave perf's samples of other processes alone. Only samples that tell
    /// their process (`-F pid`, PERF_RECORD lines) can be told apart, and a
    /// process in a container has another pid outside.
    pub pid: Option<u32>,
    /// Weight of heaptrack's folded stacks.
    pub cost: Cost,
}

/// One address of a text, in all the places where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// The number as printed: an offset into a file in perf 6.1's text.
    pub printed: u64,
    /// File that the text gives with it.
    pub dso: Option<String>,
    /// The virtual address it means, where that is known.
    pub resolved: Option<Addr>,
    /// Its name: the namer's, or else the one the text has.
    pub symbol: Option<String>,
    /// What kind of code it is.
    pub kind: Kind,
    /// Module: the namer's, or else the file that the text gives.
    pub module: Option<String>,
    /// How often it stands in the text.
    pub count: u64,
    /// Its line.
    pub line: Option<u32>,
    /// What was inlined there, the innermost first.
    pub inlined: Vec<Inlined>,
    /// Why there is no virtual address, or why it is one of several, or what the name leaves open.
    pub note: Option<&'static str>,
}

/// A block of memory that a text lists as not freed (memleak's `-a`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Its address.
    pub address: Addr,
    /// Its bytes.
    pub size: Option<u64>,
    /// Who owns it, in words.
    pub owner: Option<String>,
}

/// What was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The tool that wrote it.
    pub format: Format,
    /// Its addresses, in order of their first place; at most
    /// [`crate::limits::MAX_TEXT_ADDRESSES`].
    pub frames: Vec<FrameRow>,
    /// Blocks that it lists as not freed, each once; at most [`crate::limits::MAX_TEXT_ADDRESSES`].
    pub blocks: Vec<BlockRow>,
    /// Lines.
    pub lines: u64,
    /// Lines longer than [`crate::limits::MAX_TEXT_LINE`], not looked at.
    pub long_lines: u64,
    /// Addresses, each as often as it stands there.
    pub addresses: u64,
    /// Those that the namer named.
    pub named: u64,
    /// Those that `frames` had no room for.
    pub unlisted: u64,
    /// Folded stacks written.
    pub stacks: u64,
    /// Weight of the stacks that there was no room for.
    pub dropped: u64,
}

/// Why a text could not be rewritten or folded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolicateError {
    /// Reading the text.
    #[error("can't read the text: {0}")]
    Read(io::Error),
    /// Writing the answer.
    #[error("can't write: {0}")]
    Write(io::Error),
    /// Folding needs stacks, and a text of this kind has none.
    #[error("no stacks to fold; the text must come from perf script, heaptrack_print, memleak or gdb")]
    NoStacks,
    /// heaptrack's text has no list of this cost.
    #[error("the heaptrack text has no stacks for this cost; heaptrack_print -F writes folded stacks for all costs")]
    NoCost,
}

/// Copy a text and name its addresses on the way.
///
/// # Errors
/// Where reading or writing fails; never because of what the text says.
pub fn rewrite(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    rewrite::run(input, output, namer, mappings, options)
}

/// Write the stacks of a text as folded stacks, `comm;outermost;…;innermost
/// weight`, sorted, for flamegraph.pl and its kin.
///
/// The weight is samples for perf (as stackcollapse-perf.pl counts; the first
/// event's period plays no part), bytes for memleak's last list, threads for
/// gdb, [`Options::cost`] for heaptrack, whose numbers are rounded and whose
/// lists end after the largest stacks. Only perf and heaptrack tell a command.
/// Offsets are left out, and a frame without a name is `[its file]`.
///
/// # Errors
/// As [`rewrite()`], and where the text has no stacks.
pub fn fold(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    fold::run(input, output, namer, mappings, options)
}
