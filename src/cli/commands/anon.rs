use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Memory that nothing claims: equal blocks, what fills them, who owns them
#[derive(Args, Debug)]
pub(super) struct Anon {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Anon {
    const NAME: &'static str = "anon";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(common, &self.core.core, Self::NAME, commands::anon, |r| r.clusters.is_empty())
    }
}
