use std::path::Path;

use coremap::analysis::{self, HeapStatOptions};
use coremap::managed::Selection;

use crate::cli::args::{Common, HeapStatArgs};
use crate::cli::commands::{ask, type_pattern};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &HeapStatArgs) -> Result<Exit, Failure> {
    // An expression that can't be is told before a big core is opened.
    let name = args.r#type.as_deref().map(type_pattern).transpose()?;
    let selection =
        Selection { generation: args.generation.map(|g| g.name()), heap: args.heap, min: args.min, max: args.max };
    let options = HeapStatOptions { name, selection, strings: args.strings };
    ask(
        common,
        core,
        "heapstat",
        |session, progress| analysis::heapstat(session, &options, progress),
        |r| r.types.is_empty(),
    )
}
