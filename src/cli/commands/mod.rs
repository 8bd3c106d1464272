//! One file a command: its arguments, and what it does with them. Its row in [`COMMANDS`] is all
//! that the rest of the program knows of it, beside what the library's table says
//! (`coremap::commands`).

mod anon;
mod async_chains;
mod check;
mod completions;
mod diff;
mod exceptions;
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
mod object;
mod objects;
mod perfmap;
mod refs;
mod regions;
mod retained;
mod schema;
mod search;
mod shrink;
mod stacks;
mod summary;
mod symbolicate;
mod syncblocks;
mod threads;
mod triage;
mod whatis;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use coremap::commands;

use crate::cli::args::{Common, Format};
use crate::cli::{Exit, Failure};

/// A command: its arguments as clap reads them. The comment on the type is its help, and those on
/// the fields are the help of its options.
pub(crate) trait Command: Args {
    /// Its name, on the command line and in the JSON.
    const NAME: &'static str;

    /// Answer it.
    ///
    /// # Errors
    /// Why it could not be.
    fn run(&self, common: &Common) -> Result<Exit, Failure>;
}

/// Every command, in the order of the help.
const COMMANDS: &[Row] = &[
    row::<triage::Triage>(),
    row::<info::Info>(),
    row::<summary::Summary>(),
    row::<regions::Regions>(),
    row::<maddress::Maddress>(),
    row::<stacks::Stacks>(),
    row::<threads::Threads>(),
    row::<async_chains::Async>(),
    row::<heap::Heap>(),
    row::<heapstat::Heapstat>(),
    row::<objects::Objects>(),
    row::<object::Object>(),
    row::<gcroot::Gcroot>(),
    row::<retained::Retained>(),
    row::<handles::Handles>(),
    row::<finalizers::Finalizers>(),
    row::<syncblocks::Syncblocks>(),
    row::<exceptions::Exceptions>(),
    row::<malloc::Malloc>(),
    row::<search::Search>(),
    row::<whatis::Whatis>(),
    row::<refs::Refs>(),
    row::<leaks::Leaks>(),
    row::<holders::Holders>(),
    row::<anon::Anon>(),
    row::<ip2method::Ip2method>(),
    row::<symbolicate::Symbolicate>(),
    row::<perfmap::Perfmap>(),
    row::<diff::Diff>(),
    row::<shrink::Shrink>(),
    row::<check::Check>(),
    row::<schema::Schema>(),
    row::<completions::Completions>(),
    row::<man::Man>(),
];

/// A command as the rest of the program sees it.
struct Row {
    name: &'static str,
    /// Adds its help, options and arguments.
    describe: fn(clap::Command) -> clap::Command,
    /// Takes its arguments out of what clap read.
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

/// The command asked for.
pub(crate) struct Chosen {
    row: &'static Row,
    run: Run,
}

impl Chosen {
    /// Run it.
    pub(crate) fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let name = self.row.name;
        let without_rows = commands::named(name).and_then(|command| command.without_rows);
        if let (Some(what), Format::Csv) = (without_rows, common.form()) {
            return Err(Failure::Usage(format!("there is no CSV of {name}: {what}")));
        }
        (self.run)(common)
    }
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
        COMMANDS.iter().fold(program, |program, row| program.subcommand((row.describe)(clap::Command::new(row.name))))
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
    fn the_library_has_the_same_commands_in_the_same_words() {
        let described = |row: &Row| (row.describe)(clap::Command::new(row.name)).get_about().map(ToString::to_string);
        let here: Vec<_> = COMMANDS.iter().map(|row| (row.name, described(row).unwrap_or_default())).collect();
        let there: Vec<_> = commands::COMMANDS.iter().map(|c| (c.name, c.sentence.to_owned())).collect();
        assert_eq!(here, there);
    }
}
