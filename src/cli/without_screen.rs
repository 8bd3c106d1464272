//! `explore` and `top` in a build without the feature `screen`.

use std::path::Path;
use std::time::Duration;

use crate::cli::args::Common;
use crate::cli::{Exit, Failure};

fn missing(command: &str) -> Result<Exit, Failure> {
    Err(Failure::Usage(format!(
        "this build of coremap does not contain {command}: build it with `--features full`, or use a release binary"
    )))
}

/// Reports that `explore` is not available.
///
/// # Errors
/// Always.
pub(crate) fn explore(_: &Path, _: &Common) -> Result<Exit, Failure> {
    missing("explore")
}

/// Reports that `top` is not available.
///
/// # Errors
/// Always.
pub(crate) fn top(_: &Path, _: &Common, _: Duration) -> Result<Exit, Failure> {
    missing("top")
}

/// Does nothing: there is no screen to restore the terminal from.
pub(crate) fn give_back() {}
