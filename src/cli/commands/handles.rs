use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// The GC handles, and the objects they lead to
#[derive(Args, Debug)]
pub(super) struct Handles {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Handles {
    const NAME: &'static str = "handles";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(common, &self.core.core, Self::NAME, |session, _| commands::handles(session), |r| r.handles.is_empty())
    }
}
