use clap::Args;
use coremap::commands;
use coremap::render::columns;
use coremap::report::TimerRow;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List active timers by what they call or who waits for them, with due time and period
#[derive(Args, Debug)]
pub(super) struct Timers {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Timers {
    const NAME: &'static str = "timers";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<TimerRow>())?;
        let analyse = |session: &Session<'_>, _: &_| order.of(commands::timers(session));
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.timers.is_empty())
    }
}
