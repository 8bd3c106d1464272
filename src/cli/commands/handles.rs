use clap::Args;
use coremap::commands::dotnet::handles::{HandleGroupRow, HandleRow};
use coremap::commands::{self, HandleOptions};
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{ask, type_pattern};
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List .NET GC handles and the objects they refer to
#[derive(Args, Debug)]
pub(super) struct Handles {
    /// List only handles to objects of types whose name matches the regular expression RE
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// Group handles by kind and type, with count and bytes of their objects
    #[arg(long)]
    group: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Handles {
    const NAME: &'static str = "handles";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order =
            self.list.among(common, &if self.group { columns::<HandleGroupRow>() } else { columns::<HandleRow>() })?;
        let name = self.r#type.as_deref().map(type_pattern).transpose()?;
        let options = HandleOptions { name, group: self.group };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, _| order.of(commands::handles(session, &options)),
            |r| r.handles.is_empty(),
        )
    }
}
