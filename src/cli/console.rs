//! Standard error. Only a thread of its own writes to it.
//!
//! A terminal may stop taking text (Ctrl-S, a dead ssh connection), and so may a pipe. Text is put into a queue, so
//! that a process which is stopped meanwhile does not wait for it.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coremap::program::stops;
use coremap::program::units::count;

/// Maximum length of the queue in bytes for text that can be left out.
const MAX_WAITING: usize = 1 << 20;

/// Stack size of the thread in bytes.
const STACK: usize = 256 << 10;

struct Queue {
    waiting: Vec<u8>,
    /// Whether the thread is writing what it took from the queue.
    is_writing: bool,
    has_thread: bool,
    /// Number of lines left out since the last write.
    left_out: u64,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { waiting: Vec::new(), is_writing: false, has_thread: false, left_out: 0 });

/// Notified when the queue changes.
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_writing
    }

    fn add(&mut self, text: &[u8]) {
        self.waiting.extend_from_slice(text);
        if !self.has_thread {
            let thread = std::thread::Builder::new().name("console".into()).stack_size(STACK);
            // Without a thread, `flush` writes.
            self.has_thread = thread.spawn(write_forever).is_ok();
        }
        CHANGED.notify_all();
    }

    /// Returns the waiting text, then a line that says how much was left out.
    fn take(&mut self) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.waiting);
        if self.left_out > 0 {
            text.extend(format!("coremap: {} of the log left out\n", count(self.left_out, "line")).bytes());
            self.left_out = 0;
        }
        text
    }
}

/// Prints text. Never waits. Errors are ignored: an answer is complete even if nobody reads stderr.
pub(crate) fn print(text: &[u8]) {
    queue().add(text);
}

/// Prints a line of a log, and waits until it is written. While a process is stopped it does not wait, and leaves the
/// line out if too much text waits.
pub(crate) fn log(line: &[u8]) {
    let mut queue = queue();
    if stops::is_any() && queue.waiting.len().saturating_add(line.len()) > MAX_WAITING {
        queue.left_out += 1;
        return;
    }
    queue.add(line);
    while queue.has_thread && !queue.is_idle() && !stops::is_any() {
        let waited = CHANGED.wait_timeout(queue, Duration::from_millis(100));
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Whether everything was written.
pub(crate) fn is_idle() -> bool {
    queue().is_idle()
}

/// Waits until everything is written. Stopped processes resume first.
pub(crate) fn flush() {
    stops::release_all();
    let mut queue = queue();
    if !queue.has_thread {
        let _ = io::stderr().write_all(&queue.take());
        return;
    }
    while !queue.is_idle() {
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Waits until everything is written, but not longer than `limit`.
pub(crate) fn flush_within(limit: Duration) {
    let until = Instant::now() + limit;
    let mut queue = queue();
    while queue.has_thread && !queue.is_idle() {
        let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { return };
        queue = CHANGED.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Body of the thread.
fn write_forever() {
    let mut held = queue();
    loop {
        held = CHANGED.wait_while(held, |queue| queue.waiting.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let text = held.take();
        held.is_writing = true;
        drop(held);
        // A terminal may stop jobs in the background that write to it (SIGTTOU, `stty tostop`).
        if in_background() {
            stops::wait();
        }
        let _ = io::stderr().write_all(&text);
        held = queue();
        held.is_writing = false;
        CHANGED.notify_all();
    }
}

/// Whether stderr is a terminal on which another job is in the foreground.
#[cfg(unix)]
pub(crate) fn in_background() -> bool {
    rustix::termios::tcgetpgrp(io::stderr()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Consoles of Windows have no jobs.
#[cfg(not(unix))]
pub(crate) fn in_background() -> bool {
    false
}
