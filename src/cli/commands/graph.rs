//! Commands about objects and who holds them.

use std::path::Path;

use coremap::analysis;
use coremap::introspect::introspect;

use crate::cli::args::Common;
use crate::cli::commands::open;
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

/// Nothing found, where nothing else was to be told.
fn or_nothing(exit: Exit, nothing: bool) -> Exit {
    if nothing && exit == Exit::Done { Exit::Nothing } else { exit }
}

pub(super) fn handles(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::handles(&process, &found);
    let nothing = report.handles.is_empty();
    Ok(or_nothing(answer("handles", common, &process, &found, report)?, nothing))
}

pub(super) fn gcroot(common: &Common, core: &Path, text: &str, all: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let addr = address::parse(text, &process).map_err(Failure::Usage)?;
    let found = introspect(&process);
    let report = analysis::gcroot(&process, &found, addr, all);
    let nothing = report.paths.is_empty();
    Ok(or_nothing(answer("gcroot", common, &process, &found, report)?, nothing))
}
