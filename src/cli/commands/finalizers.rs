use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Objects with finalizers: registered, and ready to be finalized
#[derive(Args, Debug)]
pub(super) struct Finalizers {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Finalizers {
    const NAME: &'static str = "finalizers";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(common, &self.core.core, Self::NAME, |session, _| commands::finalizers(session), |r| r.objects.is_empty())
    }
}
