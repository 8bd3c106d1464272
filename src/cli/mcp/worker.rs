//! A worker: this program in another role. It opens one core, keeps what it has read, and answers the questions of a
//! server. Questions and answers are lines of JSON on stdin and stdout. It ends when its stdin ends.
//!
//! A question about two cores opens them itself. Its worker only keeps the answer for further pages.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use coremap::process::Process;
use coremap::session::Session;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::mcp::answer::{self, Answered, Trouble};
use crate::cli::mcp::tools::{self, Tool};
use crate::cli::program::Args;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, lent};

/// Maximum length of a command's JSON in bytes.
const MAX_ANSWER: usize = 32 << 20;

/// Number of answers stored for further pages.
const KEPT: usize = 8;

/// Width of messages in columns.
const COLUMNS: usize = 100;

/// Interval of progress reports on a long question.
const NEWS: Duration = Duration::from_millis(500);

/// A question from the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) tool: String,
    /// The words of the command line, without `coremap`.
    pub(super) words: Vec<String>,
    /// The same command line, ready to paste.
    pub(super) command: String,
    pub(super) cursor: Option<String>,
    pub(super) max: usize,
}

/// A line to the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum News {
    /// The work in progress.
    Doing(String),
    /// The answer.
    Answer(Value),
}

/// The open core.
type Open = &'static Session<'static>;

/// Answers questions until stdin ends.
///
/// # Errors
/// Fails if the server does not take an answer.
pub(super) fn work(cores: &[PathBuf], show_data: bool, common: &Common) -> Result<Exit, Failure> {
    let orders = orders()?;
    let opened = match cores {
        [core] => Some(open(core, common, &progress()).map(|process| {
            let process: &'static Process = Box::leak(Box::new(process));
            let session: Open = Box::leak(Box::new(Session::new(process)));
            session
        })),
        _ => None,
    };
    let session = opened.as_ref().and_then(|opened| opened.as_ref().ok()).copied();
    // Paths and retained sizes of all questions use one graph.
    let _graphs = session.map(Session::retain_graphs);
    let mut worker = Worker { session, show_data, kept: VecDeque::new() };
    for order in orders {
        let Some(tool) = tools::named(&order.tool) else { continue };
        let answer = match &opened {
            Some(Err(failure)) => answer::trouble(tool, &order.command, trouble_of(failure), &failure.to_string()),
            _ => worker.answer(tool, &order)?,
        };
        say(&News::Answer(answer))?;
        // After a budget is spent, results that were read with it stay incomplete. A new worker starts afresh.
        if worker.must_end() {
            break;
        }
    }
    Ok(Exit::Done)
}

/// Starts a thread that reads questions. When stdin ends, the thread ends the process, even during a question.
fn orders() -> Result<Receiver<Order>, Failure> {
    let (send, receive) = channel();
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(order) = line.map_err(|_| ()).and_then(|line| serde_json::from_str(&line).map_err(|_| ())) else {
                break;
            };
            if send.send(order).is_err() {
                break;
            }
        }
        std::process::exit(0);
    };
    std::thread::Builder::new().name("orders".into()).spawn(read)?;
    Ok(receive)
}

fn say(news: &News) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(news).map_err(std::io::Error::from)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

fn trouble_of(failure: &Failure) -> Trouble {
    match failure {
        Failure::Usage(_) => Trouble::Question,
        Failure::Input(_) | Failure::Beside(_) | Failure::Output(_) => Trouble::Unreadable,
    }
}

struct Worker {
    session: Option<Open>,
    show_data: bool,
    /// The last answers, with their command lines.
    kept: VecDeque<(String, Answered)>,
}

/// Reason why a question has no answer, and a message that may contain text of the process.
type NoAnswer = (Trouble, String);

impl Worker {
    fn must_end(&self) -> bool {
        self.session.is_some_and(|session| session.process.is_spent())
    }

    fn answer(&mut self, tool: &Tool, order: &Order) -> Result<Value, Failure> {
        let known = self.kept.iter().position(|(command, _)| *command == order.command);
        if known.is_none() {
            match self.ask(tool, order) {
                Ok(answered) => self.kept.push_back((order.command.clone(), answered)),
                Err((Trouble::Ended, message)) => {
                    say(&News::Answer(answer::trouble(tool, &order.command, Trouble::Ended, &message)))?;
                    // After a panic, stored results may be inconsistent.
                    std::process::exit(Exit::Input as i32);
                }
                Err((trouble, message)) => return Ok(answer::trouble(tool, &order.command, trouble, &message)),
            }
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
        let found = self.kept.iter().find(|(command, _)| *command == order.command);
        Ok(match found {
            Some((_, answered)) => answer::of(tool, &order.command, answered, order.cursor.as_deref(), order.max),
            None => answer::trouble(tool, &order.command, Trouble::Ended, ""),
        })
    }

    /// Runs the command.
    fn ask(&self, tool: &Tool, order: &Order) -> Result<Answered, NoAnswer> {
        if let Some(session) = self.session {
            session.process.begin_question();
        }
        let line = std::iter::once("coremap").chain(order.words.iter().map(String::as_str));
        let args = Args::read(line).map_err(|e| (Trouble::Arguments, e.to_string()))?;
        let run = || args.command.run(&args.common);
        let (ended, written) =
            self.with_news(|| lent::split(self.session, COLUMNS, || catch_unwind(AssertUnwindSafe(run))));
        let messages = String::from_utf8_lossy(&written.messages).into_owned();
        let exit = match ended {
            Ok(Ok(exit)) => exit,
            Ok(Err(failure)) => return Err((trouble_of(&failure), failure.to_string())),
            Err(_) => return Err((Trouble::Ended, String::new())),
        };
        if written.text.len() > MAX_ANSWER {
            return Err((Trouble::TooLarge, String::new()));
        }
        let mut answer: Value = match serde_json::from_slice(&written.text) {
            Ok(answer) => answer,
            Err(e) => return Err((Trouble::Ended, e.to_string())),
        };
        if !self.show_data {
            answer::hide(tool, &mut answer);
        }
        Ok(Answered { exit, answer, messages })
    }

    /// Runs `work`, and reports the work in progress to the server every half second.
    fn with_news<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(session) = self.session else { return work() };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reporter = std::thread::Builder::new().name("news".into()).spawn_scoped(scope, || {
                loop {
                    std::thread::park_timeout(NEWS);
                    if done.load(Ordering::Acquire) || say(&News::Doing(session.process.doing().to_owned())).is_err() {
                        break;
                    }
                }
            });
            let result = work();
            done.store(true, Ordering::Release);
            // Without the reporting thread, the question is answered without progress reports.
            if let Ok(reporter) = reporter {
                reporter.thread().unpark();
            }
            result
        })
    }
}
