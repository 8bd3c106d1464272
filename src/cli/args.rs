//! What all commands take. The arguments of each are in its file.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, ValueEnum};

use crate::cli::commands::{Chosen, help_template};
use crate::cli::values::size;

/// Tells where the memory of a process went, from its Linux core dump alone.
#[derive(Parser)]
#[command(name = "coremap", version = env!("COREMAP_VERSION"), about, max_term_width = 100, arg_required_else_help = true, help_template = help_template())]
#[command(after_help = "\
Exit status: 0 done; 1 nothing found, or a --fail-if holds; 2 wrong usage; 3 input unreadable
or not a core, or the answer could not be written; 4 done, but part of the core could not be
read or understood (the report says what).

A core may be plain ELF or compressed (.zst .gz .xz .lz4), or - for standard input.
Addresses: 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000, libc.so.6+0x10.
A core alone means its summary. Words of SOS are understood: clrstack, dumpheap -stat, eeheap,
ip2md, dumpasync, gchandles, finalizequeue, syncblk, dumpobj, parallelstacks and others.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Chosen,
}

/// What every command takes.
#[derive(ClapArgs, Debug)]
pub(crate) struct Common {
    /// Form of the answer on stdout
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORM")]
    pub(crate) format: Format,
    /// Short for --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Where to look for the program's own files; used only if proven the same build
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) symbols: Vec<PathBuf>,
    /// Let it take so much memory, as 4GiB; usual: 256MiB and twice the core's size, at most
    /// half of the machine's
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Colours: bold headings, red and yellow marks of what is serious; auto: on a terminal, unless
    /// NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// Tell on stderr how things were found (-vv: more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
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
    /// Core file, plain or compressed; - for standard input
    #[arg(value_name = "CORE")]
    pub(crate) core: PathBuf,
}
