//! `scan-secrets`: finds what should not be shared in a core, by kind and location. It never stores, prints or logs a
//! value.

mod analysis;
mod report;
mod table;

pub use analysis::scan_secrets;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "scan-secrets",
    &[answer::<SecretsReport>],
    "Count keys, tokens, passwords and other secrets in a core, without printing them",
);
