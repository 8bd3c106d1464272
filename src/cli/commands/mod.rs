//! The commands, one file each: their arguments and how they run. The rest of the program knows a command only by its
//! row in [`COMMANDS`] here, and by its row in the library's table (`coremap::commands`).

mod allocations;
mod anon;
mod async_chains;
mod check;
mod collections;
mod completions;
mod diff;
mod dump;
mod examples;
mod exceptions;
mod explore;
mod export;
mod finalizers;
mod gcroot;
mod handles;
mod heap;
mod heapstat;
mod holders;
mod info;
mod ip2method;
mod leaks;
mod maddress;
mod malloc;
mod man;
mod mcp;
mod object;
mod objects;
mod perfmap;
mod record;
mod reference;
mod refs;
mod regions;
mod report;
mod requests;
mod retained;
mod scan_secrets;
mod schema;
mod search;
mod shell;
mod shrink;
mod stackobjects;
mod stacks;
mod summary;
mod symbolicate;
mod syncblocks;
mod threadpool;
mod threads;
mod timers;
mod top;
mod trend;
mod triage;
mod whatis;
mod why;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use coremap::commands::{self, Group};

use crate::cli::args::{Common, Format};
use crate::cli::commands::examples::{EXAMPLES, Example};
pub(crate) use crate::cli::commands::mcp::Mcp as McpArgs;
use crate::cli::{Exit, Failure};

/// A command: its arguments as clap reads them. The comment on the type is its help, and those on
/// the fields are the help of its options.
pub(crate) trait Command: Args {
    /// Name, on the command line and in the JSON.
    const NAME: &'static str;

    /// Runs the command and prints its answer.
    ///
    /// # Errors
    /// Why it could not be run.
    fn run(&self, common: &Common) -> Result<Exit, Failure>;
}

/// Every command, in the order of the help.
const COMMANDS: &[Row] = &[
    row::<triage::Triage>(),
    row::<explore::Explore>(),
    row::<top::Top>(),
    row::<shell::Shell>(),
    row::<info::Info>(),
    row::<summary::Summary>(),
    row::<regions::Regions>(),
    row::<maddress::Maddress>(),
    row::<stacks::Stacks>(),
    row::<threads::Threads>(),
    row::<stackobjects::Stackobjects>(),
    row::<async_chains::Async>(),
    row::<threadpool::Threadpool>(),
    row::<requests::Requests>(),
    row::<timers::Timers>(),
    row::<heap::Heap>(),
    row::<heapstat::Heapstat>(),
    row::<allocations::Allocations>(),
    row::<objects::Objects>(),
    row::<object::Object>(),
    row::<gcroot::Gcroot>(),
    row::<retained::Retained>(),
    row::<collections::Collections>(),
    row::<handles::Handles>(),
    row::<finalizers::Finalizers>(),
    row::<syncblocks::Syncblocks>(),
    row::<exceptions::Exceptions>(),
    row::<malloc::Malloc>(),
    row::<search::Search>(),
    row::<whatis::Whatis>(),
    row::<why::Why>(),
    row::<refs::Refs>(),
    row::<leaks::Leaks>(),
    row::<holders::Holders>(),
    row::<anon::Anon>(),
    row::<ip2method::Ip2method>(),
    row::<symbolicate::Symbolicate>(),
    row::<perfmap::Perfmap>(),
    row::<diff::Diff>(),
    row::<record::Record>(),
    row::<trend::Trend>(),
    row::<dump::Dump>(),
    row::<report::Report>(),
    row::<export::Export>(),
    row::<shrink::Shrink>(),
    row::<scan_secrets::ScanSecrets>(),
    row::<check::Check>(),
    row::<mcp::Mcp>(),
    row::<schema::Schema>(),
    row::<completions::Completions>(),
    row::<man::Man>(),
];

/// A command as the rest of the program sees it.
struct Row {
    name: &'static str,
    describe: fn(clap::Command) -> clap::Command,
    /// Reads its arguments from clap's result.
    read: fn(&ArgMatches) -> Result<Run, clap::Error>,
}

/// A command with its arguments, ready to run.
type Run = Box<dyn Fn(&Common) -> Result<Exit, Failure>>;

const fn row<C: Command + 'static>() -> Row {
    Row { name: C::NAME, describe: C::augment_args, read: read::<C> }
}

fn read<C: Command + 'static>(matches: &ArgMatches) -> Result<Run, clap::Error> {
    let command = C::from_arg_matches(matches)?;
    Ok(Box::new(move |common| command.run(common)))
}

pub(crate) struct Chosen {
    row: &'static Row,
    run: Run,
}

impl Chosen {
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let name = self.row.name;
        let without_rows = commands::named(name).and_then(|command| command.without_rows);
        if let (Some(what), Format::Csv) = (without_rows, common.form()) {
            return Err(Failure::Usage(format!("{name} has no CSV: {what}")));
        }
        (self.run)(common)
    }
}

/// A command with its options, its example and the meaning of its columns.
fn described(row: &Row) -> clap::Command {
    let command = (row.describe)(clap::Command::new(row.name));
    match example_of(row.name) {
        Some(example) => command.after_help(example.text()),
        None => command,
    }
}

fn example_of(name: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.name == name)
}

/// The command with a shorter help: the example comes second, and the common options are one line.
pub(crate) fn for_readers(command: clap::Command) -> clap::Command {
    let Some(example) = example_of(command.get_name()) else { return command };
    let mut text =
        format!("{{about-with-newline}}\n{}\n\n{{usage-heading}} {{usage}}\n\n{{all-args}}\n\n", example.line());
    if !example.columns.is_empty() {
        text.push_str("Columns:\n");
        let widest = example.columns.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
        example.columns.iter().for_each(|(title, means)| listed(&mut text, title, means, widest));
        text.push('\n');
    }
    text.push_str("Common options (--json, --pid, --memory, …): coremap help options");
    command.help_template(text)
}

/// A line of a list, wrapped: `left`, and `right` in a column of its own.
fn listed(text: &mut String, left: &str, right: &str, widest: usize) {
    let width = terminal_size::terminal_size().map_or(HELP_WIDTH, |(w, _)| usize::from(w.0).min(HELP_WIDTH));
    let mut line = format!("  {left:widest$} ");
    let indent = line.len();
    for word in right.split(' ') {
        let begun = line.rsplit('\n').next().unwrap_or_default().chars().count();
        // A word that is too long for any line follows its name.
        if begun > indent && begun + 1 + word.chars().count() > width {
            line.push('\n');
            line.push_str(&" ".repeat(indent));
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Maximum width of the help, and its width without a terminal.
const HELP_WIDTH: usize = 100;

/// The help of the program, with commands by group; clap can print one list only.
pub(crate) fn help_template() -> String {
    let widest = commands::COMMANDS.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\nExample: explain where the memory went\n  coremap triage core\n\n\
                    {usage-heading} coremap COMMAND [OPTIONS] CORE\n"
        .to_owned();
    for group in Group::ALL {
        text.push_str(&format!("\n{}:\n", group.name()));
        let commands = commands::COMMANDS.iter().filter(|command| command.group == group);
        commands.for_each(|command| listed(&mut text, command.name, command.sentence, widest));
    }
    text.push_str(
        "\n`coremap help COMMAND` shows an example and the options of a command.\n\
         `coremap help options` shows the options that every command has: --json, --pid, --memory and others.\n\
         `coremap --version` shows the version.{after-help}",
    );
    text
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Chosen, clap::Error> {
        let found = matches.subcommand();
        let found = found.and_then(|(name, matches)| Some((COMMANDS.iter().find(|row| row.name == name)?, matches)));
        let (row, matches) = found.ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Chosen { row, run: (row.read)(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Chosen::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Chosen {
    fn augment_subcommands(program: clap::Command) -> clap::Command {
        COMMANDS.iter().fold(program, |program, row| program.subcommand(described(row)))
    }

    fn augment_subcommands_for_update(program: clap::Command) -> clap::Command {
        Chosen::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        COMMANDS.iter().any(|row| row.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example_that_its_arguments_take() {
        let names: Vec<_> = COMMANDS.iter().map(|row| row.name).collect();
        let named: std::collections::BTreeSet<_> = EXAMPLES.iter().map(|example| example.name).collect();
        assert_eq!(named.len(), EXAMPLES.len(), "one twice");
        assert_eq!(named, names.iter().copied().collect());
        for example in EXAMPLES {
            let words = example.words();
            assert_eq!(words.get(1).map(String::as_str), Some(example.name));
            let program = Common::augment_args(Chosen::augment_subcommands(clap::Command::new("coremap")));
            let words = crate::cli::words::in_our_words(words.into_iter().map(Into::into).collect());
            let read = program.try_get_matches_from(words);
            assert!(read.is_ok(), "{}: {:?}", example.name, read.err().map(|e| e.to_string()));
        }
    }

    #[test]
    fn the_help_has_every_command_once_and_in_its_group() {
        let text = help_template();
        for command in commands::COMMANDS {
            let line = format!("\n  {} ", command.name);
            let at: Vec<usize> = text.match_indices(&line).map(|(at, _)| at).collect();
            assert_eq!(at.len(), 1, "{}", command.name);
            let heading = text.get(..at[0]).and_then(|before| before.rsplit("\n\n").next());
            assert!(heading.is_some_and(|h| h.starts_with(command.group.name())), "{}", command.name);
        }
    }

    #[test]
    fn the_library_has_the_same_commands_in_the_same_words() {
        let described = |row: &Row| (row.describe)(clap::Command::new(row.name)).get_about().map(ToString::to_string);
        let here: Vec<_> = COMMANDS.iter().map(|row| (row.name, described(row).unwrap_or_default())).collect();
        let there: Vec<_> = commands::COMMANDS.iter().map(|c| (c.name, c.sentence.to_owned())).collect();
        assert_eq!(here, there);
    }
}
