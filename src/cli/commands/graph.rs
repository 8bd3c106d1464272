//! Commands about objects and who holds them.

use std::path::Path;

use coremap::analysis;
use coremap::introspect::introspect;

use crate::cli::args::Common;
use crate::cli::commands::{not_swapped, open, type_pattern};
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

pub(super) fn handles(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::handles(&process, &found);
    let nothing = report.handles.is_empty();
    Ok(answer("handles", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn objects(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    let name = type_pattern(text)?;
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::objects(&process, &found, &name);
    let nothing = report.objects.is_empty();
    Ok(answer("objects", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn object(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    not_swapped(text, core, "address", "object ADDR CORE")?;
    let process = open(core, common, &progress())?;
    let addr = address::parse(text, &process).map_err(Failure::Usage)?;
    let found = introspect(&process);
    let report = analysis::object(&process, &found, addr);
    let nothing = report.name.is_none();
    Ok(answer("object", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn finalizers(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::finalizers(&process, &found);
    let nothing = report.objects.is_empty();
    Ok(answer("finalizers", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn syncblocks(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::syncblocks(&process, &found);
    let nothing = report.blocks.is_empty();
    Ok(answer("syncblocks", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn exceptions(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::exceptions(&process, &found);
    let nothing = report.exceptions.is_empty();
    Ok(answer("exceptions", common, &process, &found, report)?.or_nothing(nothing))
}
