use clap::Args;
use clap_complete::Shell;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::output::write_text;
use crate::cli::{Exit, Failure};

/// Print completions for a shell
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// Shell to print completions for
    shell: Shell,
}

impl Command for Completions {
    const NAME: &'static str = "completions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        // Generated in memory first, because the generator panics on a closed pipe.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut common.program.0(), "coremap", &mut text);
        write_text(Self::NAME, common, &text)
    }
}
