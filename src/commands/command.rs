//! What the table has of a command.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::report::Envelope;

/// A command of the program.
#[derive(Debug)]
pub struct Command {
    /// Its name, on the command line and in the JSON.
    pub name: &'static str,
    /// What it is asked of.
    pub subject: Subject,
    /// Under which heading the help has it.
    pub group: Group,
    /// What it tells or does, as the help says it.
    pub sentence: &'static str,
    /// Of a command that has no rows to write as CSV: what it writes.
    pub without_rows: Option<&'static str>,
    /// What it answers in JSON; where that has several forms, each of them.
    pub(super) answers: &'static [Answer],
}

/// What a command is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The program itself: no core is read.
    Program,
    /// A process, whatever runs in it.
    Process,
    /// A process that runs: no core will do.
    Live,
    /// A process, whatever runs in it, by who sits at a terminal: it prints nothing, and answers nothing in JSON.
    Screen,
    /// A managed runtime: where a process has none, a sentence says so in place of the answer.
    Runtime,
}

/// Headings of the help, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What has the memory, and what is where.
    Memory,
    /// What threads do and reserve, and which code that is.
    Threads,
    /// Memory that malloc gave out, and mappings without an owner.
    Native,
    /// The managed heap, and what keeps objects alive.
    Managed,
    /// For other people, programs and shells.
    Sharing,
}

impl Group {
    /// All, in the order of the help.
    pub const ALL: [Group; 5] = [Group::Memory, Group::Threads, Group::Native, Group::Managed, Group::Sharing];

    /// Its heading.
    pub fn name(self) -> &'static str {
        match self {
            Group::Memory => "Memory",
            Group::Threads => "Threads and code",
            Group::Native => "Native memory",
            Group::Managed => "Managed memory (.NET)",
            Group::Sharing => "Sharing",
        }
    }
}

impl Command {
    /// The same under a heading.
    pub(super) const fn under(mut self, group: Group) -> Command {
        self.group = group;
        self
    }
}

/// Adds the definition of a whole answer, and gives a reference to it.
pub(super) type Answer = fn(&mut SchemaGenerator) -> Schema;

pub(super) fn answer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Envelope<T>>()
}

pub(super) const fn of_process(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Process, sentence, group: Group::Memory, without_rows: None, answers }
}

pub(super) const fn of_live(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Live, sentence, group: Group::Memory, without_rows: None, answers }
}

pub(super) const fn of_runtime(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Runtime, sentence, group: Group::Memory, without_rows: None, answers }
}

pub(super) const fn of_program(name: &'static str, sentence: &'static str, without_rows: &'static str) -> Command {
    let without_rows = Some(without_rows);
    Command { name, subject: Subject::Program, sentence, group: Group::Sharing, without_rows, answers: &[] }
}

pub(super) const fn of_screen(name: &'static str, sentence: &'static str) -> Command {
    let without_rows = Some("it is a screen to look around in");
    Command { name, subject: Subject::Screen, sentence, group: Group::Memory, without_rows, answers: &[] }
}
