//! Answers on stdout, warnings on stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use coremap::commands::{self, Subject, envelope};
use coremap::diag::{Warning, WarningCode};
use coremap::process::Process;
use coremap::program::units::count;
use coremap::program::{no_runtime, stops};
use coremap::render::{self, Document, DrawOptions, Render};
use coremap::report::{ConditionRow, Envelope};
use coremap::session::Session;
use coremap::targets::Producer;

use crate::cli::args::{Colour, Common, Format};
use crate::cli::list::not_computed;
use crate::cli::{Exit, Failure, console, lent};

/// Width, colours and bars of text on this terminal.
pub(crate) fn look(common: &Common) -> DrawOptions {
    // The screen has the terminal.
    let terminal = io::stdout().is_terminal() && lent::columns().is_none();
    let width = terminal.then(terminal_size::terminal_size).flatten().map(|(w, _)| usize::from(w.0));
    let shown = shown_in();
    let color = match common.color {
        Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && takes_colours(),
        Colour::Always => takes_colours() || !terminal,
        Colour::Never => false,
    };
    let bars = (terminal || shown.is_some()) && common.color != Colour::Never;
    DrawOptions { width: width.or(shown).filter(|_| !common.wide), color, bars }
}

/// Environment variable that passes the width of the screen, in columns, to a
/// command that `explore` runs.
pub(crate) const SHOWN_IN: &str = "COREMAP_COLUMNS";

fn shown_in() -> Option<usize> {
    lent::columns().or_else(|| std::env::var(SHOWN_IN).ok()?.parse().ok())
}

/// Whether the terminal on stdout supports ANSI escape sequences. Windows must be queried; Windows 8 and older have
/// none.
fn takes_colours() -> bool {
    #[cfg(windows)]
    return anstyle_query::windows::enable_ansi_colors().unwrap_or(false);
    #[cfg(not(windows))]
    return true;
}

/// Prints a sentence on stderr. On a terminal, lines break between words. Never waits.
pub(crate) fn message(sentence: &str) {
    let terminal = io::stderr().is_terminal() && lent::columns().is_none();
    let width = terminal.then(|| terminal_size::terminal_size_of(io::stderr())).flatten();
    let width = width.map(|(w, _)| usize::from(w.0)).or_else(lent::columns);
    let mut text = Document::default();
    text.titled(format!("coremap: {sentence}"), 2);
    let look = DrawOptions { width, color: false, bars: false };
    let mut lines = Vec::new();
    // Writing to memory doesn't fail.
    let _ = render::write(&text, look, &mut lines);
    if !lent::message(&lines) {
        console::print(&lines);
    }
}

/// Follows an empty table if data was lost.
const INCOMPLETE: &str = "not all memory could be read (-v lists the warnings), so there may be some";

/// Writes a command's answer in the requested format, and ends it.
pub(crate) fn answer<T: Render>(
    command: &'static str,
    common: &Common,
    session: &Session<'_>,
    body: T,
) -> Result<Exit, Failure> {
    write_answer(&[], command, common, session, body, false)
}

/// The same for an answer that has more sources than `session`: their warnings go before its own.
pub(crate) fn answer_with<T: Render>(
    before: &[Origin<'_>],
    command: &'static str,
    common: &Common,
    session: &Session<'_>,
    body: T,
) -> Result<Exit, Failure> {
    write_answer(before, command, common, session, body, false)
}

/// The same for an answer that is empty if `nothing`. Its status is then 1. If data was lost, its table says so, since
/// there may be something.
pub(crate) fn answer_or_nothing<T: Render>(
    command: &'static str,
    common: &Common,
    session: &Session<'_>,
    body: T,
    nothing: bool,
) -> Result<Exit, Failure> {
    write_answer(&[], command, common, session, body, nothing)
}

fn write_answer<T: Render>(
    before: &[Origin<'_>],
    command: &'static str,
    common: &Common,
    session: &Session<'_>,
    body: T,
    nothing: bool,
) -> Result<Exit, Failure> {
    if let Some(column) = body.missing_column() {
        return Err(Failure::Usage(not_computed(command, column)));
    }
    let of_runtime = commands::named(command).is_some_and(|command| command.subject == Subject::Runtime);
    // Before the envelope, because a stopped process resumes there.
    let without_runtime = (of_runtime && session.runtimes().is_empty()).then(|| no_runtime(session));
    let report = envelope(command, session, body);
    let is_listed = common.form() == Format::Table && report.body.lists_warnings();
    let source = if is_listed { Origin::Listed(session.process) } else { Origin::Open(session.process) };
    let sources: Vec<Origin<'_>> = before.iter().copied().chain([source]).collect();
    let is_incomplete = nothing && report.warnings.iter().any(|warning| warning.is_partial);
    let table = Table { instead: without_runtime.as_deref(), is_incomplete, with_warnings: is_listed };
    let exit = end(common, command, &sources, |out| write_report(common, &report, &table, out))?;
    Ok(exit.or_nothing(nothing))
}

/// Writes an answer in the requested format, and ends it. Its `sources` are no longer open; they include the
/// warnings of the envelope.
pub(crate) fn answer_of<T: Render>(
    common: &Common,
    report: &Envelope<T>,
    sources: &[Origin<'_>],
) -> Result<Exit, Failure> {
    end(common, report.command, sources, |out| write_report(common, report, &Table::default(), out))
}

/// Texts of a table beside the answer's own.
#[derive(Default)]
struct Table<'a> {
    /// The sentence that replaces an empty table.
    instead: Option<&'a str>,
    /// Whether the table is empty although data was lost.
    is_incomplete: bool,
    /// Whether the table ends with the warnings.
    with_warnings: bool,
}

/// Writes an answer in the requested format.
fn write_report<T: Render>(
    common: &Common,
    report: &Envelope<T>,
    table: &Table<'_>,
    mut out: &mut dyn Write,
) -> Result<(), Failure> {
    match common.form() {
        Format::Json => render::json(report, &mut out)?,
        Format::Csv => {
            report.body.csv(&mut out)?;
            if let Some(sentence) = table.instead {
                message(sentence);
            }
        }
        Format::Table => {
            // A page of the screen already names the core.
            if report.body.wants_headline() && shown_in().is_none() {
                render::write(&render::headline(&report.core), look(common), &mut out)?;
            }
            let mut text = report.body.document();
            if let Some(sentence) = table.instead {
                text = Document::default();
                text.line(sentence);
            } else if table.is_incomplete {
                text.line(INCOMPLETE);
            }
            render::write(&text, look(common), &mut out)?;
            if table.with_warnings {
                render::write(&render::warnings(&report.warnings), look(common), &mut out)?;
            }
        }
    }
    Ok(())
}

/// Writes an answer in a text format of its own, and ends it. A running process resumes before anything is
/// written, so `write` must not read it.
pub(crate) fn answer_as_text(
    command: &'static str,
    common: &Common,
    process: &Process,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    process.conclude();
    end(common, command, &[Origin::Open(process)], write)
}

/// Writes a text about the program itself, not about a core, and ends it.
pub(crate) fn write_text(command: &'static str, common: &Common, text: &[u8]) -> Result<Exit, Failure> {
    end(common, command, &[], |out| Ok(out.write_all(text)?))
}

/// A source of an answer, from which it gets its warnings.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A core or running process.
    Open(&'a Process),
    /// A core or running process whose warnings are in the answer, and are not repeated on stderr.
    Listed(&'a Process),
    /// Warnings of a source that is not open any more, such as a recording.
    Read(&'a [Warning]),
}

/// Ends an answer. Every command ends here, whatever its format: no other code prints warnings about cores or
/// decides that an answer is incomplete.
///
/// `write` writes the answer to stdout, and may have to wait for a reader. So stopped processes resume before.
/// Losses are collected after it, because some formats read the core while they are written. JSON contains warnings,
/// so [`envelope`] has collected its own before.
pub(crate) fn end(
    common: &Common,
    command: &'static str,
    sources: &[Origin<'_>],
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    stops::release_all();
    if lent::columns().is_some() {
        return end_on_screen(common, command, sources, write);
    }
    // On a terminal, earlier messages come before the answer.
    if io::stdout().is_terminal() {
        console::flush();
    }
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let mut exit = Exit::Done;
    for source in sources {
        let is_partial = match *source {
            Origin::Open(process) => {
                let removed = settle(command, process);
                warn(common, &process.diag.warnings(), removed.as_ref());
                process.diag.is_partial()
            }
            Origin::Listed(process) => {
                settle(command, process);
                process.diag.is_partial()
            }
            Origin::Read(warnings) => {
                warn(common, warnings, None);
                warnings.iter().any(|warning| warning.is_partial)
            }
        };
        if is_partial {
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

/// Ends an answer for a screen or a session, which have all warnings elsewhere.
fn end_on_screen(
    common: &Common,
    command: &'static str,
    sources: &[Origin<'_>],
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    write(&mut text)?;
    lent::write(&text);
    let mut exit = Exit::Done;
    for source in sources {
        let is_partial = match *source {
            Origin::Open(process) => {
                let removed = settle(command, process);
                // A screen has a list of its own, and JSON contains them.
                if lent::splits() && common.form() != Format::Json {
                    warn(common, &process.diag.warnings(), removed.as_ref());
                }
                process.diag.is_partial()
            }
            Origin::Listed(process) => {
                settle(command, process);
                process.diag.is_partial()
            }
            Origin::Read(warnings) => warnings.iter().any(|warning| warning.is_partial),
        };
        if is_partial {
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

/// Bytes of an answer that are written at once.
const BUFFER: usize = 1 << 18;

/// Commands about whatever a core contains. For them, memory that was left out on purpose is not lost.
const OVERVIEWS: [&str; 4] = ["info", "report", "summary", "triage"];

/// Collects the warnings about `process`. Returns why a core lacks memory, if warnings follow from that.
fn settle(command: &str, process: &Process) -> Option<Removed> {
    process.conclude();
    let of_contents = |w: &Warning| w.is_partial && WarningCode::OF_CONTENTS.contains(&w.code);
    let removed = removed(process).filter(|_| process.diag.warnings().iter().any(of_contents));
    if removed.is_some() && OVERVIEWS.contains(&command) {
        process.diag.excuse(WarningCode::OF_CONTENTS);
    }
    removed
}

/// Adds the warnings of one of several samples or cores: each code once, as partial if any of them is.
pub(crate) fn merge(warnings: &mut Vec<Warning>, more: Vec<Warning>) {
    for warning in more {
        match warnings.iter_mut().find(|known| known.code == warning.code) {
            Some(known) => known.is_partial |= warning.is_partial,
            None => warnings.push(warning),
        }
    }
}

/// Prints warnings on stderr: one line for all of them, or with `-v` each of them.
fn warn(common: &Common, warnings: &[Warning], removed: Option<&Removed>) {
    if common.verbose == 0 {
        if let Some(line) = one_line(warnings, removed) {
            message(&line);
        }
        return;
    }
    warnings.iter().for_each(|w| message(&line_of(w)));
    if let Some(removed) = removed {
        message(&removed.way_out);
    }
}

/// Why a core lacks memory that its process had: it is a reduced copy.
struct Removed {
    /// A short description.
    short: &'static str,
    /// A full sentence with the remedy.
    way_out: String,
}

/// `None` if nothing was removed from the core on purpose.
fn removed(process: &Process) -> Option<Removed> {
    let facts = process.facts();
    if let Some(dumped) = facts.dumped.as_ref().filter(|dumped| !dumped.kept.is_empty()) {
        let purposes = dumped.kept.join(", ");
        let short = "this core was written with `dump --for`, which leaves memory out";
        let way_out = format!(
            "this core contains only what {purposes} needs (coremap dump --for): the process may have had what is missing"
        );
        return Some(Removed { short, way_out });
    }
    if facts.is_shrunk {
        let short = "this core was shrunk, and the original may have what is missing";
        let way_out = "this core was shrunk: the original may have what is missing. `coremap shrink --for` selects what to \
                       keep (for stacks and threads: --for stacks,threads)";
        return Some(Removed { short, way_out: way_out.to_owned() });
    }
    let short = "createdump leaves memory out unless it writes a full dump";
    let way_out = || format!("{short} (--full, DOTNET_DbgMiniDumpType=4)");
    (process.producer() == Producer::Createdump).then(|| Removed { short, way_out: way_out() })
}

fn line_of(warning: &Warning) -> String {
    format!("warning: {}: {}", warning.code, warning.message)
}

/// All warnings in one line: how many, the most important one, and how to see the others.
fn one_line(warnings: &[Warning], removed: Option<&Removed>) -> Option<String> {
    let first = warnings.iter().min_by_key(|w| (!w.is_partial, w.code))?;
    let why = removed.map_or_else(String::new, |removed| format!("; {}", removed.short));
    if let [only] = warnings {
        return Some(line_of(only) + &why);
    }
    let all = count(warnings.len() as u64, "warning");
    Some(match removed {
        _ if first.is_partial => format!("{all}, the answer is incomplete: {}{why}; -v lists them", first.message),
        Some(removed) => format!("{all}: {}; -v lists them", removed.short),
        None => format!("{all}: {}; -v lists them", first.code.headline()),
    })
}

/// Prints on stderr the conditions of `--fail-if` that are true.
///
/// If one holds the status is 1, even if the answer is incomplete: what was read is already too much.
pub(crate) fn held(conditions: &[ConditionRow], exit: Exit) -> Exit {
    let mut exit = exit;
    for c in conditions.iter().filter(|c| c.holds) {
        message(&format!("--fail-if '{}': {}", c.condition, c.text));
        exit = Exit::Nothing;
    }
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_has_the_most_important_warning_and_the_way_out() {
        let note = |code: WarningCode| Warning::note(code, "a long text");
        let names = note(WarningCode::Metadata);
        assert_eq!(one_line(&[], None), None);
        assert_eq!(one_line(std::slice::from_ref(&names), None).as_deref(), Some("warning: metadata: a long text"));
        let notes = [note(WarningCode::Scrubbed), names, note(WarningCode::Unwind)];
        let line = "3 warnings: names of types and methods are missing (--symbols DIR); -v lists them";
        assert_eq!(one_line(&notes, None).as_deref(), Some(line));
        let lost = Warning::partial(WarningCode::Limit, "7 more are left out");
        let line = "2 warnings, the answer is incomplete: 7 more are left out; -v lists them";
        assert_eq!(one_line(&[note(WarningCode::Metadata), lost], None).as_deref(), Some(line));
    }

    #[test]
    fn a_core_that_was_reduced_is_said_to_be() {
        let removed = Removed { short: "this core was shrunk", way_out: String::new() };
        let lost = Warning::partial(WarningCode::HeapWalk, "no heap");
        let line = "warning: heap-walk: no heap; this core was shrunk";
        assert_eq!(one_line(&[lost], Some(&removed)).as_deref(), Some(line));
        let notes = [Warning::note(WarningCode::Limit, "a"), Warning::note(WarningCode::Metadata, "b")];
        let line = "2 warnings: this core was shrunk; -v lists them";
        assert_eq!(one_line(&notes, Some(&removed)).as_deref(), Some(line));
    }
}
