//! Takes the terminal for the screen, and restores it, also if a signal ends the program or it panics.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};

use crate::cli::Failure;

/// Whether the screen has the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Locked during writes to the terminal: nothing may be written after it is restored.
static WRITING: Mutex<()> = Mutex::new(());

/// Maximum number of tries, one per millisecond, for which a signal waits for a drawing. The reader of the terminal may
/// have stopped reading.
const TRIES: u32 = 100;

/// Size of the output buffer: a drawing is written at once, so that no half of it is visible.
const PICTURE: usize = 64 << 10;

type Drawn = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal while the screen has it.
pub(super) struct Screen {
    terminal: Drawn,
    /// Set when the terminal gets a new size, until [`Screen::clear_if_resized`].
    resized: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn take() -> io::Result<Screen> {
        let resized = Arc::<AtomicBool>::default();
        // crossterm loses this signal if a key is pressed at the same time: it handles only the first event that
        // epoll_wait returns (crossterm 0.29, event/source/unix/mio.rs).
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGWINCH, Arc::clone(&resized))?;
        Ok(Screen { terminal: taken()?, resized })
    }

    /// Takes the terminal again after it was restored.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        self.terminal = taken()?;
        Ok(())
    }

    /// Records that the terminal has a new size.
    pub(super) fn set_resized(&self) {
        self.resized.store(true, Ordering::SeqCst);
    }

    /// Clears the terminal if it got a new size, because earlier output may be gone. Returns whether it did.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn clear_if_resized(&mut self) -> io::Result<bool> {
        if !self.resized.swap(false, Ordering::SeqCst) {
            return Ok(false);
        }
        let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if TAKEN.load(Ordering::SeqCst) {
            let size = self.terminal.size()?;
            self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
        }
        Ok(true)
    }

    /// Draws the screen, unless the terminal was restored in the meantime.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if TAKEN.load(Ordering::SeqCst) {
            self.terminal.draw(picture)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Takes the terminal and clears it. ratatui's own `Terminal::clear` queries the cursor position, which some terminals
/// do not answer.
fn taken() -> io::Result<Drawn> {
    let out = BufWriter::with_capacity(PICTURE, io::stdout());
    // A signal in between waits for the lock, and restores the terminal.
    let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All), Hide)?;
    Terminal::new(CrosstermBackend::new(out))
}

/// Restores the terminal if the screen has it. May be called from any thread, even during a panic.
pub(crate) fn give_back() {
    // If this thread panicked while it was drawing, the lock is never released, so the wait is limited.
    let _held = (0..TRIES).find_map(|_| match WRITING.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
        Err(TryLockError::WouldBlock) => {
            thread::sleep(Duration::from_millis(1));
            None
        }
    });
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
    }
}

/// Checks that there is a terminal to draw on. `instead` names commands that print the same as text.
///
/// # Errors
/// A sentence if there is none.
pub(super) fn wanted(command: &str, instead: &str) -> Result<(), Failure> {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !dumb {
        return Ok(());
    }
    let what = if dumb { "this terminal cannot draw (TERM=dumb)" } else { "stdout is not a terminal" };
    Err(Failure::Usage(format!("{command} is interactive, but {what}; {instead}")))
}

/// Whether the terminal shows more than ASCII, according to the locale: the first of these variables that is set and
/// not empty (POSIX, Base Definitions, 8.2). Consoles of Windows do.
pub(super) fn shows_unicode() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let locale = names.map(|value| value.to_string_lossy().to_lowercase()).find(|value| !value.is_empty());
    cfg!(windows) || locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}
