use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Native memory that managed objects point at: blocks and bytes by type and field
#[derive(Args, Debug)]
pub(super) struct Holders {
    /// List at most this many rows
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Holders {
    const NAME: &'static str = "holders";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| commands::holders(session, self.limit, progress),
            |r| r.holders.is_empty(),
        )
    }
}
