use clap::Args;
use coremap::commands;
use coremap::commands::stacks::StackRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::answer;
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Show each thread's stack: reserved, guard, in use and high-water mark
#[derive(Args, Debug)]
pub(super) struct Stacks {
    /// Read the pages of all stacks, to count zero and written bytes
    #[arg(long)]
    zero_fill: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Stacks {
    const NAME: &'static str = "stacks";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<StackRow>())?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || {
                commands::stacks(session, &commands::doing(session), self.zero_fill, progress)
            });
            answer(Self::NAME, common, session, order.of(report))
        })
    }
}
