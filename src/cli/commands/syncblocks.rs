use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Contended locks: who owns them, who waits
#[derive(Args, Debug)]
pub(super) struct Syncblocks {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Syncblocks {
    const NAME: &'static str = "syncblocks";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(common, &self.core.core, Self::NAME, |session, _| commands::syncblocks(session), |r| r.blocks.is_empty())
    }
}
