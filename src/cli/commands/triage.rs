use std::time::Duration;

use clap::Args;
use coremap::commands::{self, TriageOptions};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::values::duration;
use crate::cli::{Exit, Failure};

/// What has the memory, most important first: what an expert would look at in the first ten minutes
#[derive(Args, Debug)]
pub(super) struct Triage {
    /// Leave out what would take longer than this in all, as 10s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    budget: Duration,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Triage {
    const NAME: &'static str = "triage";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let options = TriageOptions { budget: Some(self.budget) };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| commands::triage(session, &options, progress),
            |_| false,
        )
    }
}
