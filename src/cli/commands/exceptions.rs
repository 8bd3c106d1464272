use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::exceptions::ExceptionRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List .NET exception objects on the managed heap
#[derive(Args, Debug)]
pub(super) struct Exceptions {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Exceptions {
    const NAME: &'static str = "exceptions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<ExceptionRow>())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::exceptions(session)),
            |r| r.exceptions.is_empty(),
        )
    }
}
