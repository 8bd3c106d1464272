//! `shell` in a build without the feature `prompt`, and on Windows.

use std::path::Path;

use crate::cli::args::Common;
use crate::cli::{Exit, Failure};

/// Reports that `shell` is not available.
///
/// # Errors
/// Always.
pub(crate) fn shell(_: &Path, _: &Common) -> Result<Exit, Failure> {
    Err(Failure::Usage(
        "this build of coremap does not contain shell: build it on Linux or macOS with `--features full`, or use a \
         release binary"
            .into(),
    ))
}
