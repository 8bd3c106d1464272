//! Commands about objects and who holds them.

use std::path::Path;

use coremap::analysis;

use crate::cli::args::Common;
use crate::cli::commands::{ask, ask_at, type_pattern};
use crate::cli::{Exit, Failure};

pub(super) fn handles(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "handles", |process, found, _| analysis::handles(process, found), |r| r.handles.is_empty())
}

pub(super) fn objects(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    let name = type_pattern(text)?;
    ask(common, core, "objects", |process, found, _| analysis::objects(process, found, &name), |r| r.objects.is_empty())
}

pub(super) fn object(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    ask_at(
        common,
        core,
        "object",
        text,
        |process, found, addr, _| analysis::object(process, found, addr),
        |r| r.name.is_none(),
    )
}

pub(super) fn finalizers(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "finalizers", |process, found, _| analysis::finalizers(process, found), |r| r.objects.is_empty())
}

pub(super) fn syncblocks(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "syncblocks", |process, found, _| analysis::syncblocks(process, found), |r| r.blocks.is_empty())
}

pub(super) fn exceptions(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(
        common,
        core,
        "exceptions",
        |process, found, _| analysis::exceptions(process, found),
        |r| r.exceptions.is_empty(),
    )
}
