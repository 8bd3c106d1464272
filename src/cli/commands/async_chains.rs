use std::path::Path;

use coremap::analysis::{self, Names};
use coremap::introspect::introspect;

use crate::cli::args::Common;
use crate::cli::commands::open;
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, all: bool) -> Result<Exit, Failure> {
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let names = Names::new(&process, &found);
    let report = analysis::async_chains(&process, &found, &names, !all, &progress);
    clear();
    let nothing = report.chains.is_empty();
    Ok(answer("async", common, &process, &found, report)?.or_nothing(nothing))
}
