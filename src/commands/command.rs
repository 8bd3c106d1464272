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
    /// A managed runtime: where a process has none, a sentence says so in place of the answer.
    Runtime,
}

/// Adds the definition of a whole answer, and gives a reference to it.
pub(super) type Answer = fn(&mut SchemaGenerator) -> Schema;

pub(super) fn answer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Envelope<T>>()
}

pub(super) const fn of_process(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Process, sentence, without_rows: None, answers }
}

pub(super) const fn of_runtime(name: &'static str, answers: &'static [Answer], sentence: &'static str) -> Command {
    Command { name, subject: Subject::Runtime, sentence, without_rows: None, answers }
}

pub(super) const fn of_program(name: &'static str, sentence: &'static str, without_rows: &'static str) -> Command {
    Command { name, subject: Subject::Program, sentence, without_rows: Some(without_rows), answers: &[] }
}
