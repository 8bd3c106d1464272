//! The command line: arguments, one thin file a command, exit statuses,
//! progress on stderr.

mod address;
mod args;
mod commands;
mod exit;
mod output;
mod package_args;
mod progress;
mod values;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

pub(crate) use exit::{Exit, Failure};

/// Run the program.
pub(crate) fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            if let Some(sentence) = mistake(&e) {
                output::tell(&sentence);
                return Exit::Usage.into();
            }
            // Help that was asked for goes to stdout and is no error.
            let _ = e.print();
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { Exit::Done.into() } else { Exit::Usage.into() };
        }
    };
    start_log(args.common.verbose);
    progress::restore_on_interrupt();
    own_up();
    match commands::run(&args) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.is_broken_pipe() {
                output::tell(&failure.to_string());
            }
            failure.exit().into()
        }
    }
}

/// What would help more than clap's own words.
fn mistake(e: &clap::Error) -> Option<String> {
    let word = |kind| match e.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    match e.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = word(ContextKind::InvalidSubcommand)?;
            let file = Path::new(word).exists();
            file.then(|| format!("'{word}' is a file, and a command comes first: `coremap summary {word}`"))
        }
        ErrorKind::UnknownArgument => {
            let form = word(ContextKind::InvalidArg)?.strip_prefix("--")?;
            matches!(form, "csv" | "table").then(|| format!("there is no --{form}: write --format {form}"))
        }
        _ => None,
    }
}

/// After a panic say whose mistake it is, and what still helps.
fn own_up() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        progress::clear();
        told(panic);
        eprintln!(
            "coremap {}: this is a mistake in the program, not in your core. Other commands may still answer; please \
             report the lines above with what `coremap info CORE` prints.",
            env!("COREMAP_VERSION")
        );
    }));
}

fn start_log(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    // A second subscriber in one process can't happen here; nothing to do if it did.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).without_time().try_init();
}
