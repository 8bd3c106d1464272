//! `shell`: a prompt for commands on one open core. Data that a command has read is reused by later commands.
//!
//! | file | contents |
//! |---|---|
//! | `line` | parses a typed line: words, and the destination of the answer |
//! | `complete` | completion of commands, options and their values |
//! | `question` | a command that runs on the open core, and its interruption |
//! | `target` | destinations of answers: the terminal, a new file, or another program |

mod complete;
mod line;
mod question;
mod target;

use std::io::IsTerminal;
use std::path::Path;

use coremap::commands::{self, Subject};
use coremap::process::Process;
use coremap::program::printable;
use coremap::session::Session;
use coremap::targets::Producer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::cli::args::{Common, Format};
use crate::cli::ask::open;
use crate::cli::output::message;
use crate::cli::progress::progress;
use crate::cli::shell::complete::Completion;
use crate::cli::shell::line::Line;
use crate::cli::shell::question::Questions;
use crate::cli::{Exit, Failure, console, interrupt};

const PROMPT: &str = "coremap> ";

const HELP: &str = "\
Type a command without `coremap` and without the core: heapstat --top 10
  | COMMAND     pass the answer to a program: threads | less
  > FILE        write the answer to a new file
  help          list the commands; help COMMAND describes one
  quit          leave (also Ctrl-D)
Tab completes commands, options and their values. Ctrl-C ends a question.
";

/// The open core.
type Open = &'static Session<'static>;

/// Opens a core and answers questions about it until the input ends.
///
/// # Errors
/// Fails if the core cannot be opened, or if it is a running process.
pub(crate) fn shell(core: &Path, common: &Common) -> Result<Exit, Failure> {
    if common.form() == Format::Json {
        let why = "shell is interactive and has no JSON; add --json to a command in it";
        return Err(Failure::Usage(why.to_owned()));
    }
    let process = open(core, common, &progress())?;
    if process.facts().producer == Producer::Live {
        let why = "shell keeps a core open, and a running process changes: take a core with `coremap dump --pid N -o FILE`, \
                   or use `coremap explore --pid N`";
        return Err(Failure::Usage(why.to_owned()));
    }
    // An interrupted command may continue in the background, so the core stays open until the program ends.
    let process: &'static Process = Box::leak(Box::new(process));
    let session: Open = Box::leak(Box::new(Session::new(process)));
    // Paths and retained sizes of all questions use one graph.
    let _graphs = session.retain_graphs();
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let editor = Editor::with_history(config.clone(), MemHistory::with_config(&config));
    let mut editor = editor.map_err(|e| Failure::Beside(format!("the prompt failed to start: {e}")))?;
    editor.set_helper(Some(Completion));
    interrupt::interrupt_questions();
    let questions = Questions::new(session, core, common);
    let is_script = !std::io::stdin().is_terminal();
    if !is_script {
        let path = printable(&core.display().to_string()).into_owned();
        message(&format!("{path} is open; `help` shows what to type, Ctrl-D leaves"));
    }
    let mut last = Exit::Done;
    loop {
        console::flush();
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            // Ctrl-C during typing only clears the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(Failure::Beside(format!("the prompt failed: {e}"))),
        };
        match Line::read(&text) {
            Ok(line) if line.words.is_empty() => {}
            Ok(line) if matches!(line.words.first().map(String::as_str), Some("quit" | "exit" | "q")) => break,
            Ok(line) => last = answer(&questions, &line),
            Err(why) => {
                message(why);
                last = Exit::Usage;
            }
        }
    }
    Ok(if is_script { last } else { Exit::Done })
}

/// Answers one line.
fn answer(questions: &Questions<'_>, line: &Line) -> Exit {
    let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
    let answered = match words.as_slice() {
        ["help"] => target::give(HELP.as_bytes(), &line.target).map(|()| Exit::Done),
        [name, ..] if !is_asked_here(name) => Err(Failure::Usage(format!(
            "{name} does not work at this prompt: run `coremap {name}` in another terminal"
        ))),
        words => questions.answer(words, &line.target),
    };
    answered.unwrap_or_else(|failure| {
        if !failure.is_broken_pipe() {
            message(&failure.to_string());
        }
        failure.exit()
    })
}

/// Whether a command can run on an open core. True for unknown names, so that clap reports them.
fn is_asked_here(name: &str) -> bool {
    let never = ["mcp", "shell"];
    !commands::named(name)
        .is_some_and(|c| matches!(c.subject, Subject::Screen | Subject::Live) || never.contains(&c.name))
}
