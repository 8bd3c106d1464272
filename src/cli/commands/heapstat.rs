use std::path::Path;

use coremap::analysis::{self, HeapStatOptions};
use coremap::dotnet::heap::Selection;
use coremap::introspect::introspect;

use crate::cli::args::{Common, HeapStatArgs};
use crate::cli::commands::{open, type_pattern};
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &HeapStatArgs) -> Result<Exit, Failure> {
    // An expression that can't be is told before a big core is opened.
    let name = args.r#type.as_deref().map(type_pattern).transpose()?;
    let selection = Selection { generation: args.generation, heap: args.heap, min: args.min, max: args.max };
    let options = HeapStatOptions { name, selection, strings: args.strings };
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let report = analysis::heapstat(&process, &found, &options, &progress);
    clear();
    let nothing = report.types.is_empty();
    let exit = answer("heapstat", common, &process, &found, report)?;
    Ok(exit.or_nothing(nothing))
}
