//! Runs a coremap command for a page of the screen: on the open core, in a thread of its own, or for a running process
//! in a child process, since only one process may trace the target.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use coremap::session::Session;

use crate::cli::args::{Colour, Common};
use crate::cli::output::{SHOWN_IN, message};
use crate::cli::program::Args;
use crate::cli::{lent, words};

/// Maximum number of bytes shown of an answer; nobody reads more on a screen.
const MOST: u64 = 16 << 20;

/// Stack size of the thread in bytes, as large as a main thread's.
const STACK: usize = 8 << 20;

/// A command that runs.
pub(super) enum Asked {
    /// In a child process.
    Child(AskedChild),
    /// In a thread, whose answer it receives.
    Thread(Receiver<String>),
}

/// A child process with its output.
pub(super) struct AskedChild {
    child: Child,
    /// Receives the output of each stream when it is closed.
    streams: [Receiver<String>; 2],
    texts: [Option<String>; 2],
}

impl Asked {
    /// Starts `asked` on an open core, for a screen of `columns` columns. A command that is cancelled runs to its end,
    /// and nobody reads its answer.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn on_open_core(
        asked: &[String],
        session: &'static Session<'static>,
        core: &Path,
        (columns, color): (u16, Colour),
    ) -> io::Result<Asked> {
        let color = match color {
            Colour::Always => "always",
            Colour::Auto => "auto",
            Colour::Never => "never",
        };
        let mut line: Vec<std::ffi::OsString> = vec!["coremap".into()];
        line.extend(asked.iter().map(Into::into));
        // The name may begin like an option.
        line.extend(["--color", color, "--"].map(Into::into));
        line.push(core.into());
        let (send, receive) = channel();
        let run = move || {
            // Each page has the work of a command of its own.
            session.process.begin_question();
            let text = lent::with(session, usize::from(columns), || match Args::read(words::in_our_words(line)) {
                Ok(args) => {
                    if let Err(failure) = args.command.run(&args.common) {
                        message(&failure.to_string());
                    }
                }
                Err(e) => message(&e.to_string()),
            });
            let end = text.len().min(MOST as usize);
            let mut shown = String::from_utf8_lossy(text.get(..end).unwrap_or_default()).into_owned();
            if end < text.len() {
                shown.push_str(&format!("\n({} more bytes not shown)\n", text.len() - end));
            }
            // The page may be closed by now.
            let _ = send.send(shown);
        };
        thread::Builder::new().name("answer".into()).stack_size(STACK).spawn(run)?;
        Ok(Asked::Thread(receive))
    }

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
        Ok(Asked::Child(AskedChild { child, streams, texts: [None, None] }))
    }

    /// Returns the text, once the command has ended. If it wrote nothing, the text says so.
    pub(super) fn answer(&mut self) -> Option<String> {
        match self {
            Asked::Thread(answer) => {
                let text = match answer.try_recv() {
                    Ok(text) => text,
                    Err(TryRecvError::Empty) => return None,
                    // It panicked.
                    Err(TryRecvError::Disconnected) => String::new(),
                };
                Some(if text.is_empty() { "(nothing was printed)".to_owned() } else { text })
            }
            Asked::Child(child) => {
                let (text, status) = child.answer()?;
                Some(match status {
                    _ if !text.is_empty() => text,
                    Ok(status) => format!("(nothing was printed; {status})"),
                    Err(e) => format!("(nothing was printed: {e})"),
                })
            }
        }
    }
}

impl AskedChild {
    /// Returns the text and the exit status, once the command has ended.
    fn answer(&mut self) -> Option<(String, io::Result<ExitStatus>)> {
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

impl Drop for AskedChild {
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
