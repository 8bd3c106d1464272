use std::io::{self, BufWriter, Write};
use std::path::Path;

use coremap::analysis::{self, Names};
use coremap::introspect::identify;
use coremap::render::perf_map;

use crate::cli::args::{Common, Format};
use crate::cli::commands::open;
use crate::cli::output::{answer, finish, no_runtime, tell};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = identify(&process);
    let names = Names::new(&process, &found);
    let report = analysis::perfmap(&names);
    names.note_missing();
    let nothing = report.entries.is_empty();
    if nothing {
        let why =
            if found.runtimes.is_empty() { no_runtime(&process) } else { "no managed code was found in this core" };
        tell(why);
    }
    let exit = if common.form() == Format::Table {
        let mut out = BufWriter::new(io::stdout().lock());
        perf_map(&report, &mut out)?;
        out.flush()?;
        finish(&process)
    } else {
        answer("perfmap", common, &process, &found, report)?
    };
    Ok(exit.or_nothing(nothing))
}
