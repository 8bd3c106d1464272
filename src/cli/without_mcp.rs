//! `mcp` in a build without the feature `mcp`.

use crate::cli::args::Common;
use crate::cli::commands::McpArgs;
use crate::cli::{Exit, Failure};

/// Reports that `mcp` is not available.
///
/// # Errors
/// Always.
pub(crate) fn serve(_: &McpArgs, _: &Common) -> Result<Exit, Failure> {
    Err(Failure::Usage(
        "this build of coremap does not contain mcp: build it with `--features full`, or use a release binary".into(),
    ))
}
