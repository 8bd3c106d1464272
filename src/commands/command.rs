//! The type of a row in the table of commands.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::report::Envelope;

/// A command of the program.
#[derive(Debug)]
pub struct Command {
    /// Name, on the command line and in the JSON.
    pub name: &'static str,
    /// Input that it needs.
    pub subject: Subject,
    /// Heading of the help under which it is listed.
    pub group: Group,
    /// The question it answers, as one line of the help.
    pub sentence: &'static str,
    /// Why it has no CSV output. `None` if it has CSV output.
    pub without_rows: Option<&'static str>,
    /// Types of its JSON output.
    pub(super) answers: &'static [Answer],
}

/// Input that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The program itself: no core is read.
    Program,
    /// A process, whatever runs in it.
    Process,
    /// A running process; a core will not do.
    Live,
    /// A process, read interactively on a terminal: no output, and no JSON.
    Screen,
    /// A managed runtime. Without one, a sentence says so instead of an answer.
    Runtime,
}

/// Headings of the help, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Where the memory is, and what is at an address.
    Memory,
    /// Threads, their stacks and their code.
    Threads,
    /// Memory of malloc, and mappings without a known owner.
    Native,
    /// The managed heap, and what retains objects.
    Managed,
    /// Output for other people, programs and shells.
    Sharing,
}

impl Group {
    /// All groups, in the order of the help.
    pub const ALL: [Group; 5] = [Group::Memory, Group::Threads, Group::Native, Group::Managed, Group::Sharing];

    /// Returns the heading.
    pub fn name(self) -> &'static str {
        match self {
            Group::Memory => "Memory",
            Group::Threads => "Threads and code",
            Group::Native => "Native memory",
            Group::Managed => "Managed memory",
            Group::Sharing => "Sharing",
        }
    }
}

impl Command {
    /// Returns the command under another heading.
    pub(super) const fn under(mut self, group: Group) -> Command {
        self.group = group;
        self
    }
}

/// Adds the definition of a report to the schema, and returns a reference to it.
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
    let without_rows = Some("it is interactive");
    Command { name, subject: Subject::Screen, sentence, group: Group::Memory, without_rows, answers: &[] }
}
