//! Converts the arguments of a call to the command line that a person would type.

use std::path::PathBuf;

use clap::Arg;
use coremap::program::{is_harmful, quoted};
use serde_json::{Map, Value};

use crate::cli::args::Common;
use crate::cli::mcp::files::{FileError, Root};
use crate::cli::mcp::page;
use crate::cli::mcp::tools::{Form, MAX_TEXT, MAX_VALUES, Tool, property};
use crate::cli::mcp::worker::Order;
use crate::cli::program::Args;

/// A call as a command line.
#[derive(Debug)]
pub(super) struct Question {
    /// The words of the command line, without `coremap`.
    pub(super) words: Vec<String>,
    /// The files that it names.
    pub(super) cores: Vec<PathBuf>,
    pub(super) cursor: Option<String>,
    /// Maximum length of the answer in bytes.
    pub(super) max: usize,
}

/// Reason to refuse a call before anything is read. The texts of these errors are the server's own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("unknown argument; the tool's input schema lists the arguments")]
    Unknown,
    #[error("`{0}` is required")]
    Missing(&'static str),
    #[error("`{0}` must be a string of at most 1000 characters, without control characters")]
    NotText(String),
    #[error("`{0}` must be true or false")]
    NotFlag(String),
    #[error("`{0}` must be an integer from {1} to {2}")]
    NotNumber(String, u64, u64),
    #[error("`{0}` must be a list of at most 32 strings")]
    NotTexts(String),
    #[error("`{0}`: {1}")]
    File(&'static str, FileError),
    #[error("give either `{0}` or `type`")]
    Either(&'static str),
    #[error("an option has a value that it does not take, or two options exclude each other")]
    Options,
}

/// Returns the server's options that change answers.
fn shared(common: &Common) -> Vec<String> {
    let mut out: Vec<String> = common.symbols.iter().map(|dir| format!("--symbols={}", dir.display())).collect();
    out.extend(common.memory.map(|memory| format!("--memory={memory}")));
    out
}

/// Reads the arguments of a call. `extra`: options that the server adds for this tool.
///
/// # Errors
/// The reason why the call is refused.
pub(super) fn read(
    tool: &Tool,
    arguments: &Map<String, Value>,
    root: &Root,
    (common, extra): (&Common, &[String]),
) -> Result<Question, Refusal> {
    let mut left = arguments.clone();
    // `null` means that an argument is not given.
    left.retain(|_, value| !value.is_null());
    let cursor = left.remove("cursor").map(|value| text("cursor", &value)).transpose()?;
    let max = match left.remove("max_bytes") {
        None => page::DEFAULT_BYTES,
        Some(value) => number("max_bytes", &value, page::MIN_BYTES as u64, page::MAX_BYTES as u64)? as usize,
    };
    let mut cores = Vec::new();
    for &(name, _) in tool.files {
        let file = left.remove(name).ok_or(Refusal::Missing(name))?;
        let file = root.file(&text(name, &file)?).map_err(|e| Refusal::File(name, e))?;
        cores.push(file);
    }
    let word = tool.word.and_then(|(name, _)| Some((name, left.remove(name)?)));
    let word = word.map(|(name, value)| text(name, &value)).transpose()?;
    if let Some((name, _)) = tool.word {
        match (word.is_some(), tool.options.contains(&"type"), left.contains_key("type")) {
            (false, true, false) | (true, true, true) => return Err(Refusal::Either(name)),
            (false, false, _) => return Err(Refusal::Missing(name)),
            _ => {}
        }
    }
    let mut words = vec![tool.name.to_owned()];
    words.extend(tool.fixed.iter().map(|&option| option.to_owned()));
    // Use the order of the table, so that equal questions have equal command lines.
    for name in tool.options.iter().map(|option| property(option)) {
        if let Some(value) = left.remove(&name) {
            words.extend(option(&name, &value, tool.option(&name).ok_or(Refusal::Unknown)?)?);
        }
    }
    if !left.is_empty() {
        return Err(Refusal::Unknown);
    }
    words.extend(extra.iter().cloned());
    // A schema is always JSON, and reads nothing.
    if !tool.files.is_empty() {
        words.extend(shared(common));
        words.push("--json".to_owned());
    }
    // Words after this one are never read as options.
    words.push("--".to_owned());
    words.extend(word);
    words.extend(cores.iter().filter_map(|core| Some(core.to_str()?.to_owned())));
    let line = std::iter::once("coremap").chain(words.iter().map(String::as_str));
    Args::read(line).map_err(|_| Refusal::Options)?;
    Ok(Question { words, cores, cursor, max })
}

fn text(name: &str, value: &Value) -> Result<String, Refusal> {
    let text = value.as_str().filter(|text| text.chars().count() <= MAX_TEXT && !text.chars().any(is_harmful));
    text.map(str::to_owned).ok_or_else(|| Refusal::NotText(name.to_owned()))
}

fn number(name: &str, value: &Value, least: u64, most: u64) -> Result<u64, Refusal> {
    let number = value.as_u64().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| Refusal::NotNumber(name.to_owned(), least, most))
}

/// Returns the words of an option. The value is in the same word, so that it is never read as another option.
fn option(name: &str, value: &Value, arg: &Arg) -> Result<Vec<String>, Refusal> {
    let long = arg.get_long().unwrap_or_default();
    match Tool::form(arg) {
        Form::Flag => match value {
            Value::Bool(true) => Ok(vec![format!("--{long}")]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => Err(Refusal::NotFlag(name.to_owned())),
        },
        Form::Number => Ok(vec![format!("--{long}={}", number(name, value, 0, u32::MAX.into())?)]),
        Form::Text => Ok(vec![format!("--{long}={}", text(name, value)?)]),
        Form::Texts => {
            let values = value.as_array().filter(|values| values.len() <= MAX_VALUES);
            let values = values.ok_or_else(|| Refusal::NotTexts(name.to_owned()))?;
            values.iter().map(|value| Ok(format!("--{long}={}", text(name, value)?))).collect()
        }
    }
}

impl Question {
    /// Converts the question to the form that its worker gets.
    pub(super) fn order(&self, tool: &Tool) -> Order {
        let (words, cursor) = (self.words.clone(), self.cursor.clone());
        Order { tool: tool.name.to_owned(), words, command: self.command(), cursor, max: self.max }
    }

    /// The command line, ready to paste.
    pub(super) fn command(&self) -> String {
        let words = self.words.iter().map(|word| quoted(word));
        std::iter::once("coremap".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::mcp::tools;
    use serde_json::json;

    fn asked(tool: &str, arguments: Value) -> Result<String, Refusal> {
        let dir = tempfile::tempdir().map_err(|_| Refusal::Unknown)?;
        std::fs::write(dir.path().join("core"), "x").map_err(|_| Refusal::Unknown)?;
        let root = Root::new(dir.path()).map_err(|_| Refusal::Unknown)?;
        let line = std::iter::once("coremap").chain(["info", "x"]);
        let common = Args::read(line).map_err(|_| Refusal::Options)?.common;
        let tool = tools::named(tool).ok_or(Refusal::Unknown)?;
        let Value::Object(arguments) = arguments else { return Err(Refusal::Unknown) };
        let question = read(tool, &arguments, &root, (&common, &[]))?;
        let command = question.command();
        Ok(command.rsplit_once(" /").map_or(command.as_str(), |(words, _)| words).to_owned())
    }

    #[test]
    fn a_call_becomes_the_line_that_a_person_types() {
        let line = |tool, arguments| asked(tool, arguments).unwrap_or_else(|e| e.to_string());
        assert_eq!(
            line("heapstat", json!({ "core": "core", "top": 5, "live": true })),
            "coremap heapstat --live --top=5 --json --"
        );
        assert_eq!(
            line("heapstat", json!({ "core": "core", "type": "^A B$", "dead": false, "top": null })),
            "coremap heapstat '--type=^A B$' --json --"
        );
        assert_eq!(line("why", json!({ "core": "core", "address": "0x10" })), "coremap why --json -- 0x10");
        assert_eq!(
            line("search", json!({ "core": "core", "pattern": "--pid=1", "kind": ["stack"] })),
            "coremap search --kind=stack --json -- --pid=1"
        );
        assert_eq!(line("threads", json!({ "core": "core" })), "coremap threads --group --json --");
        assert_eq!(line("schema", json!({ "command": "info" })), "coremap schema -- info");
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused() {
        let wrong = [
            ("info", json!({})),
            ("info", json!({ "core": 5 })),
            ("info", json!({ "core": "core", "pid": 1 })),
            ("info", json!({ "core": "core", "symbols": "/" })),
            ("info", json!({ "core": "co\u{0}re" })),
            ("info", json!({ "core": "core", "max_bytes": 1 })),
            ("info", json!({ "core": "core", "max_bytes": "8192" })),
            ("heapstat", json!({ "core": "core", "top": -1 })),
            ("heapstat", json!({ "core": "core", "live": true, "dead": true })),
            ("heapstat", json!({ "core": "core", "min": "many" })),
            ("heapstat", json!({ "core": "core", "show_data": true })),
            ("why", json!({ "core": "core" })),
            ("why", json!({ "core": "core", "address": "0x1", "type": "x" })),
            ("search", json!({ "core": "core" })),
            ("search", json!({ "core": "core", "pattern": "\u{1b}[2J" })),
            ("search", json!({ "core": "core", "pattern": "x", "kind": "stack" })),
            ("search", json!({ "core": "core", "pattern": "x", "kind": ["nonsense"] })),
            ("diff", json!({ "core": "core" })),
            ("diff", json!({ "old": "core", "new": "../core" })),
            ("schema", json!({ "command": "nonsense" })),
        ];
        for (tool, arguments) in wrong {
            assert!(asked(tool, arguments.clone()).is_err(), "{tool} {arguments}");
        }
    }
}
