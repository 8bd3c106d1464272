//! Answers on stdout, warnings on stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use coremap::commands::{self, Subject, envelope};
use coremap::dotnet::has_coreclr;
use coremap::process::Process;
use coremap::render::{self, Document, Look, Render};
use coremap::report::{ConditionRow, Envelope};
use coremap::session::Session;

use crate::cli::args::{Colour, Common, Format};
use crate::cli::{Exit, Failure};

/// How text for this terminal is to look.
pub(crate) fn look(common: &Common) -> Look {
    let terminal = io::stdout().is_terminal();
    let width = terminal.then(terminal_size::terminal_size).flatten().map(|(w, _)| usize::from(w.0));
    let shown = shown_in();
    let color = match common.color {
        Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && takes_colours(),
        Colour::Always => takes_colours() || !terminal,
        Colour::Never => false,
    };
    let bars = (terminal || shown.is_some()) && common.color != Colour::Never;
    Look { width: width.or(shown), color, bars }
}

/// Tells a program of ours how many columns the screen has that shows its answer.
pub(crate) const SHOWN_IN: &str = "COREMAP_COLUMNS";

fn shown_in() -> Option<usize> {
    std::env::var(SHOWN_IN).ok()?.parse().ok()
}

/// Whether the terminal on stdout takes ANSI's escape sequences: Windows has to be asked, and 8 and before have none.
fn takes_colours() -> bool {
    #[cfg(windows)]
    return anstyle_query::windows::enable_ansi_colors().unwrap_or(false);
    #[cfg(not(windows))]
    return true;
}

/// A sentence on stderr; on a terminal it is broken between words.
pub(crate) fn tell(sentence: &str) {
    let terminal = io::stderr().is_terminal();
    let width = terminal.then(|| terminal_size::terminal_size_of(io::stderr())).flatten();
    let mut text = Document::default();
    text.titled(format!("coremap: {sentence}"), 2);
    // Nobody is left to tell where stderr is closed.
    let look = Look { width: width.map(|(w, _)| usize::from(w.0)), color: false, bars: false };
    let _ = render::write(&text, look, &mut io::stderr());
}

/// What a command on managed things says of a process that has none.
pub(crate) fn no_runtime(process: &Process) -> &'static str {
    if has_coreclr(process) {
        "libcoreclr.so is mapped, but its .NET runtime can't be read from this core"
    } else {
        "no .NET runtime was found in this core"
    }
}

/// Write a command's answer in the form asked for, and its warnings.
pub(crate) fn answer<T: Render>(
    command: &'static str,
    common: &Common,
    session: &Session<'_>,
    body: T,
) -> Result<Exit, Failure> {
    let report = envelope(command, session, body);
    let of_runtime = commands::named(command).is_some_and(|command| command.subject == Subject::Runtime);
    let without_runtime = (of_runtime && report.core.runtimes.is_empty()).then(|| no_runtime(session.process));
    let mut out = BufWriter::new(io::stdout().lock());
    match common.form() {
        Format::Json => render::json(&report, &mut out)?,
        Format::Csv => {
            report.body.csv(&mut out)?;
            if let Some(sentence) = without_runtime {
                tell(sentence);
            }
        }
        Format::Table => {
            // Above a page of the screen stands which core it is.
            if report.body.wants_headline() && shown_in().is_none() {
                render::write(&render::headline(&report.core), look(common), &mut out)?;
            }
            let mut text = report.body.document();
            if let Some(sentence) = without_runtime {
                text = Document::default();
                text.line(sentence);
            }
            render::write(&text, look(common), &mut out)?;
        }
    }
    out.flush()?;
    Ok(finish(session.process))
}

/// Write an answer that is about no open core: in the form asked for, with its warnings.
pub(crate) fn answer_of<T: Render>(common: &Common, report: &Envelope<T>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match common.form() {
        Format::Json => render::json(report, &mut out)?,
        Format::Csv => report.body.csv(&mut out)?,
        Format::Table => {
            if report.body.wants_headline() {
                render::write(&render::headline(&report.core), look(common), &mut out)?;
            }
            render::write(&report.body.document(), look(common), &mut out)?;
        }
    }
    out.flush()?;
    for w in &report.warnings {
        tell(&format!("warning: {}: {}", w.code, w.message));
    }
    Ok(())
}

/// Write a text that tells of the program itself, and of no core.
pub(crate) fn write_text(text: &[u8]) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Warnings to stderr; the status that says whether anything is missing.
pub(crate) fn finish(process: &Process) -> Exit {
    process.tell_unread();
    for w in process.diag.warnings() {
        tell(&format!("warning: {}: {}", w.code, w.message));
    }
    if !process.diag.is_partial() {
        return Exit::Done;
    }
    if let Some(dumped) = process.facts().dumped.as_ref().filter(|dumped| !dumped.kept.is_empty()) {
        tell(&format!(
            "this core was written for {} (coremap dump --for), so what is missing may have been in the process",
            dumped.kept.join(", ")
        ));
    } else if process.facts().is_shrunk {
        tell(
            "this core was shrunk, so what is missing may be in the whole one; `coremap shrink --for` says what to keep \
             (stacks with what threads do: --for stacks,threads)",
        );
    }
    Exit::Partial
}

/// Conditions of `--fail-if` that hold, in words on stderr. One of them is reason
/// enough for status 1, also where part of the core could not be read: what was
/// read is already too much, and the warnings stand above.
pub(crate) fn held(conditions: &[ConditionRow], exit: Exit) -> Exit {
    let mut exit = exit;
    for c in conditions.iter().filter(|c| c.holds) {
        tell(&format!("--fail-if '{}': {}", c.condition, c.text));
        exit = Exit::Nothing;
    }
    exit
}
