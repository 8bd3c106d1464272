use clap::Args;
use coremap::commands::{self, LeaksOptions};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Used blocks of malloc that no pointer reaches, alike ones together
#[derive(Args, Debug)]
pub(super) struct Leaks {
    /// List every leaked block
    #[arg(long)]
    blocks: bool,
    /// List at most this many clusters, or blocks
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Leaks {
    const NAME: &'static str = "leaks";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let options = LeaksOptions { blocks: self.blocks, limit: self.limit };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| commands::leaks(session, &options, progress),
            |r| r.leaked.count == 0,
        )
    }
}
