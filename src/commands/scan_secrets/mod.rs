//! `scan-secrets`: what a person would be sorry about in a core that is handed on, by kind and place. No value is kept,
//! printed or logged.

mod analysis;
mod report;
mod table;

pub use analysis::scan_secrets;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "scan-secrets",
    &[answer::<SecretsReport>],
    "Count keys, tokens, passwords and other secrets in a core, without printing them",
);
