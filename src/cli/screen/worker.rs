//! The thread that makes reports, so that keys are answered while it does.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use coremap::process::Process;
use coremap::progress::Progress;
use coremap::session::Session;

use crate::cli::screen::look::{Look, Part};

/// As large as the stack of a program's first thread, which commands run on otherwise.
const STACK: usize = 8 << 20;

/// What the worker tells.
pub(super) enum News {
    /// A part was begun.
    Begun(Part),
    /// It is there, with whatever else is in the look.
    Made(Look),
}

/// The worker, as the loop sees it.
pub(super) struct Worker {
    orders: Sender<Part>,
    pub(super) news: Receiver<News>,
    process: Arc<Process>,
    progress: Arc<Progress>,
}

impl Worker {
    /// Begin with all parts of a core, each made once.
    ///
    /// # Errors
    /// Where there can be no further thread.
    pub(super) fn of_core(process: Process) -> io::Result<Worker> {
        let (orders, taken) = channel();
        let (tell, news) = channel();
        let process = Arc::new(process);
        let progress = Arc::new(Progress::silent());
        let (its, counted) = (process.clone(), progress.clone());
        let work = move || make_all(&Session::new(&its), &counted, &taken, &tell);
        thread::Builder::new().name("reports".into()).stack_size(STACK).spawn(work)?;
        Ok(Worker { orders, news, process, progress })
    }

    /// Let `part` be the next that is made.
    pub(super) fn hurry(&self, part: Part) {
        // It has ended where all is made.
        let _ = self.orders.send(part);
    }

    /// What is being done, with the share of it that is done, where that is counted.
    pub(super) fn doing(&self) -> (&'static str, Option<f64>) {
        let (done, total) = self.progress.state();
        let share = (1..total).contains(&done).then(|| done as f64 / total as f64);
        (self.process.doing(), share)
    }
}

/// Make all parts, those first that somebody waits for.
fn make_all(session: &Session<'_>, progress: &Progress, orders: &Receiver<Part>, news: &Sender<News>) {
    let mut left: VecDeque<Part> = Part::ALL.into();
    while let Some(first) = left.pop_front() {
        let mut next = first;
        loop {
            match orders.try_recv() {
                Ok(part) => {
                    if let Some(at) = left.iter().position(|&other| other == part) {
                        left.remove(at);
                        left.push_front(next);
                        next = part;
                    }
                }
                Err(TryRecvError::Empty) => break,
                // Nobody looks any more.
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let mut look = Look::default();
        if news.send(News::Begun(next)).is_err() {
            return;
        }
        look.make(next, session, progress);
        if news.send(News::Made(look)).is_err() {
            return;
        }
    }
}
