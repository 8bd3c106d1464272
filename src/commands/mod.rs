//! Every command of the program, one row each: what help, schema, CSV and tests need to know of it
//! without running it. What the program does with a command is in its own table, in the same order.

pub mod schema;

use crate::report::*;
use schema::{Answer, answer};

/// A command of the program.
#[derive(Debug)]
pub struct Command {
    /// Its name, on the command line and in the JSON.
    pub name: &'static str,
    /// What it is asked of.
    pub subject: Subject,
    /// What it tells or does, as the help says it.
    pub sentence: &'static str,
    /// Of a command that has no rows to write as CSV: what it writes.
    pub without_rows: Option<&'static str>,
    /// What it answers in JSON; where that has several forms, each of them.
    answers: &'static [Answer],
}

/// What a command is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The program itself: no core is read.
    Program,
    /// A process, whatever runs in it.
    Process,
    /// A managed runtime: where a process has none, a sentence says so in place of the answer.
    Runtime,
}

/// All of them, in the order of the help.
pub const COMMANDS: &[Command] = &[
    of_process("info", &[answer::<InfoReport>], "The process, its system, its modules, and what the dump holds"),
    of_process("summary", &[answer::<SummaryReport>], "Where the memory went: sizes by kind, biggest first"),
    of_process(
        "regions",
        &[answer::<RegionsReport>],
        "The whole map: every region with its kind, owner and how sure that is",
    ),
    of_process("maddress", &[answer::<RegionsReport>], "The same map in the columns and words of SOS !maddress"),
    of_process("stacks", &[answer::<StacksReport>], "Thread stacks: reserved, guard, in use, high-water mark"),
    of_process(
        "threads",
        &[answer::<ThreadsReport>],
        "What every thread is doing: native and managed frames in one stack",
    ),
    of_runtime(
        "async",
        &[answer::<AsyncReport>],
        "What async methods wait for, and who waits for them: SOS dumpasync, equal chains merged",
    ),
    of_runtime("heap", &[answer::<HeapReport>], "The managed heap: segments or regions by heap and generation"),
    of_runtime(
        "heapstat",
        &[answer::<HeapStatReport>],
        "The objects on the managed heap: count and size by type, biggest first",
    ),
    of_runtime("objects", &[answer::<ObjectsReport>], "The objects of types, with address and size"),
    of_runtime(
        "object",
        &[answer::<ObjectReport>],
        "One object: its fields and their values, text, elements, statics of its type",
    ),
    of_runtime(
        "gcroot",
        &[answer::<GcRootReport>, answer::<GcRootTypesReport>],
        "Why objects are alive: shortest paths from roots to one, or to all of a type, with field names",
    ),
    of_runtime(
        "retained",
        &[answer::<RetainedReport>],
        "What would be freed with what: types and objects by the bytes that only they keep",
    ),
    of_runtime("handles", &[answer::<HandlesReport>], "The GC handles, and the objects they lead to"),
    of_runtime(
        "finalizers",
        &[answer::<FinalizersReport>],
        "Objects with finalizers: registered, and ready to be finalized",
    ),
    of_runtime("syncblocks", &[answer::<SyncBlocksReport>], "Contended locks: who owns them, who waits"),
    of_runtime("exceptions", &[answer::<ExceptionsReport>], "The exception objects on the managed heap"),
    of_process(
        "malloc",
        &[answer::<MallocReport>],
        "Native memory: glibc's malloc by arena, size and blocks that are alike",
    ),
    of_process(
        "search",
        &[answer::<SearchReport>],
        "Find text (UTF-8 and UTF-16 at once), a regular expression or bytes",
    ),
    of_process("whatis", &[answer::<WhatisReport>], "Everything known of one address, with the evidence"),
    of_process(
        "refs",
        &[answer::<RefsReport>],
        "Who points at an address: registers, stacks, objects, all other memory",
    ),
    of_process("leaks", &[answer::<LeaksReport>], "Used blocks of malloc that no pointer reaches, alike ones together"),
    of_runtime(
        "holders",
        &[answer::<HoldersReport>],
        "Native memory that managed objects point at: blocks and bytes by type and field",
    ),
    of_process(
        "anon",
        &[answer::<AnonReport>],
        "Memory that nothing claims: equal blocks, what fills them, who owns them",
    ),
    of_process(
        "ip2method",
        &[answer::<Ip2MethodReport>],
        "The method that each code address is of, as SOS ip2md tells it",
    ),
    of_process(
        "symbolicate",
        &[answer::<SymbolicateReport>],
        "Give names to the addresses in the text of perf, heaptrack, memleak or gdb",
    ),
    of_runtime("perfmap", &[answer::<PerfMapReport>], "The map of jitted code that perf reads as /tmp/perf-PID.map"),
    of_process(
        "diff",
        &[answer::<DiffReport>],
        "Two cores side by side: counts and sizes by kind, types, blocks of malloc",
    ),
    of_process("shrink", &[answer::<ShrinkReport>], "Write a smaller core that still answers some commands"),
    of_process("check", &[answer::<CheckReport>], "Check the invariants: every byte has one label, and the sums hold"),
    of_program(
        "schema",
        "The JSON Schema of what a command answers with --json, or of all commands' answers",
        "it is JSON",
    ),
    of_program("completions", "The completions of a shell, for its startup file", "they are a script for a shell"),
    of_program("man", "The manual page, in the form that man reads", "it is a page for man"),
];

const fn of_process(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Process, sentence, without_rows: None, answers }
}

const fn of_runtime(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Runtime, sentence, without_rows: None, answers }
}

const fn of_program(name: &'static str, sentence: &'static str, without_rows: &'static str) -> Command {
    Command { name, subject: Subject::Program, sentence, without_rows: Some(without_rows), answers: &[] }
}

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
