//! A line on stderr for work that takes longer than half a second: what is
//! being done, and how far it is.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use coremap::process::Process;
use coremap::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{console, lent};

/// Minimum duration of work that shows a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Interval at which the line is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Templates of the line, with and without a counter.
const COUNTED: &str = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta}";
const UNCOUNTED: &str = "{spinner} {msg}, {elapsed}";

/// The line while it is on the terminal.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Returns a counter for [`while_doing`] to show.
pub(crate) fn progress() -> Progress {
    Progress::silent()
}

/// Does `work` on an open core. On a terminal, a line shows what is being done
/// if that takes a while.
pub(crate) fn watched<R>(process: &Process, progress: &Progress, work: impl FnOnce() -> R) -> R {
    while_doing(&|| process.doing(), progress, work)
}

/// Does `work` and shows a line if that takes a while. `words` returns what is
/// being done.
pub(crate) fn while_doing<R>(
    words: &(dyn Fn() -> &'static str + Sync),
    progress: &Progress,
    work: impl FnOnce() -> R,
) -> R {
    // Whoever lent the core has the terminal.
    if !std::io::stderr().is_terminal() || lent::columns().is_some() {
        return work();
    }
    let done = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().spawn_scoped(scope, || {
            let begun = Instant::now();
            while !done.load(Ordering::Acquire) {
                if begun.elapsed() >= PATIENCE {
                    draw(words(), progress.state());
                }
                std::thread::park_timeout(if begun.elapsed() >= PATIENCE { TICK } else { PATIENCE });
            }
        });
        // Without a thread to draw the line, the work is still done.
        let _end = watcher.ok().map(|watcher| End { done: &done, watcher: watcher.thread().clone() });
        work()
    });
    clear();
    answer
}

/// Ends the watching thread, also if the work panics. Otherwise the scope would
/// wait forever.
struct End<'a> {
    done: &'a AtomicBool,
    watcher: Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}

fn draw(words: &'static str, (done, total): (u64, u64)) {
    // A terminal that takes no text gets no further line, and one where another job is in the foreground gets none.
    if !console::is_idle() || console::in_background() {
        return;
    }
    let Ok(mut shown) = LINE.lock() else { return };
    let line = shown.get_or_insert_with(|| ProgressBar::with_draw_target(None, terminal()));
    line.set_message(words);
    // A full counter belongs to a finished step; the current step has no
    // counter.
    let counted = (1..total).contains(&done);
    if counted {
        line.set_length(total);
        line.set_position(done);
    }
    if let Ok(style) = ProgressStyle::with_template(if counted { COUNTED } else { UNCOUNTED }) {
        line.set_style(style);
    }
    line.tick();
}

/// Returns the terminal of the line. On Windows no process is ever stopped, and indicatif knows its older consoles.
#[cfg(windows)]
fn terminal() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr()
}

#[cfg(not(windows))]
fn terminal() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like(Box::new(queued::Queued::default()))
}

/// A terminal behind the queue of stderr, with the escape sequences of ECMA-48.
#[cfg(not(windows))]
mod queued {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use indicatif::TermLike;

    use crate::cli::console;

    /// Width in columns if the terminal reports none.
    const WIDTH: u16 = 80;

    /// Text that was drawn and not flushed yet.
    #[derive(Debug, Default)]
    pub(super) struct Queued(Mutex<String>);

    impl Queued {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
            Ok(())
        }

        /// Moves the cursor `n` times. `0` in the sequence would mean 1.
        fn move_cursor(&self, n: usize, direction: char) -> io::Result<()> {
            if n == 0 { Ok(()) } else { self.add(&format!("\x1b[{n}{direction}")) }
        }
    }

    impl TermLike for Queued {
        fn width(&self) -> u16 {
            terminal_size::terminal_size_of(io::stderr()).map_or(WIDTH, |(width, _)| width.0)
        }

        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.move_cursor(n, 'A')
        }

        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.move_cursor(n, 'B')
        }

        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.move_cursor(n, 'C')
        }

        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.move_cursor(n, 'D')
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text)?;
            self.add("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.add("\r\x1b[2K")
        }

        fn flush(&self) -> io::Result<()> {
            let text = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
            if !text.is_empty() {
                console::print(text.as_bytes());
            }
            Ok(())
        }
    }
}

/// Removes the line from the terminal.
///
/// A finished line is never used again: resetting it would draw it once more,
/// below the answer.
pub(crate) fn clear() {
    // The panic hook may run while another thread draws, so it does not wait
    // for the lock.
    if let Ok(mut shown) = LINE.try_lock()
        && let Some(line) = shown.take()
    {
        line.finish_and_clear();
    }
}
