//! The JSON contract as a JSON Schema (draft 2020-12), generated from the structs of the reports.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::commands::command::Command;
use crate::commands::registry::{COMMANDS, named};
use crate::report::SCHEMA_VERSION;

/// Names of the commands that have JSON output.
pub fn commands() -> impl Iterator<Item = &'static str> {
    answering().map(|command| command.name)
}

fn answering() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| !command.answers.is_empty())
}

/// Returns the schema of one command's JSON output. `None` if there is no such command, or it has no JSON output.
///
/// ```
/// let schema = coremap::commands::schema::of("summary").unwrap();
/// assert_eq!(schema["properties"]["command"]["const"], "summary");
/// assert!(coremap::commands::schema::of("nothing").is_none());
/// ```
pub fn of(command: &str) -> Option<Value> {
    let command = named(command).filter(|command| !command.answers.is_empty())?;
    let mut generator = generator();
    let schema = one(command, &mut generator);
    Some(whole(schema, generator, &format!("coremap {} --json", command.name)))
}

/// Returns the schema of every command's output. The field `command` distinguishes them.
pub fn all() -> Value {
    let mut generator = generator();
    let any: Vec<Schema> = answering().map(|command| one(command, &mut generator)).collect();
    whole(json_schema!({ "oneOf": any }), generator, "coremap --json")
}

/// Generates schemas for serialization: fields that are always written are required, even if `null`.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

fn one(command: &Command, generator: &mut SchemaGenerator) -> Schema {
    let forms: Vec<Schema> = command.answers.iter().map(|form| form(generator)).collect();
    let (version, name) = (SCHEMA_VERSION, command.name);
    json_schema!({
        "properties": { "schema_version": { "const": version }, "command": { "const": name } },
        "anyOf": forms,
    })
}

/// Completes a schema with the definitions it refers to.
fn whole(mut schema: Schema, mut generator: SchemaGenerator, title: &str) -> Value {
    let definitions = generator.take_definitions(true);
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    schema.insert("$defs".into(), definitions.into());
    schema.to_value()
}
