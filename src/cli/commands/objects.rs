use clap::Args;
use coremap::commands;
use coremap::render::columns;
use coremap::report::ListedObject;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{ask, type_pattern};
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List the objects of a type, with address and size
#[derive(Args, Debug)]
pub(super) struct Objects {
    /// List objects of types whose name matches the regular expression RE
    #[arg(long, value_name = "RE")]
    r#type: String,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Objects {
    const NAME: &'static str = "objects";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<ListedObject>())?;
        let name = type_pattern(&self.r#type)?;
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::objects(session, &name)),
            |r| r.objects.is_empty(),
        )
    }
}
