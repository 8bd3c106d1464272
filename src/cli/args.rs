//! Options common to all commands. Each command's own are in its file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use crate::cli::values::{duration, size};

/// Heading of the common options.
pub(crate) const COMMON: &str = "Common options";

/// Options of every command.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = COMMON, next_display_order = 1000)]
pub(crate) struct Common {
    /// The whole program, for commands that describe it.
    #[arg(skip)]
    pub(crate) program: Program,
    /// Set the output format
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORM")]
    pub(crate) format: Format,
    /// Print JSON; same as --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Print CSV; same as --format csv
    #[arg(long, global = true, conflicts_with_all = ["format", "json"])]
    pub(crate) csv: bool,
    /// Look in DIR for files that the core lacks: executable, libraries, .NET assemblies, PDBs (repeatable). A
    /// file is used only if it comes from the same build
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) symbols: Vec<PathBuf>,
    /// For commands that show resident memory, such as summary, stacks and regions: read it from FILE. To make
    /// FILE, run this just before you take the core: cat /proc/PID/status /proc/PID/smaps > FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) smaps: Option<PathBuf>,
    /// Limit coremap's own memory use to SIZE, e.g. 4GiB
    ///
    /// The default is 256 MiB plus twice the core's unpacked size, but at most half of the machine's memory, or
    /// of the container's limit if that is lower. If `retained` or `gcroot` needs more than SIZE, it uses
    /// temporary files. Even then it needs about 30 MiB plus 2 bytes for each heap object. Mapped pages of the
    /// core file do not count towards SIZE.
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Read the running process PID instead of a core. It is stopped while it is read, then continues
    #[arg(long, global = true, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// With --pid: do not stop the process while it is read. The data may be inconsistent, and the
    /// stacks of running threads are not available
    #[arg(long, global = true)]
    pub(crate) no_stop: bool,
    /// With --pid: let the process continue after TIME, e.g. 50ms, even if reading is not finished. What is
    /// read later may be inconsistent, and the exit status is then 4
    #[arg(long, global = true, value_name = "TIME", value_parser = duration, conflicts_with = "no_stop")]
    pub(crate) stop_at_most: Option<Duration>,
    /// Show all columns of tables, and never cut or wrap lines to the width of the terminal
    #[arg(long, global = true)]
    pub(crate) wide: bool,
    /// Choose when to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// Print every warning on stderr; -vv also prints a log, and -vvv a detailed log
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Builds the definition of the program on demand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program(pub(crate) fn() -> clap::Command);

impl Default for Program {
    fn default() -> Program {
        Program(clap::Command::default)
    }
}

impl Common {
    /// The output format to use.
    pub(crate) fn form(&self) -> Format {
        match (self.json, self.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => self.format,
        }
    }
}

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also in pipes and files
    Always,
    /// No colours and no bar charts
    Never,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Table,
    /// One JSON object; `coremap schema COMMAND` describes it
    Json,
    /// The main table as CSV
    Csv,
}

/// The core to read.
#[derive(ClapArgs, Debug)]
pub(crate) struct CoreArg {
    /// Core file (plain or compressed), '-' for standard input, or the PID of a running process
    #[arg(value_name = "CORE")]
    pub(crate) core: PathBuf,
}
