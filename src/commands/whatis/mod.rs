//! `whatis`: describes everything known about addresses.

mod analysis;
mod report;
mod table;

pub use analysis::whatis;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("whatis", &[answer::<WhatisReport>], "Explain what is at one or more addresses, with the evidence");
