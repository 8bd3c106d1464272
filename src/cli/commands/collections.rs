use clap::Args;
use coremap::commands;
use coremap::commands::collections::{CollectionHolderRow, CollectionRow, CollectionTypeRow};
use coremap::render::columns;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::{Exit, Failure};

/// Show how many slots of lists and maps are used, by type, and which fields hold the emptiest
#[derive(Args, Debug)]
pub(super) struct Collections {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Collections {
    const NAME: &'static str = "collections";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let mut names = columns::<CollectionTypeRow>();
        names.extend(columns::<CollectionHolderRow>());
        names.extend(columns::<CollectionRow>());
        let order = self.list.among(common, &names)?;
        let analyse = |session: &Session<'_>, _: &_| order.of(commands::collections(session));
        ask(common, &self.core.core, Self::NAME, analyse, |r| r.types.is_empty())
    }
}
