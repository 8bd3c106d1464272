use clap::Args;
use coremap::commands::leaks::LeakedRow;
use coremap::commands::{self, LeaksOptions};
use coremap::render::columns;
use coremap::report::ClusterRow;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Find malloc blocks that are in use but that no pointer reaches
#[derive(Args, Debug)]
pub(super) struct Leaks {
    /// List every unreachable block instead of groups of similar blocks
    #[arg(long)]
    blocks: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Leaks {
    const NAME: &'static str = "leaks";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order =
            self.list.among(common, &if self.blocks { columns::<LeakedRow>() } else { columns::<ClusterRow>() })?;
        let options = LeaksOptions { blocks: self.blocks, groups: true, limit: order.needed() };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.of(commands::leaks(session, &options, progress)),
            |r| r.leaked.count == 0,
        )
    }
}
