//! Commands about objects and who holds them.

use std::path::Path;

use coremap::analysis;

use crate::cli::args::Common;
use crate::cli::commands::{ask, ask_at, type_pattern};
use crate::cli::{Exit, Failure};

pub(super) fn handles(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "handles", |session, _| analysis::handles(session), |r| r.handles.is_empty())
}

pub(super) fn objects(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    let name = type_pattern(text)?;
    ask(common, core, "objects", |session, _| analysis::objects(session, &name), |r| r.objects.is_empty())
}

pub(super) fn object(common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
    ask_at(common, core, "object", text, |session, addr, _| analysis::object(session, addr), |r| r.name.is_none())
}

pub(super) fn finalizers(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "finalizers", |session, _| analysis::finalizers(session), |r| r.objects.is_empty())
}

pub(super) fn syncblocks(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "syncblocks", |session, _| analysis::syncblocks(session), |r| r.blocks.is_empty())
}

pub(super) fn exceptions(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "exceptions", |session, _| analysis::exceptions(session), |r| r.exceptions.is_empty())
}
