use clap::Args;
use coremap::commands;
use coremap::commands::anon::BlockClusterRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Explain anonymous memory without a known owner: contents and likely owner
#[derive(Args, Debug)]
pub(super) struct Anon {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Anon {
    const NAME: &'static str = "anon";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<BlockClusterRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.of(commands::anon(session, progress)),
            |r| r.clusters.is_empty(),
        )
    }
}
