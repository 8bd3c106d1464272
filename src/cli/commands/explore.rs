use clap::Args;

use crate::cli::args::{Common, CoreArg};
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure, screen};

/// Browse findings, memory map, types, threads and malloc interactively
#[derive(Args, Debug)]
pub(super) struct Explore {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Explore {
    const NAME: &'static str = "explore";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        screen::explore(&self.core.core, common)
    }
}
