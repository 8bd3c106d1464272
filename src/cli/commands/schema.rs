use clap::Args;
use clap::builder::PossibleValuesParser;
use coremap::commands::schema;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::output::write_text;
use crate::cli::{Exit, Failure};

/// Print the JSON Schema of a command's --json output, or of all commands
#[derive(Args, Debug)]
pub(super) struct Schema {
    /// Command to describe; without it, all commands
    #[arg(value_parser = PossibleValuesParser::new(schema::commands()), hide_possible_values = true)]
    command: Option<String>,
}

impl Command for Schema {
    const NAME: &'static str = "schema";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let schema = match &self.command {
            None => schema::all(),
            Some(name) => schema::of(name).ok_or_else(|| Failure::Usage(format!("{name} has no JSON output")))?,
        };
        let mut text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?;
        text.push('\n');
        write_text(Self::NAME, common, text.as_bytes())
    }
}
