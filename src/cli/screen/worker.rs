//! The thread that makes reports, so that keys are answered while it does.

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

/// As large as the stack of a program's first thread, which commands run on otherwise.
const STACK: usize = 8 << 20;

/// What the worker tells.
pub(super) enum News {
    /// A part was begun.
    Begun(Part),
    /// It is there, with whatever else is in the look; of a process that runs with what it cost.
    Made(Look, Option<Cost>),
    /// The process could not be looked at, and why.
    Failed(String),
}

/// What is looked at now: for those who wait.
#[derive(Clone)]
struct Present {
    process: Arc<Process>,
    progress: Arc<Progress>,
}

/// Shared by the worker and the loop.
type Shared = Arc<Mutex<Option<Present>>>;

fn held(present: &Shared) -> MutexGuard<'_, Option<Present>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The worker, as the loop sees it.
pub(super) struct Worker {
    orders: Sender<Vec<Part>>,
    pub(super) news: Receiver<News>,
    present: Shared,
}

/// How a process that runs is opened, for each look anew.
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
    /// Begin with all parts of a core, each made once.
    ///
    /// # Errors
    /// Where there can be no further thread.
    pub(super) fn of_core(process: Process) -> io::Result<Worker> {
        let now = Present { process: Arc::new(process), progress: Arc::new(Progress::silent()) };
        let its = now.clone();
        Worker::begin(Some(now), move |orders, news, _| {
            make_all(&Session::new(&its.process), &its.progress, orders, news);
        })
    }

    /// Look at a process that runs whenever that is ordered.
    ///
    /// # Errors
    /// Where there can be no further thread.
    pub(super) fn of_process(source: Source) -> io::Result<Worker> {
        Worker::begin(None, move |orders, news, present| {
            for parts in orders {
                let told = look(&source, &parts, news, present);
                *held(present) = None;
                if news.send(told).is_err() {
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
        let (tell, news) = channel();
        let present: Shared = Arc::new(Mutex::new(now));
        let its = present.clone();
        let work = move || work(&taken, &tell, &its);
        thread::Builder::new().name("reports".into()).stack_size(STACK).spawn(work)?;
        Ok(Worker { orders, news, present })
    }

    /// Let these parts be the next that are made.
    pub(super) fn order(&self, parts: Vec<Part>) {
        // It has ended where all of a core is made.
        let _ = self.orders.send(parts);
    }

    /// What is being done, with the share of it that is done, where that is counted.
    pub(super) fn doing(&self) -> (&'static str, Option<f64>) {
        let Some(now) = held(&self.present).clone() else { return ("opening", None) };
        let (done, total) = now.progress.state();
        let share = (1..total).contains(&done).then(|| done as f64 / total as f64);
        (now.process.doing(), share)
    }
}

/// Make all parts, those first that somebody waits for.
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
                // Nobody looks any more.
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

/// Look at a process that runs: it stands still until all is read that its reports need.
fn look(source: &Source, parts: &[Part], news: &Sender<News>, present: &Shared) -> News {
    let began = Instant::now();
    let _ = news.send(News::Begun(parts.last().copied().unwrap_or(Part::Map)));
    let progress = Arc::new(Progress::silent());
    let process = match Process::open(&source.path, &source.options(), &progress) {
        Ok(process) => Arc::new(process),
        Err(e) => return News::Failed(printable(&e.to_string()).into_owned()),
    };
    *held(present) = Some(Present { process: process.clone(), progress: progress.clone() });
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
