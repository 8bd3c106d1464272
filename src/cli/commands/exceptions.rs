use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// The exception objects on the managed heap
#[derive(Args, Debug)]
pub(super) struct Exceptions {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Exceptions {
    const NAME: &'static str = "exceptions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| commands::exceptions(session),
            |r| r.exceptions.is_empty(),
        )
    }
}
