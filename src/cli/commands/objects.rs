use clap::Args;
use coremap::commands;
use coremap::render::columns;
use coremap::report::ListedObject;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{on_core, region, respond, type_pattern};
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// List the objects of a type, with address and size
#[derive(Args, Debug)]
pub(super) struct Objects {
    /// List objects of types whose name matches the regular expression RE
    #[arg(long, value_name = "RE", required_unless_present = "region")]
    r#type: Option<String>,
    /// List only objects in the memory region that contains ADDR
    #[arg(long, value_name = "ADDR")]
    region: Option<String>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Objects {
    const NAME: &'static str = "objects";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<ListedObject>())?;
        let name = self.r#type.as_deref().map(type_pattern).transpose()?;
        on_core(common, &self.core.core, |session, progress| {
            let range = self.region.as_deref().map(|text| region(text, session)).transpose()?;
            let analyse = |session: &Session<'_>, _: &_| order.of(commands::objects(session, name.as_ref(), range));
            respond(common, session, progress, Self::NAME, analyse, |r| r.objects.is_empty())
        })
    }
}
