use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::values::duration;
use crate::cli::{Exit, Failure, screen};

/// The memory of a process that runs, looked at every two seconds: --pid N
#[derive(Args, Debug)]
pub(super) struct Top {
    /// How often, as 500ms or 10s; less often where that would keep the process from its work
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    every: Duration,
    /// The process, as /proc/N or its number
    #[arg(value_name = "PROCESS")]
    process: PathBuf,
}

impl Command for Top {
    const NAME: &'static str = "top";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        screen::top(&self.process, common, self.every)
    }
}
