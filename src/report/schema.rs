//! The JSON contract as a JSON Schema (draft 2020-12), made from the very
//! structs that the answers are made of.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::report::*;

/// Adds the definition of a whole answer, and gives a reference to it.
type Answer = fn(&mut SchemaGenerator) -> Schema;

/// What each command answers; where it has several forms, each of them.
const ANSWERS: &[(&str, &[Answer])] = &[
    ("info", &[answer::<InfoReport>]),
    ("summary", &[answer::<SummaryReport>]),
    ("regions", &[answer::<RegionsReport>]),
    ("maddress", &[answer::<RegionsReport>]),
    ("stacks", &[answer::<StacksReport>]),
    ("threads", &[answer::<ThreadsReport>]),
    ("async", &[answer::<AsyncReport>]),
    ("heap", &[answer::<HeapReport>]),
    ("heapstat", &[answer::<HeapStatReport>]),
    ("objects", &[answer::<ObjectsReport>]),
    ("object", &[answer::<ObjectReport>]),
    ("gcroot", &[answer::<GcRootReport>, answer::<GcRootTypesReport>]),
    ("retained", &[answer::<RetainedReport>]),
    ("handles", &[answer::<HandlesReport>]),
    ("finalizers", &[answer::<FinalizersReport>]),
    ("syncblocks", &[answer::<SyncBlocksReport>]),
    ("exceptions", &[answer::<ExceptionsReport>]),
    ("malloc", &[answer::<MallocReport>]),
    ("search", &[answer::<SearchReport>]),
    ("whatis", &[answer::<WhatisReport>]),
    ("refs", &[answer::<RefsReport>]),
    ("leaks", &[answer::<LeaksReport>]),
    ("holders", &[answer::<HoldersReport>]),
    ("anon", &[answer::<AnonReport>]),
    ("ip2method", &[answer::<Ip2MethodReport>]),
    ("symbolicate", &[answer::<SymbolicateReport>]),
    ("perfmap", &[answer::<PerfMapReport>]),
    ("diff", &[answer::<DiffReport>]),
    ("shrink", &[answer::<ShrinkReport>]),
    ("check", &[answer::<CheckReport>]),
];

fn answer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Envelope<T>>()
}

/// Names of the commands that answer in JSON.
pub fn commands() -> impl Iterator<Item = &'static str> {
    ANSWERS.iter().map(|(name, _)| *name)
}

/// The schema of what one command answers; `None` where there is no such command.
///
/// ```
/// let schema = coremap::report::schema::of("summary").unwrap();
/// assert_eq!(schema["properties"]["command"]["const"], "summary");
/// assert!(coremap::report::schema::of("nothing").is_none());
/// ```
pub fn of(command: &str) -> Option<Value> {
    let (name, answers) = ANSWERS.iter().find(|(name, _)| *name == command)?;
    let mut generator = generator();
    let schema = one(name, answers, &mut generator);
    Some(whole(schema, generator, &format!("coremap {name} --json")))
}

/// The schema of what any command answers, told apart by its field `command`.
pub fn all() -> Value {
    let mut generator = generator();
    let any: Vec<Schema> = ANSWERS.iter().map(|(name, answers)| one(name, answers, &mut generator)).collect();
    whole(json_schema!({ "oneOf": any }), generator, "coremap --json")
}

/// As values are written: what is always there is required, `null` or not.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

fn one(command: &str, answers: &[Answer], generator: &mut SchemaGenerator) -> Schema {
    let forms: Vec<Schema> = answers.iter().map(|form| form(generator)).collect();
    let version = SCHEMA_VERSION;
    json_schema!({
        "properties": { "schema_version": { "const": version }, "command": { "const": command } },
        "anyOf": forms,
    })
}

/// With the definitions that it refers to.
fn whole(mut schema: Schema, mut generator: SchemaGenerator, title: &str) -> Value {
    let definitions = generator.take_definitions(true);
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    schema.insert("$defs".into(), definitions.into());
    schema.to_value()
}
