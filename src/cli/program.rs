//! Definition of the whole program: the common options and the commands.

use clap::{Arg, ArgAction, Args as _, CommandFactory, FromArgMatches, Parser};

use crate::cli::args::{COMMON, Common, Program};
use crate::cli::commands::{Chosen, for_readers, help_template};

/// Topic of the help that lists the common options.
pub(crate) const OPTIONS: &str = "options";

/// Find out where a Linux process's memory went, and why, from a core dump or a running process.
#[derive(Parser)]
#[command(
    name = "coremap",
    version = env!("COREMAP_VERSION"),
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_flag = true,
    arg = help_option(),
    help_template = help_template(),
    after_help = AFTER_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Chosen,
}

const AFTER_HELP: &str = "\
CORE is an ELF core dump, plain or compressed (.zst .gz .xz .lz4), '-' for standard input, or the
PID of a running process. Without a command, coremap prints the summary of CORE.
Addresses are hexadecimal: 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000, libc.so.6+0x10.
Command names of SOS, the .NET debugger extension, work too: clrstack, dumpheap -stat, eeheap,
ip2md, dumpasync, gchandles, finalizequeue, syncblk, dumpobj, parallelstacks and others.

Exit status:
  0  done
  1  nothing found, or a --fail-if condition is true
  2  wrong usage
  3  the input is unreadable or not a core, or the output could not be written
  4  done, but incomplete: data is damaged or lost, or `check` found a contradiction";

fn help_option() -> Arg {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpLong).global(true);
    help.help("Print help").help_heading(COMMON).display_order(usize::MAX)
}

impl Args {
    /// Reads the arguments of the program.
    ///
    /// # Errors
    /// clap's error, which describes what is wrong with them, or the requested help.
    pub(crate) fn read<T: Into<std::ffi::OsString> + Clone>(
        args: impl IntoIterator<Item = T>,
    ) -> Result<Args, clap::Error> {
        let mut parser = parser();
        let mut matches = parser.try_get_matches_from_mut(args)?;
        let mut read = Args::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut parser))?;
        read.common.program = Program(Args::command);
        Ok(read)
    }
}

/// The program as its help shows it: each command's help has only its own options, and the topic `options` has the
/// common ones. Manual pages and completions use [`Args::command`], which has all options.
pub(crate) fn parser() -> clap::Command {
    let common = Common::augment_args(clap::Command::new(""));
    let common = common.get_arguments().cloned().chain([help_option()]);
    let common: Vec<Arg> = common.map(|arg| arg.hide(true)).collect();
    let program = Args::command().mut_subcommands(|command| {
        let command = common.iter().fold(command, |command, arg| command.arg(arg.clone()));
        for_readers(command)
    });
    program.subcommand(
        clap::Command::new(OPTIONS)
            .about("Options that every command has")
            .hide(true)
            .help_template("{about-with-newline}\nExample: print the summary of a running process as JSON\n  coremap summary --json --pid 4711\n\n{options}"),
    )
}
