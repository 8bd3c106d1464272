//! The reference of all commands as Markdown: docs/commands.md, generated from the same definitions as the help.

use std::collections::BTreeSet;

use clap::{Arg, Command};
use coremap::commands::{self, Group, schema};

use crate::cli::args::COMMON;
use crate::cli::commands::example_of;
use crate::cli::commands::examples::Example;

const HEAD: &str = "\
# Commands

This page is generated from the same definitions as `coremap help`. Do not edit it; `tests/all/documents.rs` says how to
update it. For an introduction by question, see [guide.md](guide.md).

";

const TAIL_OF_COMMON: &str = "
CORE is an ELF core dump, plain or compressed (.zst .gz .xz .lz4), `-` for standard input, or the PID of a running
process. [output.md](output.md) describes forms of input, output and exit statuses.

";

/// Maximum number of columns, unless a word is longer.
const WIDTH: usize = 118;

/// Returns the reference of this program.
pub(super) fn markdown(mut program: Command) -> String {
    program.build();
    let mut text = HEAD.to_owned();
    for group in Group::ALL {
        text.push_str(&format!("## {}\n\n| Command | What it does |\n|---|---|\n", group.name()));
        for command in commands_of(group) {
            text.push_str(&format!("| [`{0}`](#{0}) | {1} |\n", command.name, command.sentence));
        }
        text.push('\n');
    }
    text.push_str("## Common options\n\nEvery command takes these options.\n\n");
    let common = program.get_arguments().filter(|arg| arg.get_help_heading() == Some(COMMON));
    common.for_each(|arg| option(&mut text, arg));
    text.push_str(TAIL_OF_COMMON);
    for group in Group::ALL {
        for described in commands_of(group) {
            if let Some(command) = program.find_subcommand(described.name) {
                section(&mut text, command, described);
            }
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn commands_of(group: Group) -> impl Iterator<Item = &'static commands::Command> {
    commands::COMMANDS.iter().filter(move |command| command.group == group)
}

fn section(text: &mut String, command: &Command, described: &commands::Command) {
    let name = described.name;
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    text.push_str(&format!("## {name}\n\n"));
    for (number, paragraph) in about.split("\n\n").enumerate() {
        // The first paragraph is a sentence without a full stop.
        let end = if number == 0 && !paragraph.ends_with('.') { "." } else { "" };
        wrapped(text, "", &format!("{paragraph}{end}"));
        text.push('\n');
    }
    let usage = command.clone().render_usage().to_string();
    let lines: Vec<&str> = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect();
    text.push_str(&format!("```text\n{}\n```\n\n", lines.join("\n")));
    let example = example_of(name);
    text.extend(example.map(Example::markdown));
    let own = command.get_arguments().filter(|arg| arg.get_help_heading() != Some(COMMON) && !arg.is_hide_set());
    own.for_each(|arg| option(text, arg));
    text.extend(example.and_then(Example::columns_in_markdown));
    let fields = fields(name);
    if fields.is_empty() {
        if let Some(why) = described.without_rows {
            text.push_str(&format!("\n`--json` and `--format csv` do not apply: {why}.\n"));
        }
    } else {
        let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        text.push('\n');
        wrapped(text, "", &format!("JSON: {}. `coremap schema {name}` describes them.", names.join(", ")));
    }
    text.push('\n');
}

/// Writes an option or argument, with its values.
fn option(text: &mut String, arg: &Arg) {
    let value = arg.get_value_names().unwrap_or_default().join(" ");
    let name = match (arg.get_short(), arg.get_long()) {
        (short, Some(long)) => {
            let short = short.map_or_else(String::new, |short| format!("-{short}, "));
            let takes = arg.get_action().takes_values();
            let optional = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
            let value = match (takes, optional) {
                (false, _) => String::new(),
                (true, true) => format!("[={value}]"),
                (true, false) => format!(" {value}"),
            };
            format!("{short}--{long}{value}")
        }
        (Some(short), None) => format!("-{short}"),
        (None, None) if value.is_empty() => arg.get_id().to_string().to_uppercase(),
        (None, None) => value,
    };
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.split("\n\n");
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    // A switch has the default `false`, which is not worth printing.
    let shown = arg.get_action().takes_values() && !defaults.is_empty();
    let default = if shown { format!(" [default: {}]", defaults.join(",")) } else { String::new() };
    let values = if arg.is_hide_possible_values_set() { Vec::new() } else { arg.get_possible_values() };
    let values: Vec<_> = if arg.get_action().takes_values() { values } else { Vec::new() };
    let with_help = values.iter().any(|value| value.get_help().is_some());
    let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
    let list = if with_help || names.is_empty() { String::new() } else { format!("; one of {}", names.join(", ")) };
    let first = paragraphs.next().unwrap_or_default();
    wrapped(text, "- ", &format!("`{name}`: {first}{list}{default}"));
    for paragraph in paragraphs {
        text.push('\n');
        wrapped(text, "  ", paragraph);
    }
    for value in values.iter().filter(|_| with_help) {
        let means = value.get_help().map(ToString::to_string).unwrap_or_default();
        wrapped(text, "  - ", &format!("`{}`: {means}", value.get_name()));
    }
}

/// Fields of the JSON, without those that every command has.
fn fields(name: &str) -> BTreeSet<String> {
    const ENVELOPE: [&str; 5] = ["schema_version", "coremap", "command", "core", "warnings"];
    let Some(schema) = schema::of(name) else { return BTreeSet::new() };
    let forms = schema.get("anyOf").and_then(|forms| forms.as_array()).into_iter().flatten();
    let defined = forms.filter_map(|form| schema.pointer(form.get("$ref")?.as_str()?.strip_prefix('#')?));
    let names = defined.filter_map(|form| form.get("properties")?.as_object()).flat_map(|fields| fields.keys());
    names.filter(|name| !ENVELOPE.contains(&name.as_str())).cloned().collect()
}

/// Writes a wrapped paragraph of Markdown. Further lines of a list item are indented.
fn wrapped(text: &mut String, begin: &str, paragraph: &str) {
    let indent = " ".repeat(begin.len());
    let mut line = begin.to_owned();
    let mut is_first = true;
    for word in paragraph.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clone_from(&indent);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    text.push_str(&line);
    text.push('\n');
}
