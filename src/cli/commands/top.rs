use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::values::duration;
use crate::cli::{Exit, Failure, screen};

/// Watch the memory of a running process, refreshed every two seconds
#[derive(Args, Debug)]
pub(super) struct Top {
    /// Refresh every TIME, e.g. 500ms or 10s; less often if that would slow the process down
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    every: Duration,
    /// PID of the running process, or /proc/PID
    #[arg(value_name = "PROCESS")]
    process: PathBuf,
}

impl Command for Top {
    const NAME: &'static str = "top";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        screen::top(&self.process, common, self.every)
    }
}
