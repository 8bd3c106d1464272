use std::path::Path;

use coremap::analysis::{self, LeaksOptions, MallocOptions};

use crate::cli::args::{Common, MallocArgs};
use crate::cli::commands::ask;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &MallocArgs) -> Result<Exit, Failure> {
    let options = MallocOptions { chunks: args.chunks, limit: args.limit };
    ask(
        common,
        core,
        "malloc",
        |session, progress| analysis::malloc(session, &options, progress),
        |r| r.arenas.is_empty() && r.mmapped.count == 0,
    )
}

pub(super) fn leaks(common: &Common, core: &Path, blocks: bool, limit: Option<usize>) -> Result<Exit, Failure> {
    let options = LeaksOptions { blocks, limit };
    ask(
        common,
        core,
        "leaks",
        |session, progress| analysis::leaks(session, &options, progress),
        |r| r.leaked.count == 0,
    )
}
