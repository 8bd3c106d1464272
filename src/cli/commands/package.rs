//! What goes with the program: schema, completions, manual pages.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use coremap::report::schema;

use crate::cli::args::Args;
use crate::cli::package_args::PackageCommand;
use crate::cli::{Exit, Failure};

pub(super) fn run(command: &PackageCommand) -> Result<Exit, Failure> {
    match command {
        PackageCommand::Schema { command } => print_schema(command.as_deref()),
        PackageCommand::Completions { shell } => completions(*shell),
        PackageCommand::Man { dir } => man(dir.as_deref()),
    }
}

fn print_schema(command: Option<&str>) -> Result<Exit, Failure> {
    let schema = match command {
        None => schema::all(),
        Some(name) => schema::of(name).ok_or_else(|| Failure::Usage(format!("{name} has no answer in JSON")))?,
    };
    let mut text = serde_json::to_string_pretty(&schema).map_err(io::Error::from)?;
    text.push('\n');
    written(text.as_bytes())
}

fn completions(shell: Shell) -> Result<Exit, Failure> {
    // By way of memory: the generator takes a closed pipe for a reason to panic.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "coremap", &mut text);
    written(&text)
}

fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    if let Some(dir) = dir {
        let told = |e: io::Error| Failure::Usage(format!("{}: {e}", dir.display()));
        std::fs::create_dir_all(dir).map_err(told)?;
        clap_mangen::generate_to(Args::command(), dir).map_err(told)?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page)?;
    written(&page)
}

fn written(text: &[u8]) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(Exit::Done)
}
