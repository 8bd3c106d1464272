use clap::Args;
use coremap::commands;
use coremap::commands::requests::RequestRow;
use coremap::render::columns;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List requests in flight and outgoing calls, with the method that each is in
#[derive(Args, Debug)]
pub(super) struct Requests {
    /// Show paths and peers
    #[arg(long)]
    show_data: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Requests {
    const NAME: &'static str = "requests";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<RequestRow>())?;
        let analyse = |session: &Session<'_>, _: &_| order.of(commands::requests(session, self.show_data));
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.servers.is_empty())
    }
}
