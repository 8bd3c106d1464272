use std::fmt;
use std::io;
use std::process::ExitCode;

use coremap::process::ProcessError;

/// Exit statuses; docs/output.md lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Nothing was found, or a `--fail-if` condition holds.
    Nothing = 1,
    /// Wrong usage.
    Usage = 2,
    /// Input unreadable, or not a core.
    Input = 3,
    /// The answer is incomplete because data is damaged or lost; the warning line says what.
    Partial = 4,
}

impl Exit {
    /// [`Exit::Nothing`] if `nothing` was found and the status would be [`Exit::Done`].
    pub(crate) fn or_nothing(self, nothing: bool) -> Exit {
        if nothing && self == Exit::Done { Exit::Nothing } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command could not answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The core cannot be opened.
    Input(ProcessError),
    /// Another input, such as a baseline or a text, cannot be read.
    Beside(String),
    /// An argument makes no sense for this core.
    Usage(String),
    /// The answer cannot be written.
    Output(io::Error),
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Input(_) | Failure::Beside(_) => Exit::Input,
            Failure::Usage(_) => Exit::Usage,
            Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Failure::Output(_) => Exit::Input,
        }
    }

    /// Whether the reader closed the pipe, as `| head` does. That is not an error.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Failure::Input(e) => e.to_string(),
            Failure::Usage(text) | Failure::Beside(text) => text.clone(),
            Failure::Output(e) => format!("the answer could not be written: {}", reason(e)),
        };
        f.write_str(&coremap::program::printable(&text))
    }
}

/// Returns the system's error message without its number.
fn reason(e: &io::Error) -> String {
    let text = e.to_string();
    e.raw_os_error().and_then(|n| text.strip_suffix(&format!(" (os error {n})"))).unwrap_or(&text).to_owned()
}

impl From<ProcessError> for Failure {
    fn from(e: ProcessError) -> Failure {
        Failure::Input(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Output(e)
    }
}
