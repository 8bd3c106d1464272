use clap::Args;
use coremap::commands;
use coremap::commands::threadpool::PoolRow;
use coremap::render::columns;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Show thread pools: limits, busy and idle workers, and queued work by method
#[derive(Args, Debug)]
pub(super) struct Threadpool {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Threadpool {
    const NAME: &'static str = "threadpool";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<PoolRow>())?;
        let analyse = |session: &Session<'_>, _: &_| order.of(commands::threadpool(session));
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.pools.is_empty())
    }
}
