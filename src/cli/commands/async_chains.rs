use std::path::Path;

use coremap::analysis::{self, Names};

use crate::cli::args::Common;
use crate::cli::commands::ask;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, all: bool) -> Result<Exit, Failure> {
    ask(
        common,
        core,
        "async",
        |process, found, progress| analysis::async_chains(process, found, &Names::new(process, found), !all, progress),
        |r| r.chains.is_empty(),
    )
}
