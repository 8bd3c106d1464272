//! Destinations of answers.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::Failure;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::shell::line::Target;

/// Checks early whether the answer can be written to the destination.
///
/// # Errors
/// [`Failure::Usage`]
pub(super) fn check(to: &Target) -> Result<(), Failure> {
    match to {
        Target::File(name) => refuse_existing(Path::new(name), "coremap", None),
        Target::Here | Target::Pipe(_) => Ok(()),
    }
}

/// Writes an answer to the terminal, to a new file, or to another program. Waits until that program has ended.
///
/// # Errors
/// Fails if the answer cannot be written.
pub(super) fn give(text: &[u8], to: &Target) -> Result<(), Failure> {
    match to {
        Target::Here => {
            let mut out = io::stdout().lock();
            out.write_all(text)?;
            Ok(out.flush()?)
        }
        Target::File(name) => {
            check(to)?;
            let refused = |e: io::Error| not_written(Path::new(name), &e);
            let new = NewFile::create(Path::new(name)).map_err(refused)?;
            new.file().write_all(text).map_err(refused)?;
            new.keep().map_err(refused)
        }
        Target::Pipe(command) => {
            let mut child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::piped()).spawn()?;
            let written = child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(text));
            child.wait()?;
            match written {
                // The program has read enough, as `head` does.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => Ok(written?),
            }
        }
    }
}
