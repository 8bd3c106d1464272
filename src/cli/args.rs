//! What all commands take. The arguments of each are in its file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use crate::cli::values::{duration, size};

/// What every command takes.
#[derive(ClapArgs, Debug)]
pub(crate) struct Common {
    /// The whole program, for commands that tell of it.
    #[arg(skip)]
    pub(crate) program: Program,
    /// Form of the answer on stdout
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORM")]
    pub(crate) format: Format,
    /// Short for --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Where to look for the program's own files; used only if proven the same build
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) symbols: Vec<PathBuf>,
    /// What of the core's memory was in RAM: /proc/PID/smaps, saved just before the core was written
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) smaps: Option<PathBuf>,
    /// Let it take so much memory, as 4GiB; usual: 256MiB and twice the core's size, at most
    /// half of the machine's. What objects keep (`retained`, `gcroot`) is in a temporary file where that is too little,
    /// but for 2 bytes an object of the heap and some 30 MiB. Pages of the core itself do not count
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Look at the process of this number, which goes on running, in place of a core
    #[arg(long, global = true, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// With --pid: let the process run while it is read; what is read may not fit together then, and threads
    /// that run have no stack
    #[arg(long, global = true)]
    pub(crate) no_stop: bool,
    /// With --pid: let the process go after so long, as 50ms, whatever is still to be read
    #[arg(long, global = true, value_name = "TIME", value_parser = duration, conflicts_with = "no_stop")]
    pub(crate) stop_at_most: Option<Duration>,
    /// Colours: bold headings, red and magenta marks of what is serious; auto: on a terminal, unless
    /// NO_COLOR is set; never: without bars of shares, too
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// Print every warning on stderr, not one line for all of them (-vv: with a log, -vvv: with more of it)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The program as clap sees it, made where it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program(pub(crate) fn() -> clap::Command);

impl Default for Program {
    fn default() -> Program {
        Program(clap::Command::default)
    }
}

impl Common {
    /// The form asked for.
    pub(crate) fn form(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// In pipes and files too
    Always,
    /// Not at all
    Never,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One object; see the contract
    Json,
    /// The main rows
    Csv,
}

/// The core to read.
#[derive(ClapArgs, Debug)]
pub(crate) struct CoreArg {
    /// Core file, plain or compressed; - for standard input; or a process's number
    #[arg(value_name = "CORE")]
    pub(crate) core: PathBuf,
}
