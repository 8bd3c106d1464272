use clap::Args;
use coremap::commands;
use coremap::commands::allocations::AllocationSiteRow;
use coremap::render::columns;

use crate::cli::Exit;
use crate::cli::Failure;
use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;

/// Show which code allocated the heap's objects, from the runtime's sampling profile
#[derive(Args, Debug)]
pub(super) struct Allocations {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Allocations {
    const NAME: &'static str = "allocations";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<AllocationSiteRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::allocations(session)),
            |report| report.sites.is_empty(),
        )
    }
}
