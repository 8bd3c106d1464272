//! Steps that commands share: open the core, run the analysis, print the answer.

use std::path::Path;

use coremap::addr::{Addr, AddrRange};
use coremap::process::{Options, Process};
use coremap::program::limits;
use coremap::progress::Progress;
use coremap::render::Render;
use coremap::session::Session;
use regex::{Regex, RegexBuilder};

use crate::cli::args::Common;
use crate::cli::output::{answer_or_nothing, message};
use crate::cli::{Exit, Failure, address, lent, progress};

/// Compiles the regular expression that `--type` gives for names of types.
pub(super) fn type_pattern(text: &str) -> Result<Regex, Failure> {
    let built = RegexBuilder::new(text).size_limit(limits::MAX_REGEX).build();
    built.map_err(|e| {
        Failure::Usage(format!("--type '{text}' is not a regular expression: {}", last_line(&e.to_string())))
    })
}

/// Last line of an error of the regex crate. It says what is wrong; the lines above mark where.
pub(super) fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
}

/// Returns the query and the core, even if the user swapped them: `coremap search CORE text`. `core` is the last
/// argument, `first` the one before it.
pub(super) fn in_order<'a>(first: &'a str, core: &'a Path) -> (&'a str, &'a Path) {
    if core.exists() || core.as_os_str() == "-" || !Path::new(first).is_file() {
        return (first, core);
    }
    core.to_str().map_or((first, core), |text| (text, Path::new(first)))
}

/// Opens the core, runs the analysis and prints the answer. `is_empty` decides whether nothing was found.
pub(super) fn ask<R: Render>(
    common: &Common,
    core: &Path,
    command: &'static str,
    analyse: impl FnOnce(&Session<'_>, &Progress) -> R,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    on_core(common, core, |session, progress| respond(common, session, progress, command, analyse, is_empty))
}

/// Does `work` on a core: the one that is lent to this thread, or the opened `core`.
pub(super) fn on_core<T>(
    common: &Common,
    core: &Path,
    work: impl FnOnce(&Session<'_>, &Progress) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if let Some(session) = lent::session() {
        return work(session, &Progress::silent());
    }
    let progress = progress::progress();
    let process = open(core, common, &progress)?;
    work(&Session::new(&process), &progress)
}

/// Opens the core and runs the analysis for the address that `text` means. `note` returns a remark on the answer for
/// stderr.
pub(super) fn ask_at<R: Render>(
    common: &Common,
    core: &Path,
    command: &'static str,
    text: &str,
    analyse: impl FnOnce(&Session<'_>, Addr, &Progress) -> R,
    note: impl FnOnce(&R, Addr) -> Option<String>,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    let (text, core) = in_order(text, core);
    on_core(common, core, |session, progress| {
        let addr = address::read(text, session.process).map_err(|e| with_type(e, command, text, core))?;
        let analyse = |session: &Session<'_>, progress: &_| analyse(session, addr, progress);
        let is_empty = |report: &R| {
            note(report, addr).iter().for_each(|note| message(note));
            is_empty(report)
        };
        respond(common, session, progress, command, analyse, is_empty)
    })
}

/// If a type name was given instead of an object's address, adds the command that takes type names to the error.
fn with_type(e: Failure, command: &str, text: &str, core: &Path) -> Failure {
    let Failure::Usage(why) = &e else { return e };
    let is_name = text.chars().next().is_some_and(char::is_alphabetic) && !text.contains('+');
    let other = match command {
        "gcroot" => "gcroot",
        "why" => "why",
        "object" => "objects",
        _ => return e,
    };
    if !is_name {
        return e;
    }
    Failure::Usage(format!("{why}; for a type: `coremap {other} --type '{text}' {}`", core.display()))
}

/// Runs the analysis on an open core and prints the answer. `is_empty` decides whether nothing was found.
pub(super) fn respond<R: Render>(
    common: &Common,
    session: &Session<'_>,
    progress: &Progress,
    command: &'static str,
    analyse: impl FnOnce(&Session<'_>, &Progress) -> R,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    let report = progress::watched(session.process, progress, || analyse(session, progress));
    let nothing = is_empty(&report);
    answer_or_nothing(command, common, session, report, nothing)
}

/// The region of the map that contains the address `text`.
pub(super) fn region(text: &str, session: &Session<'_>) -> Result<AddrRange, Failure> {
    let addr = address::read(text, session.process)?;
    let found = session.map().region_at(addr).map(|region| region.range);
    found.ok_or_else(|| Failure::Usage(format!("--region: nothing is mapped at {addr}")))
}

/// Opens the core, with a progress line if that takes long.
pub(super) fn open(path: &Path, common: &Common, progress: &Progress) -> Result<Process, Failure> {
    let options = Options {
        symbols: common.symbols.clone(),
        smaps: common.smaps.clone(),
        memory: common.memory,
        alone: true,
        handle_sigbus: true,
        no_stop: common.no_stop,
        stop_at_most: common.stop_at_most,
        ..Options::default()
    };
    // Bytes are counted only during decompression.
    let words = || if progress.state().0 > 0 { "unpacking" } else { "opening" };
    Ok(progress::while_doing(&words, progress, || Process::open(path, &options, progress))?)
}
