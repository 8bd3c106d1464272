use clap::Args;
use coremap::commands;
use coremap::commands::stackobjects::StackObjectRow;
use coremap::render::columns;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List the objects that the stack of each thread refers to, with the method
#[derive(Args, Debug)]
pub(super) struct Stackobjects {
    /// List only those of the thread TID
    #[arg(long, value_name = "TID")]
    tid: Option<u32>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Stackobjects {
    const NAME: &'static str = "stackobjects";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<StackObjectRow>())?;
        let analyse = |session: &Session<'_>, _: &_| order.of(commands::stackobjects(session, self.tid));
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.objects.is_empty())
    }
}
