use std::path::Path;

use coremap::analysis::{self, RetainedOptions};
use coremap::session::Session;

use crate::cli::args::{Common, RetainedArgs};
use crate::cli::commands::{open, respond, type_pattern};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

pub(super) fn run(common: &Common, core: &Path, args: &RetainedArgs) -> Result<Exit, Failure> {
    let name = args.r#type.as_deref().map(type_pattern).transpose()?;
    let progress = progress();
    let process = open(core, common, &progress)?;
    let object = args.object.as_deref().map(|text| address::parse(text, &process)).transpose();
    let options = RetainedOptions { name, object: object.map_err(Failure::Usage)?, top: args.top };
    let analyse = |session: &Session<'_>, _: &_| analysis::retained(session, &options);
    respond(common, &process, &progress, "retained", analyse, |r| r.types.is_empty())
}
