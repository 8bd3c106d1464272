use std::path::Path;

use coremap::analysis;

use crate::cli::args::Common;
use crate::cli::commands::{ask, ask_at, type_pattern};
use crate::cli::{Exit, Failure};

pub(super) fn run(
    common: &Common,
    words: &[String],
    all: bool,
    types: Option<&str>,
    top: usize,
) -> Result<Exit, Failure> {
    match (types, words) {
        (Some(types), [core]) => of_types(common, Path::new(core), types, top),
        (None, [text, core]) => of_object(common, Path::new(core), text, all),
        (Some(_), _) => Err(Failure::Usage("either an address or --type: `coremap gcroot --type RE CORE`".into())),
        (None, _) => Err(Failure::Usage("an address, then the core: `coremap gcroot ADDR CORE`".into())),
    }
}

fn of_object(common: &Common, core: &Path, text: &str, all: bool) -> Result<Exit, Failure> {
    ask_at(
        common,
        core,
        "gcroot",
        text,
        |session, addr, _| analysis::gcroot(session, addr, all),
        |r| r.paths.is_empty(),
    )
}

fn of_types(common: &Common, core: &Path, text: &str, top: usize) -> Result<Exit, Failure> {
    let name = type_pattern(text)?;
    ask(common, core, "gcroot", |session, _| analysis::gcroot_types(session, &name, top), |r| r.groups.is_empty())
}
