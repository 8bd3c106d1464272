use std::path::Path;

use coremap::analysis::{self, LeaksOptions, MallocOptions};
use coremap::introspect::introspect;

use crate::cli::args::{Common, MallocArgs};
use crate::cli::commands::open;
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &MallocArgs) -> Result<Exit, Failure> {
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let options = MallocOptions { chunks: args.chunks, limit: args.limit };
    let report = analysis::malloc(&process, &found, &options, &progress);
    clear();
    let nothing = report.arenas.is_empty() && report.mmapped.count == 0;
    let exit = answer("malloc", common, &process, &found, report)?;
    Ok(exit.or_nothing(nothing))
}

pub(super) fn leaks(common: &Common, core: &Path, blocks: bool, limit: Option<usize>) -> Result<Exit, Failure> {
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let report = analysis::leaks(&process, &found, &LeaksOptions { blocks, limit }, &progress);
    clear();
    let nothing = report.leaked.count == 0;
    Ok(answer("leaks", common, &process, &found, report)?.or_nothing(nothing))
}
