use clap::Args;
use coremap::commands::{self, RetainedOptions};
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{on_core, respond, type_pattern};
use crate::cli::commands::Command;
use crate::cli::output::message;
use crate::cli::{Exit, Failure, address};

/// Show the retained size of each type, object or block (what would be freed with it)
#[derive(Args, Debug)]
pub(super) struct Retained {
    /// List only types whose name matches the regular expression RE, and their objects
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// List only what the object or malloc block at ADDR retains; ADDR may be inside it
    #[arg(long, value_name = "ADDR")]
    object: Option<String>,
    /// List at most N types and N objects; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Retained {
    const NAME: &'static str = "retained";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let name = self.r#type.as_deref().map(type_pattern).transpose()?;
        on_core(common, &self.core.core, |session, progress| {
            let object = self.object.as_deref().map(|text| address::read(text, session.process)).transpose()?;
            let options = RetainedOptions { name, object, top: if self.top == 0 { usize::MAX } else { self.top } };
            let analyse = |session: &Session<'_>, _: &_| commands::retained(session, &options);
            respond(common, session, progress, Self::NAME, analyse, |r| {
                let row = object.zip(r.object.as_ref());
                let note = row.and_then(|(addr, row)| address::inside(addr, row.object, row.name.as_ref()));
                note.iter().for_each(|note| message(note));
                r.types.is_empty()
            })
        })
    }
}
