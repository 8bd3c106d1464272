use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::syncblocks::SyncBlockRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List contended locks of .NET and native code with their owners and waiters
#[derive(Args, Debug)]
pub(super) struct Syncblocks {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Syncblocks {
    const NAME: &'static str = "syncblocks";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<SyncBlockRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::syncblocks(session)),
            |r| r.blocks.is_empty() && r.locks.is_empty(),
        )
    }
}
