use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Show what async methods wait for, and who waits for them (SOS dumpasync, asyncio)
#[derive(Args, Debug)]
pub(super) struct Async {
    /// List every chain, instead of merging identical ones
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Async {
    const NAME: &'static str = "async";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| commands::async_chains(session, !self.all, progress),
            |r| r.chains.is_empty(),
        )
    }
}
