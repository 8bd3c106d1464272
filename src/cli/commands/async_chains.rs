use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::async_chains::AsyncChainRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Show what async methods wait for, and who waits for them (SOS dumpasync, asyncio)
#[derive(Args, Debug)]
pub(super) struct Async {
    /// List every chain, instead of merging identical ones
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Async {
    const NAME: &'static str = "async";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<AsyncChainRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.cut(commands::async_chains(session, !self.all, progress)),
            |r| r.chains.is_empty(),
        )
    }
}
