//! The tools: commands of the registry that an assistant may run, each with the options that a call may set.

use std::sync::OnceLock;

use clap::{Arg, ArgAction, CommandFactory};
use coremap::commands;
use serde_json::{Map, Value, json};

use crate::cli::mcp::{answer, page};
use crate::cli::program::Args;

/// A tool.
pub(super) struct Tool {
    /// Name of the tool, and of its command.
    pub(super) name: &'static str,
    /// Arguments that name files, with a description of each.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The argument of the command that is not an option, with a description.
    pub(super) word: Option<(&'static str, &'static str)>,
    /// Options that every call has.
    pub(super) fixed: &'static [&'static str],
    /// Options that a call may set. None of them reads or writes a file.
    pub(super) options: &'static [&'static str],
    /// The method that yields the answer.
    pub(super) evidence: &'static str,
    /// Confidence in the answer, unless its rows have their own.
    pub(super) confidence: &'static str,
    /// JSON pointer to the most important list of the answer.
    pub(super) main: &'static str,
    /// JSON pointers to contents of the process's memory, with `*` for each element. They are hidden without
    /// `--show-data`.
    pub(super) contents: &'static [&'static str],
}

const CORE: &[(&str, &str)] = &[("core", "Path of the core file, absolute or relative to the folder that is served")];

/// All tools.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "info",
        files: CORE,
        word: None,
        fixed: &[],
        options: &["top"],
        evidence: "headers and notes of the core; the runtimes' own version data",
        confidence: "exact",
        main: "/modules",
        contents: &["/last_words/*/text"],
    },
    Tool {
        name: "triage",
        files: CORE,
        word: None,
        fixed: &[],
        options: &["all"],
        evidence: "each finding has its own evidence and confidence",
        confidence: "derived",
        main: "/findings",
        contents: &[],
    },
    Tool {
        name: "summary",
        files: CORE,
        word: None,
        fixed: &[],
        options: &["zero-fill"],
        evidence: "the memory map: each byte counts once, for the owner with the best evidence",
        confidence: "derived",
        main: "/kinds",
        contents: &[],
    },
    Tool {
        name: "heapstat",
        files: CORE,
        word: None,
        fixed: &[],
        options: &["type", "generation", "min", "max", "live", "dead", "sort", "top"],
        evidence: "a walk over the objects of the managed heap; live and dead: a walk from all roots that could be read",
        confidence: "derived",
        main: "/types",
        contents: &["/strings/duplicates/*/text"],
    },
    Tool {
        name: "why",
        files: CORE,
        word: Some(("address", "Address to explain: 0x7f42d256e000, or libc.so.6+0x10. Leave it out to give `type`")),
        fixed: &[],
        options: &["type", "top"],
        evidence: "shortest paths from roots, pointers between malloc blocks, and the memory map",
        confidence: "derived",
        main: "/groups",
        contents: &["/whatis/object/value", "/whatis/text", "/whatis/bytes"],
    },
    Tool {
        name: "threads",
        files: CORE,
        word: None,
        fixed: &["--group"],
        options: &["managed", "native", "tid", "virtual"],
        evidence: "registers and unwind data of each thread; locks from the runtimes' and libraries' own structures",
        confidence: "derived",
        main: "/groups",
        contents: &["/threads/*/exception/message"],
    },
    Tool {
        name: "async",
        files: CORE,
        word: None,
        fixed: &[],
        options: &["all", "sort", "top"],
        evidence: "tasks and state machines on the managed heap",
        confidence: "derived",
        main: "/chains",
        contents: &[],
    },
    Tool {
        name: "search",
        files: CORE,
        word: Some(("pattern", "Text, regular expression, bytes or address to find")),
        fixed: &[],
        options: &["ignore-case", "regex", "hex", "pointer", "encoding", "kind", "top"],
        evidence: "a scan of all memory that the core contains",
        confidence: "exact",
        main: "/hits",
        contents: &["/hits/*/context"],
    },
    Tool {
        name: "diff",
        files: &[
            ("old", "Path of the older core, or of its `summary --json` answer"),
            ("new", "Path of the newer core of the same program"),
        ],
        word: None,
        fixed: &[],
        options: &["sort", "top"],
        evidence: "the same counts in both cores",
        confidence: "derived",
        main: "/kinds",
        contents: &[],
    },
    Tool {
        name: "schema",
        files: &[],
        word: Some(("command", "Command whose answer to describe: a tool of this server, or another command")),
        fixed: &[],
        options: &[],
        evidence: "this program",
        confidence: "exact",
        main: "/fields",
        contents: &[],
    },
];

/// Returns the tool named `name`.
pub(super) fn named(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Returns the program's commands with their arguments.
fn program() -> &'static clap::Command {
    static PROGRAM: OnceLock<clap::Command> = OnceLock::new();
    PROGRAM.get_or_init(Args::command)
}

/// Type of a tool's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Flag,
    Number,
    Text,
    Texts,
}

impl Tool {
    /// Returns the question that the tool answers.
    pub(super) fn sentence(&self) -> &'static str {
        commands::named(self.name).map_or("", |command| command.sentence)
    }

    /// Returns the option of the command named `name`, if a call may set it.
    pub(super) fn option(&self, name: &str) -> Option<&'static Arg> {
        let name = self.options.iter().find(|option| property(option) == name)?;
        let command = program().find_subcommand(self.name)?;
        command.get_arguments().find(|arg| arg.get_long() == Some(*name))
    }

    /// Type of an option's value.
    pub(super) fn form(arg: &Arg) -> Form {
        match arg.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count => Form::Flag,
            ArgAction::Append => Form::Texts,
            _ if is_number(arg) => Form::Number,
            _ => Form::Text,
        }
    }

    /// JSON Schema of the arguments of a call.
    pub(super) fn input(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        let text = |about: &str| json!({ "type": "string", "maxLength": MAX_TEXT, "description": about });
        for (name, about) in self.files {
            properties.insert((*name).to_owned(), text(about));
        }
        if let Some((name, about)) = self.word {
            properties.insert(name.to_owned(), text(about));
        }
        for option in self.options {
            let name = property(option);
            if let Some(arg) = self.option(&name) {
                properties.insert(name, described(arg));
            }
        }
        let cursor = "Cursor of the last answer, to continue its lists. Give the other arguments as before";
        let bytes = "Maximum length of the answer in bytes";
        properties.insert("cursor".to_owned(), text(cursor));
        properties.insert(
            "max_bytes".to_owned(),
            json!({ "type": "integer", "minimum": page::MIN_BYTES, "maximum": page::MAX_BYTES,
                    "default": page::DEFAULT_BYTES, "description": bytes }),
        );
        let files = self.files.iter().map(|(name, _)| *name);
        // With a type, the address is optional.
        let word = self.word.map(|(name, _)| name).filter(|_| !self.options.contains(&"type"));
        let required: Vec<&str> = files.chain(word).collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// JSON Schema of an answer.
    pub(super) fn output(&self) -> Map<String, Value> {
        answer::schema(self)
    }
}

/// Maximum length of a text in a call, in characters.
pub(super) const MAX_TEXT: usize = 1000;

/// Name of an option as a property in JSON.
pub(super) fn property(option: &str) -> String {
    option.replace('-', "_")
}

fn is_number(arg: &Arg) -> bool {
    use std::any::TypeId;

    let id = arg.get_value_parser().type_id();
    [TypeId::of::<u32>(), TypeId::of::<usize>()].iter().any(|number| id == *number)
}

/// JSON Schema of an option's value, with its help.
fn described(arg: &Arg) -> Value {
    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let mut text = json!({ "type": "string", "maxLength": MAX_TEXT });
    if !values.is_empty()
        && let Some(text) = text.as_object_mut()
    {
        text.insert("enum".to_owned(), values.into());
    }
    let mut schema = match Tool::form(arg) {
        Form::Flag => json!({ "type": "boolean" }),
        Form::Number => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Form::Text => text,
        Form::Texts => json!({ "type": "array", "items": text, "maxItems": MAX_VALUES }),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), about.into());
    }
    schema
}

/// Maximum number of values of a repeatable option.
pub(super) const MAX_VALUES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_a_command_and_its_options_exist() {
        assert!((8..=10).contains(&TOOLS.len()));
        for tool in TOOLS {
            assert!(!tool.sentence().is_empty(), "{}", tool.name);
            assert!(commands::schema::of(tool.name).is_some() || tool.name == "schema", "{}", tool.name);
            for option in tool.options {
                assert!(tool.option(&property(option)).is_some(), "{}: --{option}", tool.name);
            }
        }
    }

    #[test]
    fn no_option_of_a_tool_names_a_file_or_a_process() {
        let never = ["symbols", "smaps", "pid", "output", "out", "map", "recording", "context", "show-data", "strings"];
        for tool in TOOLS {
            assert!(tool.options.iter().all(|option| !never.contains(option)), "{}", tool.name);
            let args = tool.options.iter().filter_map(|option| tool.option(&property(option)));
            let path = std::any::TypeId::of::<std::path::PathBuf>();
            assert!(args.into_iter().all(|arg| arg.get_value_parser().type_id() != path), "{}", tool.name);
        }
    }

    #[test]
    fn schemas_of_arguments_have_the_commands_own_help() {
        let input = named("heapstat").map(Tool::input).unwrap_or_default();
        let input = Value::Object(input);
        assert_eq!(input["properties"]["live"]["type"], "boolean");
        assert_eq!(input["properties"]["top"]["type"], "integer");
        assert!(input["properties"]["type"]["description"].as_str().is_some_and(|about| about.contains("regular")));
        assert_eq!(input["required"], json!(["core"]));
        let why = Value::Object(named("why").map(Tool::input).unwrap_or_default());
        assert_eq!(why["required"], json!(["core"]));
    }
}
