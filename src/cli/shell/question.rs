//! A command that runs on the open core, in its own thread. Ctrl-C returns to the prompt, and the thread continues in
//! the background.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;
use std::{io, thread};

use clap::error::ErrorKind;
use coremap::progress::Progress;

use crate::cli::args::{Colour, Common};
use crate::cli::output::{look, message};
use crate::cli::program::Args;
use crate::cli::shell::line::Target;
use crate::cli::shell::{Open, target};
use crate::cli::{Exit, Failure, console, interrupt, lent, progress, words};

/// Stack size of the thread in bytes: as large as a main thread's.
const STACK: usize = 8 << 20;

/// Interval of checks for the answer. The answer and Ctrl-C also wake the waiting thread at once.
const WAIT: Duration = Duration::from_millis(100);

/// Width of an uncut answer, in columns.
const UNLIMITED: usize = 1 << 16;

/// Returns clap's error as one line, without the usage.
fn mistake(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    lines.join("; ").trim_start_matches("error: ").to_owned()
}

/// Result of a command: its status or the reason why there is none, and its output.
type Answered = (Result<Exit, Failure>, lent::Written);

/// Runs commands on an open core.
pub(super) struct Questions<'a> {
    session: Open,
    core: &'a Path,
    common: &'a Common,
}

impl<'a> Questions<'a> {
    pub(super) fn new(session: Open, core: &'a Path, common: &'a Common) -> Questions<'a> {
        Questions { session, core, common }
    }

    /// Runs a command and writes its answer to `to`.
    ///
    /// # Errors
    /// Returns the reason why there is no answer.
    pub(super) fn answer(&self, asked: &[&str], to: &Target) -> Result<Exit, Failure> {
        target::check(to)?;
        let line = words::in_our_words(self.line(asked, to));
        // Report errors in the line before a thread is started.
        if let Err(e) = Args::read(line.iter().cloned()) {
            if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                target::give(e.render().to_string().as_bytes(), to)?;
                return Ok(Exit::Done);
            }
            return Err(Failure::Usage(mistake(&e.to_string())));
        }
        let columns = look(self.common).width.filter(|_| *to == Target::Here).unwrap_or(UNLIMITED);
        self.session.process.begin_question();
        interrupt::take_interrupt();
        let Some((ended, written)) = self.run(line, columns)? else {
            // End the line on which the terminal shows ^C.
            console::print(b"\n");
            message("interrupted; the work goes on in the background, and later answers use what it finds");
            return Ok(Exit::Done);
        };
        target::give(&written.text, to)?;
        console::print(&written.messages);
        if self.session.process.is_spent() {
            message(
                "the budget of memory or work is spent, and further answers lack the same: leave, and begin again with --memory SIZE",
            );
        }
        ended
    }

    /// Returns the command line, with the core last.
    fn line(&self, asked: &[&str], to: &Target) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["coremap".into()];
        line.extend(asked.iter().map(Into::into));
        if asked.first() == Some(&"help") || asked.contains(&"--help") || asked.contains(&"-h") {
            return line;
        }
        let is_shown = *to == Target::Here && io::stdout().is_terminal();
        let color = match self.common.color {
            Colour::Never => "never",
            Colour::Always => "always",
            Colour::Auto if is_shown && look(self.common).color => "always",
            // The terminal shows bars, but no colours.
            Colour::Auto if is_shown => "auto",
            Colour::Auto => "never",
        };
        if !asked.iter().any(|word| word.starts_with("--color")) {
            line.extend(["--color".into(), color.into()]);
        }
        // Commands about the program itself read no core.
        if !asked.first().is_some_and(|name| ["schema", "completions", "man"].contains(name)) {
            line.extend(["--".into(), self.core.into()]);
        }
        line
    }

    /// Runs a command to its end. `None` if it was interrupted.
    fn run(&self, line: Vec<OsString>, columns: usize) -> io::Result<Option<Answered>> {
        let session = self.session;
        let (send, receive) = channel();
        let asks = thread::current();
        let run = move || {
            let answered = lent::split(Some(session), columns, || {
                let args = Args::read(line).map_err(|e| Failure::Usage(e.to_string()))?;
                args.command.run(&args.common)
            });
            // If the command was interrupted, no receiver waits.
            let _ = send.send(answered);
            asks.unpark();
        };
        thread::Builder::new().name("answer".into()).stack_size(STACK).spawn(run)?;
        let silent = Progress::silent();
        Ok(progress::while_doing(&|| session.process.doing(), &silent, || {
            loop {
                match receive.try_recv() {
                    Ok(answered) => return Some(answered),
                    Err(TryRecvError::Disconnected) => {
                        // The command panicked. The message is on stderr.
                        return Some((Ok(Exit::Partial), lent::Written::default()));
                    }
                    Err(TryRecvError::Empty) => {}
                }
                if interrupt::take_interrupt() {
                    return None;
                }
                thread::park_timeout(WAIT);
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line() {
        let text =
            Args::read(["coremap", "nonsense", "core"]).err().map(|e| mistake(&e.to_string())).unwrap_or_default();
        assert!(text.starts_with("unrecognized subcommand 'nonsense'; tip: ") && !text.contains('\n'), "{text}");
    }
}
