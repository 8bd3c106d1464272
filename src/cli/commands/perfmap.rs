use std::io::{self, BufWriter, Write};
use std::path::Path;

use coremap::analysis;
use coremap::render::perf_map;
use coremap::session::Session;

use crate::cli::args::{Common, Format};
use crate::cli::commands::open;
use crate::cli::output::{answer, finish, no_runtime, tell};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let session = Session::new(&process);
    let report = analysis::perfmap(&session);
    let nothing = report.entries.is_empty();
    if nothing {
        let why =
            if session.runtimes().is_empty() { no_runtime(&process) } else { "no managed code was found in this core" };
        tell(why);
    }
    let exit = if common.form() == Format::Table {
        let mut out = BufWriter::new(io::stdout().lock());
        perf_map(&report, &mut out)?;
        out.flush()?;
        finish(&process)
    } else {
        answer("perfmap", common, &session, report)?
    };
    Ok(exit.or_nothing(nothing))
}
