use std::path::Path;

use coremap::analysis::{self, RetainedOptions};
use coremap::introspect::introspect;

use crate::cli::args::{Common, RetainedArgs};
use crate::cli::commands::{open, type_pattern};
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

pub(super) fn run(common: &Common, core: &Path, args: &RetainedArgs) -> Result<Exit, Failure> {
    let name = args.r#type.as_deref().map(type_pattern).transpose()?;
    let process = open(core, common, &progress())?;
    let object = args.object.as_deref().map(|text| address::parse(text, &process)).transpose();
    let options = RetainedOptions { name, object: object.map_err(Failure::Usage)?, top: args.top };
    let found = introspect(&process);
    let report = analysis::retained(&process, &found, &options);
    let nothing = report.types.is_empty();
    Ok(answer("retained", common, &process, &found, report)?.or_nothing(nothing))
}
