use clap::Args;
use coremap::commands::{self, RetainedOptions};
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{open, respond, type_pattern};
use crate::cli::commands::Command;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

/// What would be freed with what: types and objects by the bytes that only they keep
#[derive(Args, Debug)]
pub(super) struct Retained {
    /// Only types whose name matches this regular expression, and their objects
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// Only what this object keeps (or the one that the address is within): where its bytes go
    #[arg(long, value_name = "ADDR")]
    object: Option<String>,
    /// List at most this many types, and as many objects; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Retained {
    const NAME: &'static str = "retained";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let name = self.r#type.as_deref().map(type_pattern).transpose()?;
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let object = self.object.as_deref().map(|text| address::parse(text, &process)).transpose();
        let options = RetainedOptions {
            name,
            object: object.map_err(Failure::Usage)?,
            top: if self.top == 0 { usize::MAX } else { self.top },
        };
        let analyse = |session: &Session<'_>, _: &_| commands::retained(session, &options);
        respond(common, &process, &progress, Self::NAME, analyse, |r| r.types.is_empty())
    }
}
