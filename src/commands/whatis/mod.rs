//! `whatis`: everything known of addresses.

mod analysis;
mod report;
mod table;

pub use analysis::whatis;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_process("whatis", &[answer::<WhatisReport>], "Explain what is at one or more addresses, with the evidence");
