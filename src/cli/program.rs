//! The whole program: what all commands take, and one of them.

use clap::{CommandFactory, Parser};

use crate::cli::args::{Common, Program};
use crate::cli::commands::{Chosen, help_template};

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

impl Args {
    /// Read the arguments of the program.
    ///
    /// # Errors
    /// clap's, which tells what is wrong with them, or the help that was asked for.
    pub(crate) fn read<T: Into<std::ffi::OsString> + Clone>(
        args: impl IntoIterator<Item = T>,
    ) -> Result<Args, clap::Error> {
        let mut read = Args::try_parse_from(args)?;
        read.common.program = Program(Args::command);
        Ok(read)
    }
}
