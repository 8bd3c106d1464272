use std::path::Path;

use coremap::analysis;
use coremap::introspect::introspect;
use coremap::limits;

use crate::cli::args::Common;
use crate::cli::commands::{not_swapped, open};
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

pub(super) fn run(common: &Common, core: &Path, text: &str, bytes: usize) -> Result<Exit, Failure> {
    not_swapped(text, core, "address", "whatis ADDR CORE")?;
    let process = open(core, common, &progress())?;
    let addr = address::parse(text, &process).map_err(Failure::Usage)?;
    let found = introspect(&process);
    let most = limits::MAX_SHOWN_BYTES;
    if bytes > most {
        process.diag.note("limit", format!("--bytes {bytes}: the first {most} are shown"));
    }
    let report = analysis::whatis(&process, &found, addr, bytes.min(most));
    let nothing = report.region.is_none();
    let exit = answer("whatis", common, &process, &found, report)?;
    Ok(exit.or_nothing(nothing))
}
