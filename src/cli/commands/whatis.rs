use std::path::Path;

use coremap::analysis;
use coremap::limits;

use crate::cli::args::Common;
use crate::cli::commands::ask_at;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, text: &str, bytes: usize) -> Result<Exit, Failure> {
    let most = limits::MAX_SHOWN_BYTES;
    ask_at(
        common,
        core,
        "whatis",
        text,
        |session, addr, _| {
            if bytes > most {
                session.process.diag.note("limit", format!("--bytes {bytes}: the first {most} are shown"));
            }
            analysis::whatis(session, addr, bytes.min(most))
        },
        |r| r.region.is_none(),
    )
}
