use clap::Args;

use crate::cli::args::{Common, CoreArg};
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure, shell};

/// Ask many questions about one core, which stays open: a prompt with history and completion
#[derive(Args, Debug)]
pub(super) struct Shell {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Shell {
    const NAME: &'static str = "shell";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        shell::shell(&self.core.core, common)
    }
}
