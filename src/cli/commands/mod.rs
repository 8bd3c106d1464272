//! One thin file a command: open, ask the analysis, answer.

mod async_chains;
mod diff;
mod gcroot;
mod graph;
mod heapstat;
mod ip2method;
mod maddress;
mod malloc;
mod package;
mod perfmap;
mod refs;
mod retained;
mod search;
mod shrink;
mod simple;
mod symbolicate;
mod threads;
mod whatis;

use std::path::Path;

use coremap::addr::Addr;
use coremap::introspect::{Findings, introspect};
use coremap::limits;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::render::Render;
use regex::{Regex, RegexBuilder};

use crate::cli::args::{Args, Command, Common, Format};
use crate::cli::output::answer;
use crate::cli::package_args::PackageCommand;
use crate::cli::{Exit, Failure, address, progress};

/// Run the command asked for.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let common = &args.common;
    if let (Some(instead), Format::Csv) = (without_rows(&args.command), common.form()) {
        return Err(Failure::Usage(format!("there is no CSV of {instead}")));
    }
    match &args.command {
        Command::Info { show_data, core } => simple::info(common, &core.core, *show_data),
        Command::Summary { zero_fill, fail_if, core } => simple::summary(common, &core.core, *zero_fill, fail_if),
        Command::Regions { kind, sort, core } => simple::regions(common, &core.core, kind, *sort),
        Command::Stacks { zero_fill, core } => simple::stacks(common, &core.core, *zero_fill),
        Command::Shrink { out, purpose, address, core } => shrink::run(common, &core.core, out, purpose, address),
        Command::Check { core } => simple::check(common, &core.core),
        Command::Heap { loader, core } => simple::heap(common, &core.core, *loader),
        Command::Objects { r#type, core } => graph::objects(common, &core.core, r#type),
        Command::Object { address, core } => graph::object(common, &core.core, address),
        Command::Finalizers { core } => graph::finalizers(common, &core.core),
        Command::Syncblocks { core } => graph::syncblocks(common, &core.core),
        Command::Exceptions { core } => graph::exceptions(common, &core.core),
        Command::Handles { core } => graph::handles(common, &core.core),
        Command::Gcroot { words, all, r#type, top } => gcroot::run(common, words, *all, r#type.as_deref(), *top),
        Command::Retained { args, core } => retained::run(common, &core.core, args),
        Command::Heapstat { args, core } => heapstat::run(common, &core.core, args),
        Command::Maddress { summary, core } => maddress::run(common, &core.core, *summary),
        Command::Malloc { args, core } => malloc::run(common, &core.core, args),
        Command::Search { args, core } => search::run(common, &core.core, args),
        Command::Whatis { address, bytes, core } => whatis::run(common, &core.core, address, *bytes),
        Command::Leaks { blocks, limit, core } => malloc::leaks(common, &core.core, *blocks, *limit),
        Command::Holders { limit, core } => refs::holders(common, &core.core, *limit),
        Command::Anon { core } => refs::anon(common, &core.core),
        Command::Refs { args, core } => refs::run(common, &core.core, args),
        Command::Ip2method { words, short } => ip2method::run(common, words, *short),
        Command::Symbolicate { fold, text, core } => symbolicate::run(common, &core.core, text, *fold),
        Command::Threads { args, core } => threads::run(common, &core.core, args),
        Command::Async { all, core } => async_chains::run(common, &core.core, *all),
        Command::Perfmap { core } => perfmap::run(common, &core.core),
        Command::Diff { fail_if, old, new } => diff::run(common, old, new, fail_if),
        Command::Package(command) => package::run(command),
    }
}

/// Of a command that has no rows to write as CSV: what it writes.
fn without_rows(command: &Command) -> Option<&'static str> {
    match command {
        Command::Package(PackageCommand::Schema { .. }) => Some("schema: it is JSON"),
        Command::Package(PackageCommand::Completions { .. }) => Some("completions: they are a script for a shell"),
        Command::Package(PackageCommand::Man { .. }) => Some("man: it is a page for man"),
        _ => None,
    }
}

/// The expression that `--type` gives for names of types.
fn type_pattern(text: &str) -> Result<Regex, Failure> {
    let built = RegexBuilder::new(text).size_limit(limits::MAX_REGEX).build();
    built
        .map_err(|e| Failure::Usage(format!("--type '{text}' is no regular expression: {}", last_line(&e.to_string()))))
}

/// Of what the regex crate says the last line tells what is wrong; those above it
/// draw the place.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
}

/// Arguments in the wrong order get a sentence: `first` is a file, and the core
/// is none. `what` comes first, and the usage is `usage`.
fn not_swapped(first: &str, core: &Path, what: &str, usage: &str) -> Result<(), Failure> {
    if core.exists() || core.as_os_str() == "-" || !Path::new(first).is_file() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "'{first}' is a file and '{}' is not: the {what} comes first, `coremap {usage}`",
        core.display()
    )))
}

/// Open the core, ask the analysis, answer; where `is_empty`, nothing was found.
fn ask<R: Render>(
    common: &Common,
    core: &Path,
    command: &'static str,
    analyse: impl FnOnce(&Process, &Findings, &Progress) -> R,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    let progress = progress::progress();
    let process = open(core, common, &progress)?;
    respond(common, &process, &progress, command, analyse, is_empty)
}

/// The same of the address that `text` means.
fn ask_at<R: Render>(
    common: &Common,
    core: &Path,
    command: &'static str,
    text: &str,
    analyse: impl FnOnce(&Process, &Findings, Addr, &Progress) -> R,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    not_swapped(text, core, "address", &format!("{command} ADDR CORE"))?;
    let progress = progress::progress();
    let process = open(core, common, &progress)?;
    let addr = address::parse(text, &process).map_err(Failure::Usage)?;
    let analyse = |process: &_, found: &_, progress: &_| analyse(process, found, addr, progress);
    respond(common, &process, &progress, command, analyse, is_empty)
}

/// Ask the analysis of an open core, answer; where `is_empty`, nothing was found.
fn respond<R: Render>(
    common: &Common,
    process: &Process,
    progress: &Progress,
    command: &'static str,
    analyse: impl FnOnce(&Process, &Findings, &Progress) -> R,
    is_empty: impl FnOnce(&R) -> bool,
) -> Result<Exit, Failure> {
    let found = introspect(process);
    let report = analyse(process, &found, progress);
    progress::clear();
    let nothing = is_empty(&report);
    Ok(answer(command, common, process, &found, report)?.or_nothing(nothing))
}

/// Open the core, with a bar where that takes long (unpacking).
fn open(path: &Path, common: &Common, progress: &Progress) -> Result<Process, Failure> {
    let options = Options {
        symbols: common.symbols.clone(),
        memory: common.memory,
        alone: true,
        handle_sigbus: true,
        ..Options::default()
    };
    let process = Process::open(path, &options, progress);
    progress::clear();
    Ok(process?)
}
