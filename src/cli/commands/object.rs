use clap::Args;
use coremap::commands;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask_at;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// One object: its fields and their values, text, elements, statics of its type
#[derive(Args, Debug)]
pub(super) struct Object {
    /// The object, or an address within it
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
            |r| r.name.is_none(),
        )
    }
}
