use clap::Args;
use coremap::commands;
use coremap::commands::holders::HolderRow;
use coremap::progress::Progress;
use coremap::render::columns;
use coremap::report::NativeHeldRow;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List what holds native memory: managed objects, or variables
#[derive(Args, Debug)]
pub(super) struct Holders {
    /// List malloc blocks by the variable, stack or register that holds them, with their structure; the default for a
    /// process without a managed runtime
    #[arg(long)]
    native: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Holders {
    const NAME: &'static str = "holders";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let mut columns = if self.native { Vec::new() } else { columns::<HolderRow>() };
        columns.extend(coremap::render::columns::<NativeHeldRow>());
        let order = self.list.among(common, &columns)?;
        let analyse = |session: &Session<'_>, progress: &Progress| match self.native || session.runtimes().is_empty() {
            true => order.of(commands::holders_of_blocks(session, order.needed())),
            false => order.of(commands::holders(session, order.needed(), progress)),
        };
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.holders.is_empty() && r.native.is_empty())
    }
}
