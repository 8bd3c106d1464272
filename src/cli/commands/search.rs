use std::path::Path;

use crate::cli::args::{Command, Common};
use crate::cli::{Exit, Failure};

pub(super) fn run(_common: &Common, _core: &Path, _command: &Command) -> Result<Exit, Failure> {
    Err(Failure::Usage("search is not built yet".into()))
}
