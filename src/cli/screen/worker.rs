//! The thread that makes reports, so that keys are answered meanwhile.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use coremap::process::{Options, Process};
use coremap::program::printable;
use coremap::progress::Progress;
use coremap::session::Session;

use crate::cli::args::Common;
use crate::cli::screen::clock::Cost;
use crate::cli::screen::look::{Look, Part};

/// Stack size of the worker, as large as a main thread's, on which commands run
/// otherwise.
const STACK: usize = 8 << 20;

/// News from the worker.
pub(super) enum News {
    /// A part was begun.
    Begun(Part),
    /// The part is available, with everything else in the sample. For a running
    /// process, also the cost.
    Made(Look, Option<Cost>),
    /// The process could not be sampled, and why.
    Failed(String),
}

/// The process that is being read, and its progress.
#[derive(Clone)]
struct Present {
    process: ProcessRef,
    progress: Arc<Progress>,
}

/// A process that is being read.
#[derive(Clone)]
enum ProcessRef {
    /// A core, which is open until the program ends.
    Core(&'static Process),
    /// A sample of a running process.
    Sample(Arc<Process>),
}

impl ProcessRef {
    fn doing(&self) -> &'static str {
        match self {
            ProcessRef::Core(process) => process.doing(),
            ProcessRef::Sample(process) => process.doing(),
        }
    }
}

type Shared = Arc<Mutex<Option<Present>>>;

fn held(present: &Shared) -> MutexGuard<'_, Option<Present>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The loop's side of the worker.
pub(super) struct Worker {
    orders: Sender<Vec<Part>>,
    pub(super) news: Receiver<News>,
    present: Shared,
}

/// How a running process is opened for each sample.
pub(super) struct Source {
    path: PathBuf,
    symbols: Vec<PathBuf>,
    memory: Option<u64>,
    no_stop: bool,
    stop_at_most: Option<Duration>,
}

impl Source {
    pub(super) fn new(path: PathBuf, common: &Common) -> Source {
        let (memory, no_stop, stop_at_most) = (common.memory, common.no_stop, common.stop_at_most);
        Source { path, symbols: common.symbols.clone(), memory, no_stop, stop_at_most }
    }

    fn options(&self) -> Options {
        Options {
            symbols: self.symbols.clone(),
            memory: self.memory,
            alone: true,
            handle_sigbus: true,
            no_stop: self.no_stop,
            stop_at_most: self.stop_at_most,
            ..Options::default()
        }
    }
}

impl Worker {
    /// Starts making all parts for a core, each once.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn of_core(session: &'static Session<'static>) -> io::Result<Worker> {
        let now = Present { process: ProcessRef::Core(session.process), progress: Arc::new(Progress::silent()) };
        let progress = now.progress.clone();
        Worker::begin(Some(now), move |orders, news, _| make_all(session, &progress, orders, news))
    }

    /// Starts a worker that samples a running process on request.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn of_process(source: Source) -> io::Result<Worker> {
        Worker::begin(None, move |orders, news, present| {
            for parts in orders {
                let answer = look(&source, &parts, news, present);
                *held(present) = None;
                if news.send(answer).is_err() {
                    return;
                }
            }
        })
    }

    fn begin(
        now: Option<Present>,
        work: impl FnOnce(&Receiver<Vec<Part>>, &Sender<News>, &Shared) + Send + 'static,
    ) -> io::Result<Worker> {
        let (orders, taken) = channel();
        let (sender, news) = channel();
        let present: Shared = Arc::new(Mutex::new(now));
        let its = present.clone();
        let work = move || work(&taken, &sender, &its);
        thread::Builder::new().name("reports".into()).stack_size(STACK).spawn(work)?;
        Ok(Worker { orders, news, present })
    }

    /// Makes these parts next.
    pub(super) fn order(&self, parts: Vec<Part>) {
        // The worker ends when all parts of a core are made.
        let _ = self.orders.send(parts);
    }

    /// The current work, and the finished share if it is counted.
    pub(super) fn doing(&self) -> (&'static str, Option<f64>) {
        let Some(now) = held(&self.present).clone() else { return ("opening", None) };
        let (done, total) = now.progress.state();
        let share = (1..total).contains(&done).then(|| done as f64 / total as f64);
        (now.process.doing(), share)
    }
}

/// Makes all parts, requested ones first.
fn make_all(session: &Session<'_>, progress: &Progress, orders: &Receiver<Vec<Part>>, news: &Sender<News>) {
    let mut left: VecDeque<Part> = Part::ALL.into();
    while !left.is_empty() {
        loop {
            match orders.try_recv() {
                Ok(parts) => {
                    let wanted = |part: &Part| parts.contains(part);
                    let (first, rest): (VecDeque<Part>, VecDeque<Part>) = left.iter().partition(|part| wanted(part));
                    left = first.into_iter().chain(rest).collect();
                }
                Err(TryRecvError::Empty) => break,
                // The loop has ended.
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let Some(next) = left.pop_front() else { return };
        let mut look = Look::default();
        if news.send(News::Begun(next)).is_err() {
            return;
        }
        look.make(next, session, progress);
        look.finish(session);
        if news.send(News::Made(look, None)).is_err() {
            return;
        }
    }
}

/// Samples a running process. It is stopped until everything its reports need
/// has been read.
fn look(source: &Source, parts: &[Part], news: &Sender<News>, present: &Shared) -> News {
    let began = Instant::now();
    let _ = news.send(News::Begun(parts.last().copied().unwrap_or(Part::Map)));
    let progress = Arc::new(Progress::silent());
    let process = match Process::open(&source.path, &source.options(), &progress) {
        Ok(process) => Arc::new(process),
        Err(e) => return News::Failed(printable(&e.to_string()).into_owned()),
    };
    *held(present) = Some(Present { process: ProcessRef::Sample(process.clone()), progress: progress.clone() });
    let session = Session::new(&process);
    let mut look = Look::default();
    for &part in parts {
        look.make(part, &session, &progress);
    }
    look.finish(&session);
    let stood = look.core.as_ref().and_then(|core| core.stopped_ms).unwrap_or(0.0);
    let cost = Cost { stood: Duration::from_secs_f64(stood.max(0.0) / 1000.0), took: began.elapsed() };
    News::Made(look, Some(cost))
}
