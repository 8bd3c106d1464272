//! The table of commands: what each is stands in its folder.

use crate::commands::command::{Command, of_program};
use crate::commands::{
    anon, check, diff, dotnet, gcroot, heapstat, holders, info, ip2method, leaks, maddress, malloc, object, objects,
    perfmap, refs, regions, retained, search, shrink, stacks, summary, symbolicate, threads, whatis,
};

/// All of them, in the order of the help.
pub const COMMANDS: &[Command] = &[
    info::COMMAND,
    summary::COMMAND,
    regions::COMMAND,
    maddress::COMMAND,
    stacks::COMMAND,
    threads::COMMAND,
    dotnet::async_chains::COMMAND,
    dotnet::heap::COMMAND,
    heapstat::COMMAND,
    objects::COMMAND,
    object::COMMAND,
    gcroot::COMMAND,
    retained::COMMAND,
    dotnet::handles::COMMAND,
    dotnet::finalizers::COMMAND,
    dotnet::syncblocks::COMMAND,
    dotnet::exceptions::COMMAND,
    malloc::COMMAND,
    search::COMMAND,
    whatis::COMMAND,
    refs::COMMAND,
    leaks::COMMAND,
    holders::COMMAND,
    anon::COMMAND,
    ip2method::COMMAND,
    symbolicate::COMMAND,
    perfmap::COMMAND,
    diff::COMMAND,
    shrink::COMMAND,
    check::COMMAND,
    of_program(
        "schema",
        "The JSON Schema of what a command answers with --json, or of all commands' answers",
        "it is JSON",
    ),
    of_program("completions", "The completions of a shell, for its startup file", "they are a script for a shell"),
    of_program("man", "The manual page, in the form that man reads", "it is a page for man"),
];

/// The command of that name.
///
/// ```
/// let gcroot = coremap::commands::named("gcroot").unwrap();
/// assert_eq!(gcroot.subject, coremap::commands::Subject::Runtime);
/// assert!(coremap::commands::named("nothing").is_none());
/// ```
pub fn named(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
