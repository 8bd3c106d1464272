use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Count keys, tokens, passwords and other secrets in a core, without printing them
#[derive(Args, Debug)]
pub(super) struct ScanSecrets {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for ScanSecrets {
    const NAME: &'static str = "scan-secrets";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(common, &self.core.core, Self::NAME, commands::scan_secrets, |r| r.secrets.is_empty())
    }
}
