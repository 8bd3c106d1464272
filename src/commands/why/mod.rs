//! `why`: what is at an address, what retains it, and what it retains. It combines `whatis`, `gcroot` and `retained`.
//! For types, it shows what retains their objects.

mod analysis;
mod of_block;
mod of_object;
mod report;
mod table;

pub use analysis::{why, why_types};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "why",
    &[answer::<WhyReport>, answer::<WhyTypesReport>],
    "Explain what keeps an object or the objects of a type alive, and what they retain",
);
