//! The command line: arguments, one file per command, exit statuses, and progress on stderr.

mod address;
mod addresses;
mod args;
mod ask;
mod commands;
mod console;
mod exit;
mod interrupt;
mod lent;
mod list;
#[cfg_attr(not(feature = "mcp"), path = "without_mcp.rs")]
mod mcp;
mod moments;
mod new_file;
mod output;
mod pool;
mod program;
mod progress;
#[cfg_attr(not(feature = "screen"), path = "without_screen.rs")]
mod screen;
#[cfg_attr(not(all(unix, feature = "prompt")), path = "without_shell.rs")]
mod shell;
mod values;
mod words;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use coremap::program::{is_harmful, printable, stops};

pub(crate) use exit::{Exit, Failure};

pub(crate) fn main() -> ExitCode {
    let status = run();
    console::flush();
    status
}

fn run() -> ExitCode {
    if let Some(sentence) = words::without_counterpart(&std::env::args_os().collect::<Vec<_>>()) {
        output::message(&sentence);
        return Exit::Usage.into();
    }
    let args = match program::Args::read(words::in_our_words(std::env::args_os().collect())) {
        Ok(args) => args,
        Err(e) => {
            if let Some(sentence) = mistake(&e) {
                output::message(&sentence);
                return Exit::Usage.into();
            }
            // Requested help goes to stdout and is not an error.
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if !asked {
                let _ = escaped(e).print();
                return Exit::Usage.into();
            }
            return match e.print().and_then(|()| io::stdout().flush()) {
                Ok(()) => Exit::Done.into(),
                Err(e) => failed(&Failure::Output(e)),
            };
        }
    };
    start_log(args.common.verbose);
    interrupt::clean_up_when_ended();
    #[cfg(unix)]
    interrupt::suspend_between_stops();
    install_panic_hook();
    if let Some(sentence) = pool::start() {
        output::message(&format!("warning: {sentence}"));
    }
    match args.command.run(&args.common) {
        Ok(exit) => exit.into(),
        Err(failure) => failed(&failure),
    }
}

/// Prints why there is no answer on stderr, and returns the exit status.
fn failed(failure: &Failure) -> ExitCode {
    if !failure.is_broken_pipe() {
        output::message(&failure.to_string());
    }
    failure.exit().into()
}

/// A more helpful message than clap's own.
fn mistake(e: &clap::Error) -> Option<String> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidArg) else { return None };
    let Some(form) = word.strip_prefix("--") else { return second_core(word) };
    (form == "table").then(|| format!("unknown option --{form}; use --format {form}"))
}

/// Suggests the command that compares two cores if a command was given a second core.
fn second_core(second: &str) -> Option<String> {
    let args: Vec<String> = std::env::args_os().skip(1).filter_map(|arg| arg.into_string().ok()).collect();
    let command = args.iter().find_map(|arg| coremap::commands::named(arg))?.name;
    let at = args.iter().position(|arg| arg == second)?;
    let first = args.get(..at)?.iter().rfind(|arg| Path::new(arg).is_file())?;
    let sentence = format!("{command} reads one core; to compare two: `coremap diff {first} {second}`");
    Path::new(second).is_file().then_some(sentence)
}

/// Escapes control characters in the arguments that clap repeats: `coremap *` in a folder of somebody
/// else's files must not control the terminal.
fn escaped(e: clap::Error) -> clap::Error {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if !args.iter().any(|arg| arg.chars().any(is_harmful)) {
        return e;
    }
    match program::Args::read(args.iter().map(|arg| printable(arg).into_owned())) {
        Err(same) => same,
        Ok(_) => program::parser().error(e.kind(), "an argument contains control characters"),
    }
}

/// Installs a hook that prints the panic, calls it a bug in coremap, and says what still works.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(move |panic| {
        // The text below may have to wait for its reader.
        stops::release_all();
        progress::clear();
        screen::give_back();
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload();
        let why = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
        // The panic message may contain text of the core.
        let mut text = format!(
            "thread '{}' panicked at {place}:\n{}\n",
            thread.name().unwrap_or("?"),
            printable(why.unwrap_or_default())
        );
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            text.push_str(&format!("{trace}\n"));
        }
        text.push_str(&format!(
            "coremap {}: this is a bug in coremap, not in your core. Other commands may still work. Please report the \
             lines above with the output of `coremap info CORE`.\n",
            env!("COREMAP_VERSION")
        ));
        console::print(text.as_bytes());
        // The program may end before the thread of stderr runs again.
        console::flush();
    }));
}

/// Standard error for lines that name files.
struct Escaped;

impl Write for Escaped {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The log writes one line at a time.
        let text = String::from_utf8_lossy(line);
        let safe: String = text.lines().map(|line| printable(line) + "\n").collect();
        console::log(safe.as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start_log(verbose: u8) {
    let level = match verbose {
        // -v controls warnings: see `output::warn`.
        0 | 1 => return,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    // There is only one subscriber in a process, so this cannot fail.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_writer(|| Escaped).without_time().try_init();
}
