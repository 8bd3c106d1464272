use clap::Args;
use coremap::commands::{self, MallocOptions};
use coremap::render::columns;
use coremap::report::{ChunkRow, ClusterRow};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Show malloc memory by arena, size class and group of similar blocks
#[derive(Args, Debug)]
pub(super) struct Malloc {
    /// List every chunk: address that malloc returned, size, used or free, and free list (tcache, fastbin, …)
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Malloc {
    const NAME: &'static str = "malloc";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order =
            self.list.among(common, &if self.chunks { columns::<ChunkRow>() } else { columns::<ClusterRow>() })?;
        let options = MallocOptions { chunks: self.chunks, holders: !self.chunks, limit: order.needed() };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.of(commands::malloc(session, &options, progress)),
            |r| r.arenas.is_empty() && r.total.committed == 0,
        )
    }
}
