use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask_at;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure, address};

/// Show one object's fields, elements and static fields
#[derive(Args, Debug)]
pub(super) struct Object {
    /// Address of the object, or inside it
    address: String,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Object {
    const NAME: &'static str = "object";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        ask_at(
            common,
            &self.core.core,
            Self::NAME,
            &self.address,
            |session, addr, _| commands::object(session, addr),
            |r, addr| address::inside(addr, r.object, r.name.as_ref()),
            |r| r.name.is_none(),
        )
    }
}
