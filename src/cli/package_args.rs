//! Arguments of the commands that read no core.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use coremap::report::schema;

/// Commands that tell of the program itself.
#[derive(Subcommand, Debug)]
pub(crate) enum PackageCommand {
    /// The JSON Schema of what a command answers with --json, or of all commands' answers
    Schema {
        /// The command
        #[arg(value_parser = PossibleValuesParser::new(schema::commands()), hide_possible_values = true)]
        command: Option<String>,
    },
    /// The completions of a shell, for its startup file
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The manual page, in the form that man reads
    Man {
        /// Write the pages of the program and of every command into this folder instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}
