use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::finalizers::{FinalizerRow, FinalizerTypeRow};
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List .NET objects with finalizers, and which are ready to be finalized
#[derive(Args, Debug)]
pub(super) struct Finalizers {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Finalizers {
    const NAME: &'static str = "finalizers";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &[columns::<FinalizerTypeRow>(), columns::<FinalizerRow>()].concat())?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::finalizers(session)),
            |r| r.objects.is_empty(),
        )
    }
}
