use clap::Args;
use coremap::commands::{self, MallocOptions};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Native memory: glibc's malloc by arena, size and blocks that are alike
#[derive(Args, Debug)]
pub(super) struct Malloc {
    /// Every chunk: what malloc returned, size, used or free, where it is kept
    #[arg(long)]
    chunks: bool,
    /// List at most this many clusters, or chunks (all are counted)
    #[arg(long, visible_alias = "top", value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Malloc {
    const NAME: &'static str = "malloc";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let options = MallocOptions { chunks: self.chunks, limit: self.limit };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| commands::malloc(session, &options, progress),
            |r| r.arenas.is_empty() && r.mmapped.count == 0,
        )
    }
}
