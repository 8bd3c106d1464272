use std::path::Path;

use coremap::analysis;

use crate::cli::args::Common;
use crate::cli::commands::ask;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, all: bool) -> Result<Exit, Failure> {
    ask(
        common,
        core,
        "async",
        |session, progress| analysis::async_chains(session, !all, progress),
        |r| r.chains.is_empty(),
    )
}
