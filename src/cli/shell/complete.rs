//! Completion at the prompt, from clap's definition of the program.

use std::sync::OnceLock;

use clap::CommandFactory;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::cli::program::Args;
use crate::cli::shell::is_asked_here;

/// Completes commands, options and values of options.
pub(super) struct Completion;

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Validator for Completion {}

impl Hinter for Completion {
    type Hint = String;
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..pos).unwrap_or_default();
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let words: Vec<&str> = before.get(..start).unwrap_or_default().split_whitespace().collect();
        let begun = before.get(start..).unwrap_or_default();
        let mut found = candidates(&words, begun);
        found.sort();
        found.dedup();
        Ok((start, found))
    }
}

fn program() -> &'static clap::Command {
    static PROGRAM: OnceLock<clap::Command> = OnceLock::new();
    PROGRAM.get_or_init(Args::command)
}

/// Returns the words that may follow `words` and begin with `begun`.
fn candidates(words: &[&str], begun: &str) -> Vec<String> {
    let begins = |name: &&str| name.starts_with(begun);
    let Some((command, rest)) = words.split_first().filter(|(first, rest)| **first != "help" || rest.len() > 1) else {
        let names = program().get_subcommands().map(clap::Command::get_name).filter(|name| is_asked_here(name));
        let own = ["help", "quit"].into_iter().filter(|_| words.is_empty());
        return names.chain(own).filter(begins).map(|name| format!("{name} ")).collect();
    };
    let Some(command) = program().find_subcommand(command) else { return Vec::new() };
    let arg = |name: &str| {
        let of_command = command.get_arguments().chain(program().get_arguments());
        of_command.into_iter().find(|arg| arg.get_long() == name.strip_prefix("--"))
    };
    // A value follows its option, or an `=`.
    let (option, value, lead) = match begun.split_once('=') {
        Some((option, value)) => (option, value, format!("{option}=")),
        None => (rest.last().copied().unwrap_or_default(), begun, String::new()),
    };
    if option.starts_with("--")
        && let Some(arg) = arg(option).filter(|arg| arg.get_action().takes_values())
    {
        let values = arg.get_possible_values();
        let values = values.iter().map(|value| value.get_name()).filter(|name| name.starts_with(value));
        return values.map(|value| format!("{lead}{value} ")).collect();
    }
    if !begun.starts_with('-') {
        return Vec::new();
    }
    let options = command.get_arguments().chain(program().get_arguments()).filter_map(|arg| arg.get_long());
    options.map(|long| format!("--{long} ")).filter(|option| option.starts_with(begun)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(candidates(&[], "heaps"), ["heapstat "]);
        assert_eq!(candidates(&[], "qu"), ["quit "]);
        assert_eq!(candidates(&["help"], "gcr"), ["gcroot "]);
        assert!(candidates(&[], "").iter().all(|name| name != "explore " && name != "mcp " && name != "shell "));
        assert_eq!(candidates(&["heapstat"], "--ty"), ["--type "]);
        assert!(candidates(&["heapstat"], "--").contains(&"--json ".to_owned()));
        assert_eq!(candidates(&["search", "x", "--encoding"], "utf1"), ["utf16 "]);
        assert_eq!(candidates(&["heapstat"], "--generation=lo"), ["--generation=loh "]);
        assert!(candidates(&["nonsense"], "--").is_empty());
        assert!(candidates(&["heapstat"], "x").is_empty());
    }
}
