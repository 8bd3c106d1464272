use clap::Args;
use coremap::commands;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched};
use crate::cli::{Exit, Failure};

/// Check the invariants: every byte has one label, and the sums hold
#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Check {
    const NAME: &'static str = "check";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let session = Session::new(&process);
        answer(Self::NAME, common, &session, watched(&process, &progress, || commands::check(&session)))
    }
}
