use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::handles::HandleRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// The GC handles, and the objects they lead to
#[derive(Args, Debug)]
pub(super) struct Handles {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Handles {
    const NAME: &'static str = "handles";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<HandleRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::handles(session)),
            |r| r.handles.is_empty(),
        )
    }
}
