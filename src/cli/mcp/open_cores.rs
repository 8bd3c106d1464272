//! The open cores. Each has a process of its own, which keeps what it has read for further questions.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use std::{io, thread};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::cli::args::Common;
use crate::cli::mcp::worker::{News, Order};

/// Maximum number of open cores. Each may use the memory that `--memory` allows.
const MAX_OPEN: usize = 3;

/// Identity of a file when it was opened: path, length and time of the last change.
type Stamp = (PathBuf, u64, Option<SystemTime>);

/// The open cores, and how to open another.
pub(super) struct OpenCores {
    options: Vec<String>,
    open: Mutex<Vec<Arc<OpenCore>>>,
    /// Number of questions so far. Shows which core has not been asked for the longest time.
    clock: AtomicU64,
}

/// One or two cores that are read by one process.
pub(super) struct OpenCore {
    files: Vec<Stamp>,
    jobs: Sender<Job>,
    child: Mutex<Child>,
    /// Number of calls that wait for an answer.
    waiting: AtomicUsize,
    asked: AtomicU64,
    has_ended: AtomicBool,
    doing: Mutex<String>,
}

struct Job {
    line: Vec<u8>,
    answer: oneshot::Sender<Value>,
}

/// A question that is being answered. If it is dropped, the core stays open.
pub(super) struct Asked {
    /// The answer. It fails if the process ended.
    pub(super) answer: oneshot::Receiver<Value>,
    core: Arc<OpenCore>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenCores {
    /// `show_data`: whether answers may have contents of memory.
    pub(super) fn new(common: &Common, show_data: bool) -> OpenCores {
        let mut options: Vec<String> =
            common.symbols.iter().map(|dir| format!("--symbols={}", dir.display())).collect();
        options.extend(common.memory.map(|memory| format!("--memory={memory}")));
        options.extend(show_data.then(|| "--show-data".to_owned()));
        OpenCores { options, open: Mutex::default(), clock: AtomicU64::new(0) }
    }

    /// Sends a question about `cores`. Opens the cores if necessary.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub(super) fn ask(&self, cores: &[PathBuf], order: &Order) -> io::Result<Asked> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        let core = self.opened(cores)?;
        core.asked.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        core.waiting.fetch_add(1, Ordering::AcqRel);
        let asked = Asked { answer, core: core.clone() };
        // If the thread has ended, the job is dropped, and the receiver gets an error.
        let _ = core.jobs.send(Job { line, answer: send });
        Ok(asked)
    }

    fn opened(&self, cores: &[PathBuf]) -> io::Result<Arc<OpenCore>> {
        let files: Vec<Stamp> = cores.iter().map(|core| stamp(core)).collect();
        let mut open = locked(&self.open);
        open.retain(|core| !core.has_ended.load(Ordering::Acquire));
        if let Some(core) = open.iter().find(|core| core.files == files) {
            return Ok(core.clone());
        }
        // If the file was replaced, it is another core.
        let is_replaced =
            |core: &Arc<OpenCore>| core.files.iter().map(|file| &file.0).eq(files.iter().map(|file| &file.0));
        open.retain(|core| !is_replaced(core) || !core.end());
        while open.len() >= MAX_OPEN {
            let oldest = open.iter().enumerate().min_by_key(|(_, core)| core.asked.load(Ordering::Relaxed));
            let Some(at) = oldest.map(|(at, _)| at) else { break };
            open.remove(at).end();
        }
        let core = OpenCore::start(files, &self.options)?;
        open.push(core.clone());
        Ok(core)
    }
}

impl Drop for OpenCores {
    fn drop(&mut self) {
        for core in locked(&self.open).drain(..) {
            core.end();
        }
    }
}

fn stamp(core: &Path) -> Stamp {
    let meta = core.metadata().ok();
    (core.to_owned(), meta.as_ref().map_or(0, std::fs::Metadata::len), meta.and_then(|meta| meta.modified().ok()))
}

impl OpenCore {
    fn start(files: Vec<Stamp>, options: &[String]) -> io::Result<Arc<OpenCore>> {
        let mut command = Command::new(std::env::current_exe()?);
        // The server has checked that the files are in the folder. A worker reads only the files that it gets.
        command.args(["mcp", "--root=."]).args(options).arg("--worker").args(files.iter().map(|file| &file.0));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        };
        let (jobs, todo) = channel();
        let core = Arc::new(OpenCore {
            files,
            jobs,
            child: Mutex::new(child),
            waiting: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            doing: Mutex::new("opening".to_owned()),
        });
        let its = Arc::downgrade(&core);
        let serve = move || {
            serve(&todo, to, BufReader::new(from), &|doing| {
                if let Some(core) = its.upgrade() {
                    *locked(&core.doing) = doing;
                }
            });
            if let Some(core) = its.upgrade() {
                core.end();
            }
        };
        thread::Builder::new().name("core".into()).spawn(serve)?;
        Ok(core)
    }

    /// Ends the process. Always returns true.
    fn end(&self) -> bool {
        self.has_ended.store(true, Ordering::Release);
        let mut child = locked(&self.child);
        // No effect if the process has ended.
        let _ = child.kill();
        let _ = child.wait();
        true
    }
}

/// Passes questions to the process, one at a time, until it ends.
fn serve(jobs: &Receiver<Job>, mut to: impl Write, mut from: impl BufRead, doing: &dyn Fn(String)) {
    for job in jobs {
        if to.write_all(&job.line).and_then(|()| to.flush()).is_err() {
            return;
        }
        let mut line = String::new();
        loop {
            line.clear();
            if !matches!(from.read_line(&mut line), Ok(1..)) {
                return;
            }
            match serde_json::from_str(&line) {
                Ok(News::Doing(what)) => doing(what),
                Ok(News::Answer(answer)) => {
                    // The call may have been cancelled.
                    let _ = job.answer.send(answer);
                    break;
                }
                Err(_) => return,
            }
        }
    }
}

impl Asked {
    /// Describes the work in progress.
    pub(super) fn doing(&self) -> String {
        locked(&self.core.doing).clone()
    }

    /// Ends the work on this question, unless other calls wait for the same core.
    pub(super) fn cancel(self) {
        if self.core.waiting.load(Ordering::Acquire) <= 1 {
            self.core.end();
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.core.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
