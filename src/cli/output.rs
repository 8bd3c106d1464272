//! Answers on stdout, warnings on stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use coremap::analysis::envelope;
use coremap::introspect::Findings;
use coremap::process::Process;
use coremap::render::{self, Look, Render};
use coremap::report::ConditionRow;

use crate::cli::args::{Common, Format};
use crate::cli::{Exit, Failure};

/// How text for this terminal is to look.
pub(crate) fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let width = terminal.then(terminal_size::terminal_size).flatten().map(|(w, _)| usize::from(w.0));
    Look { width, color: terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) }
}

/// Write a command's answer in the form asked for, and its warnings.
pub(crate) fn answer<T: Render>(
    command: &'static str,
    common: &Common,
    process: &Process,
    found: &Findings,
    body: T,
) -> Result<Exit, Failure> {
    let report = envelope(command, process, found, body);
    let mut out = BufWriter::new(io::stdout().lock());
    match common.form() {
        Format::Json => render::json(&report, &mut out)?,
        Format::Csv => report.body.csv(&mut out)?,
        Format::Table => {
            if report.body.wants_headline() {
                render::write(&render::headline(&report.core), look(), &mut out)?;
            }
            render::write(&report.body.document(), look(), &mut out)?;
        }
    }
    out.flush()?;
    Ok(finish(process))
}

/// Warnings to stderr; the status that says whether anything is missing.
pub(crate) fn finish(process: &Process) -> Exit {
    process.tell_unread();
    for w in process.diag.warnings() {
        eprintln!("coremap: warning: {}: {}", w.code, coremap::bytes::printable(&w.message));
    }
    if process.diag.is_partial() { Exit::Partial } else { Exit::Done }
}

/// Conditions of `--fail-if` that hold, in words on stderr. One of them is reason
/// enough for status 1, also where part of the core could not be read: what was
/// read is already too much, and the warnings stand above.
pub(crate) fn held(conditions: &[ConditionRow], exit: Exit) -> Exit {
    let mut exit = exit;
    for c in conditions.iter().filter(|c| c.holds) {
        eprintln!("coremap: --fail-if '{}': {}", c.condition, c.text);
        exit = Exit::Nothing;
    }
    exit
}
