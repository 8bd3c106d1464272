//! The table of commands. Each command is described in its own folder.

use crate::commands::command::{Command, Group, of_program, of_screen};
use crate::commands::{
    allocations, anon, check, collections, diff, dotnet, dump, export, gcroot, heapstat, holders, info, ip2method,
    leaks, maddress, malloc, object, objects, perfmap, record, refs, regions, report, requests, retained, scan_secrets,
    search, shrink, stackobjects, stacks, summary, symbolicate, threadpool, threads, timers, trend, triage, whatis,
    why,
};

/// All commands, in the order of the help.
pub const COMMANDS: &[Command] = &[
    triage::COMMAND.under(Group::Memory),
    of_screen("explore", "Browse findings, memory map, types, threads and malloc interactively"),
    of_screen("top", "Watch the memory of a running process, refreshed every two seconds"),
    of_screen("shell", "Ask many questions about one core, which stays open: a prompt with history and completion"),
    info::COMMAND.under(Group::Memory),
    summary::COMMAND.under(Group::Memory),
    regions::COMMAND.under(Group::Memory),
    maddress::COMMAND.under(Group::Memory),
    stacks::COMMAND.under(Group::Threads),
    threads::COMMAND.under(Group::Threads),
    stackobjects::COMMAND.under(Group::Threads),
    dotnet::async_chains::COMMAND.under(Group::Threads),
    threadpool::COMMAND.under(Group::Threads),
    requests::COMMAND.under(Group::Threads),
    timers::COMMAND.under(Group::Threads),
    dotnet::heap::COMMAND.under(Group::Managed),
    heapstat::COMMAND.under(Group::Managed),
    allocations::COMMAND.under(Group::Managed),
    objects::COMMAND.under(Group::Managed),
    object::COMMAND.under(Group::Managed),
    gcroot::COMMAND.under(Group::Managed),
    retained::COMMAND.under(Group::Managed),
    collections::COMMAND.under(Group::Managed),
    dotnet::handles::COMMAND.under(Group::Managed),
    dotnet::finalizers::COMMAND.under(Group::Managed),
    dotnet::syncblocks::COMMAND.under(Group::Managed),
    dotnet::exceptions::COMMAND.under(Group::Managed),
    malloc::COMMAND.under(Group::Native),
    search::COMMAND.under(Group::Memory),
    whatis::COMMAND.under(Group::Memory),
    why::COMMAND.under(Group::Memory),
    refs::COMMAND.under(Group::Memory),
    leaks::COMMAND.under(Group::Native),
    holders::COMMAND.under(Group::Native),
    anon::COMMAND.under(Group::Native),
    ip2method::COMMAND.under(Group::Threads),
    symbolicate::COMMAND.under(Group::Threads),
    perfmap::COMMAND.under(Group::Threads),
    diff::COMMAND.under(Group::Memory),
    record::COMMAND.under(Group::Memory),
    trend::COMMAND.under(Group::Memory),
    dump::COMMAND.under(Group::Sharing),
    report::COMMAND.under(Group::Sharing),
    export::COMMAND.under(Group::Sharing),
    shrink::COMMAND.under(Group::Sharing),
    scan_secrets::COMMAND.under(Group::Sharing),
    check::COMMAND.under(Group::Memory),
    of_program(
        "mcp",
        "Serve the cores in a folder to an AI assistant, read-only (Model Context Protocol)",
        "it speaks JSON-RPC",
    ),
    of_program(
        "schema",
        "Print the JSON Schema of a command's --json output, or of all commands",
        "its output is JSON",
    ),
    of_program("completions", "Print completions for a shell", "its output is a shell script"),
    of_program("man", "Print the manual page, or write a page for each command", "its output is a manual page"),
];

/// Returns the command named `name`.
///
/// ```
/// let gcroot = coremap::commands::named("gcroot").unwrap();
/// assert_eq!(gcroot.subject, coremap::commands::Subject::Runtime);
/// assert!(coremap::commands::named("nothing").is_none());
/// ```
pub fn named(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
