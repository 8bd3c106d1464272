use clap::Args;
use coremap::commands;
use coremap::commands::holders::HolderRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List native memory owned by managed objects, by type and field
#[derive(Args, Debug)]
pub(super) struct Holders {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Holders {
    const NAME: &'static str = "holders";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<HolderRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.of(commands::holders(session, order.needed(), progress)),
            |r| r.holders.is_empty(),
        )
    }
}
