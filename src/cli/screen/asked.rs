//! Runs a coremap command in a child process, so that it can be cancelled at any time and shares nothing with the
//! screen.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::cli::args::{Colour, Common};
use crate::cli::output::SHOWN_IN;

/// Maximum number of bytes shown of an answer; nobody reads more on a screen.
const MOST: u64 = 16 << 20;

pub(super) struct Asked {
    child: Child,
    /// Receives the output of each stream when it is closed.
    streams: [Receiver<String>; 2],
    texts: [Option<String>; 2],
}

impl Asked {
    /// Starts `words` on `core`, for a screen of `columns` columns.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
    pub(super) fn begin(
        words: &[String],
        core: &Path,
        common: &Common,
        columns: u16,
        color: bool,
    ) -> io::Result<Asked> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words);
        for dir in &common.symbols {
            command.arg("--symbols").arg(dir);
        }
        if let Some(file) = &common.smaps {
            command.arg("--smaps").arg(file);
        }
        if let Some(memory) = common.memory {
            command.arg("--memory").arg(memory.to_string());
        }
        if common.no_stop {
            command.arg("--no-stop");
        }
        if let Some(time) = common.stop_at_most {
            command.arg("--stop-at-most").arg(format!("{}ms", time.as_millis()));
        }
        let when = match (common.color, color) {
            (Colour::Never, _) => "never",
            (_, true) => "always",
            // No colours, but unlike `never` bar charts.
            (_, false) => "auto",
        };
        command.args(["--color", when]).env(SHOWN_IN, columns.to_string());
        // The name may begin like an option.
        command.arg("--").arg(core);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let streams = [collect(out)?, collect(err)?];
        Ok(Asked { child, streams, texts: [None, None] })
    }

    /// Returns the text and the exit status, once the command has ended.
    pub(super) fn answer(&mut self) -> Option<(String, io::Result<ExitStatus>)> {
        for (stream, text) in self.streams.iter().zip(&mut self.texts) {
            if text.is_none() {
                *text = stream.try_recv().ok();
            }
        }
        let [Some(out), Some(err)] = &mut self.texts else { return None };
        if err.is_empty() || out.is_empty() {
            out.push_str(err);
        } else {
            out.push('\n');
            out.push_str(err);
        }
        Some((std::mem::take(out), self.child.wait()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // This has no effect if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a stream to its end in a separate thread.
fn collect(stream: Option<impl Read + Send + 'static>) -> io::Result<Receiver<String>> {
    let (send, receive) = channel();
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let read = (&mut stream).take(MOST).read_to_end(&mut bytes);
            let more = io::copy(&mut stream, &mut io::sink()).unwrap_or(0);
            if read.is_ok() && more > 0 {
                bytes.extend(format!("\n({more} more bytes not shown)\n").bytes());
            }
        }
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    thread::Builder::new().name("answer".into()).spawn(read)?;
    Ok(receive)
}
