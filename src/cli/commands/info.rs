use clap::Args;
use coremap::commands;
use coremap::commands::info::ModuleRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::answer;
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Show which process this was, its modules, and what the core contains
#[derive(Args, Debug)]
pub(super) struct Info {
    /// Also print the command line and values of environment variables
    #[arg(long)]
    show_data: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Info {
    const NAME: &'static str = "info";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<ModuleRow>())?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || commands::info(session, self.show_data));
            answer(Self::NAME, common, session, order.of(report))
        })
    }
}
